"""The state of a stack in a folder backend, in the engine's own form, written after each step.

Source: DeploymentV3 in sdk/go/common/apitype/core.go of Pulumi v3.250.0; snapshot.go and operations.go of its engine.
"""

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.stateful.json_values import Body
from tests.stateful.provider import RequestFailedError

PROJECT = "trainstack"
DOING = {"create": "creating", "update": "updating", "delete": "deleting", "import": "importing"}
"""The engine's words for pending operations."""


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
    parent: str = ""
    dependencies: list[str] = field(default_factory=list)
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

    @property
    def needs(self) -> set[str]:
        """The URNs that have to be in the state too."""
        provider = self.provider.rpartition("::")[0]
        return {*self.dependencies, *filter(None, (self.parent, provider))}


_KEYS = {"retain": "retainOnDelete", "pending_replacement": "pendingReplacement", "import_id": "importID"}
_HOOKS = "resourceHooks"


def as_exported(resource: Resource) -> Body:
    """Return a resource as `pulumi stack export` prints it."""
    fields = {_KEYS.get(key, key): value for key, value in vars(resource).items() if value or key == "custom"}
    hooks = fields.pop("before_delete", None)
    return {**fields, **({_HOOKS: {"beforeDelete": hooks}} if hooks else {})}


def from_exported(fields: Body) -> Resource:
    """Read such a resource."""
    names = {exported: key for key, exported in _KEYS.items()}
    known = {names.get(key, key): value for key, value in fields.items() if key != _HOOKS}
    return Resource(**known, before_delete=(fields.get(_HOOKS) or {}).get("beforeDelete", []))


@dataclass
class State:
    """All resources of a stack, in the order of their registration, and the operations that were begun."""

    path: Path
    resources: list[Resource] = field(default_factory=list)
    pending: list[tuple[str, Resource]] = field(default_factory=list)
    """Operations whose outcome is not known: `create` and its resource."""

    @classmethod
    def load(cls, path: Path) -> "State":
        """The state in a file; an empty one where there is none."""
        if not path.exists():
            return cls(path)
        deployment = json.loads(path.read_text())["checkpoint"]["latest"]
        words = {doing: operation for operation, doing in DOING.items()}
        pending = [(words[each["type"]], from_exported(each["resource"])) for each in deployment["pending_operations"]]
        return cls(path, [from_exported(fields) for fields in deployment["resources"]], pending)

    def exported(self) -> Body:
        """Return the state as `pulumi stack export` prints it."""
        pending = [{"type": DOING[operation], "resource": as_exported(one)} for operation, one in self.pending]
        return {"resources": [as_exported(one) for one in self._in_order()], "pending_operations": pending}

    def _in_order(self) -> list[Resource]:
        """Return the resources, each behind those that it needs."""
        found: dict[int, Resource] = {}

        def add(resource: Resource) -> None:
            for needed in self.resources:
                if needed.urn in resource.needs and id(needed) not in found:
                    add(needed)
            found[id(resource)] = resource

        for resource in self.resources:
            add(resource)
        return [*found.values()]

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".new")
        scratch.write_text(json.dumps({"version": 3, "checkpoint": {"latest": self.exported()}}))
        if self.path.exists():
            self.path.replace(self.path.with_name(f"{self.path.name}.bak"))
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

    def settle(self, urn: str, operation: str = "") -> None:
        """Forget the pending operations on a resource; `operation`: the first of this kind only."""
        for entry in [entry for entry in self.pending if entry[1].urn == urn and operation in ("", entry[0])]:
            self.pending.remove(entry)
            if operation:
                return

    @property
    def problem(self) -> str:
        """Why the engine refuses the state; empty if it does not."""
        urns = {resource.urn for resource in self.resources}
        for resource in self.resources:
            if missing := resource.needs - urns:
                return f"snapshot integrity failure: resource {resource.urn} refers to missing {min(missing)}"
        return ""

    # The engine's commands

    def dependents(self, urns: Sequence[str]) -> set[str]:
        """Return the URNs of all resources that need these."""
        found, more = set[str](), {*urns}
        while more:
            found |= more
            more = {resource.urn for resource in self.resources if resource.needs & found} - found
        return found - {*urns}

    def delete(self, urn: str) -> None:
        """`pulumi state delete`. Raises RequestFailedError for a resource that others need, or a protected one."""
        if dependents := self.dependents([urn]):
            raise RequestFailedError(f"{urn} can't be safely deleted because others depend on it: {sorted(dependents)}")
        if any(resource.protect for resource in self.resources if resource.urn == urn):
            raise RequestFailedError(f"{urn} can't be safely deleted because it is protected")
        self.resources = [resource for resource in self.resources if resource.urn != urn]
        self.save()

    def forget_missing(self) -> None:
        """Drop the dependencies on what is not in the state, as a refresh does."""
        urns = {resource.urn for resource in self.resources}
        for resource in self.resources:
            resource.dependencies = [urn for urn in resource.dependencies if urn in urns]

    def repair(self) -> None:
        """`pulumi state repair`."""
        self.forget_missing()
        self.save()

    def rename(self, path: Path) -> None:
        """`pulumi stack rename` to the stack of another file."""
        old, new = f"urn:pulumi:{self.path.stem}::", f"urn:pulumi:{path.stem}::"
        text = json.dumps({"version": 3, "checkpoint": {"latest": self.exported()}})
        root = f'::{PROJECT}-{self.path.stem}"'
        path.write_text(text.replace(old, new).replace(root, f'::{PROJECT}-{path.stem}"'))
        self.path.unlink()


def state_path(backend: Path, stack: str) -> Path:
    """The file of a stack's state in a folder backend."""
    return backend / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"


def locks(path: Path) -> list[Path]:
    """The locks of the stack of a state's file."""
    return [*_lock_folder(path).glob("*.json")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the stack of a state's file, as the engine does. Raises RequestFailedError while it is locked."""
    if locks(path):
        raise RequestFailedError(f"the stack is currently locked by {len(locks(path))} lock(s)")
    lock = _lock_folder(path) / f"{uuid.uuid4()}.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    since = datetime.now(UTC).isoformat()
    content: dict[str, Any] = {"pid": os.getpid(), "username": "search", "hostname": os.uname().nodename}
    lock.write_text(json.dumps({**content, "timestamp": since}))
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _lock_folder(path: Path) -> Path:
    return path.parents[2] / "locks" / "organization" / PROJECT / path.stem
