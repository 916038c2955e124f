"""The state of a stack as the engine keeps it, in one file, written after each step."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.stateful.json_values import Body


@dataclass
class Resource:
    """A resource of the state."""

    urn: str
    type: str
    custom: bool
    id: str = ""
    inputs: Body = field(default_factory=dict)
    outputs: Body = field(default_factory=dict)
    """Of a Kubernetes object: the live object, and the inputs that it was made with as `__inputs`."""
    provider: str = ""
    protect: bool = False
    retain: bool = False
    before_delete: list[str] = field(default_factory=list)
    """Names of the hooks that run before it is deleted."""
    external: bool = False
    """It was read, and is not the stack's."""
    delete: bool = False
    """Another one took its place, and it is still to be deleted."""
    pending_replacement: bool = False
    """It was deleted, and what takes its place is still to be made."""
    import_id: str = ""

    @property
    def live(self) -> Body:
        """The object as the cluster last returned it."""
        return {key: value for key, value in self.outputs.items() if not key.startswith("__")}

    @property
    def name(self) -> str:
        """Its Pulumi name."""
        return self.urn.split("::", 3)[3]


@dataclass
class State:
    """All resources of a stack, in the order of their registration, and the operations that were begun."""

    path: Path
    resources: list[Resource] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    """Operations whose outcome is not known: `create urn:…`."""
    outputs: Body = field(default_factory=dict)
    """The stack's."""

    @classmethod
    def load(cls, path: Path) -> "State":
        """The state in a file; an empty one where there is none."""
        if not path.exists():
            return cls(path)
        held = json.loads(path.read_text())
        resources = [Resource(**fields) for fields in held["resources"]]
        return cls(path, resources, held["pending"], held["outputs"])

    def save(self) -> None:
        """Write the file, whole or not at all."""
        held = {"resources": [asdict(resource) for resource in self.resources], "pending": self.pending}
        scratch = self.path.with_suffix(".new")
        scratch.write_text(json.dumps({**held, "outputs": self.outputs}))
        scratch.replace(self.path)

    def find(self, urn: str) -> Resource | None:
        """The resource of this name, but for one that is still to be deleted."""
        return next((resource for resource in self.resources if resource.urn == urn and not resource.delete), None)

    def put(self, resource: Resource, old: Resource | None = None) -> None:
        """Keep a resource, in the place of an old one or behind all others."""
        if old is not None and any(existing is old for existing in self.resources):
            self.drop(old)
        self.resources.append(resource)

    def drop(self, resource: Resource) -> None:
        """Forget a resource."""
        self.resources = [existing for existing in self.resources if existing is not resource]
