"""What an operation of the engine is to do: the registrations of a program, and the options that select some."""

from dataclasses import dataclass
from typing import Any

from tests.stateful.json_values import Body, copy
from tests.stateful.state import Resource


@dataclass(frozen=True)
class Selection:
    """The engine's options that choose resources, each by a part of their URNs, as `**part**` does."""

    target: str = ""
    exclude: str = ""
    replace: str = ""

    def includes(self, urn: str) -> bool:
        """Return whether a resource takes part."""
        return self.target in urn if self.target else not (self.exclude and self.exclude in urn)

    def replaces(self, urn: str) -> bool:
        """Return whether a resource is replaced although nothing changed."""
        return bool(self.replace) and self.replace in urn


EVERYTHING = Selection()


@dataclass(frozen=True)
class Goal:
    """A registration."""

    urn: str
    type: str
    custom: bool
    inputs: Body
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    provider: str = ""
    protect: bool = False
    retain: bool = False
    delete_before_replace: bool | None = None
    ignore: tuple[str, ...] = ()
    replace_on: tuple[str, ...] = ()
    import_id: str = ""
    before_create: tuple[str, ...] = ()
    after_create: tuple[str, ...] = ()
    before_update: tuple[str, ...] = ()
    after_update: tuple[str, ...] = ()
    before_delete: tuple[str, ...] = ()
    on_error: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the Pulumi name."""
        return self.urn.split("::", 3)[3]

    def resource(self, **changes: Any) -> Resource:
        """Return the resource for the state."""
        fields: dict[str, Any] = {
            "urn": self.urn,
            "type": self.type,
            "custom": self.custom,
            "inputs": copy(self.inputs),
            "parent": self.parent,
            "dependencies": list(self.dependencies),
            "provider": self.provider,
            "protect": self.protect,
            "retain": self.retain,
            "before_delete": list(self.before_delete),
            **changes,
        }
        return Resource(**fields)
