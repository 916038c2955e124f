"""What the supervisor is told to run: the plain data between the side that decides and process 1 that obeys."""

import json
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Probe:
    """How to see that a component is ready."""

    kind: Literal["http", "socket", "file", "started"]
    """`http`: a GET answers 200; `socket`: a Unix socket accepts; `file`: it exists; `started`: running is enough."""
    target: str = ""
    """URL or path."""
    client: str = "admin"
    """Of `http`: base name of the certificate that it shows."""


@dataclass(frozen=True)
class Component:
    """One program of the cluster."""

    name: str
    argv: tuple[str, ...]
    probe: Probe
    after: tuple[str, ...] = ()
    """Components that must be ready first."""
    once: bool = False
    """A step that ends; it is ready when it has ended with 0, and is tried again otherwise."""


@dataclass(frozen=True)
class Plan:
    """Everything that process 1 needs."""

    state: str
    node_ip: str
    link: str
    """Name of the link in the network namespace."""
    service_range: str
    certs: str
    components: tuple[Component, ...]
    node_folders: tuple[str, ...] = ()
    """Paths that are covered with folders of the state."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read `to_json`'s form."""
        data = json.loads(text)
        components = tuple(
            Component(c["name"], tuple(c["argv"]), Probe(**c["probe"]), tuple(c["after"]), c["once"])
            for c in data.pop("components")
        )
        return cls(**data | {"node_folders": tuple(data["node_folders"])}, components=components)
