"""The supervisor's plan: plain data that `launch` writes and process 1 reads."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Probe:
    """How to determine that a component is ready."""

    kind: Literal["http", "socket", "file", "started"]
    """`http`: a GET returns 200; `socket`: a Unix socket accepts; `file`: it exists; `started`: the process runs."""
    target: str = ""
    """URL or path."""
    client: str = "admin"
    """For `http`: base name of the client certificate."""


@dataclass(frozen=True)
class Component:
    """A program of the cluster."""

    name: str
    argv: tuple[str, ...]
    probe: Probe
    after: tuple[str, ...] = ()
    """Components that must be ready first."""
    once: bool = False
    """A step that ends: ready after exit code 0, otherwise retried."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the supervisor's own."""


@dataclass(frozen=True)
class Plan:
    state: str
    node_ip: str
    link: str
    """Name of the link in the network namespace."""
    service_range: str
    certs: str
    components: tuple[Component, ...]
    node_folders: tuple[str, ...] = ()
    """Paths at which folders of the state are mounted."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        data = json.loads(text)
        components = tuple(
            Component(**c | {"argv": tuple(c["argv"]), "probe": Probe(**c["probe"]), "after": tuple(c["after"])})
            for c in data.pop("components")
        )
        return cls(**data | {"node_folders": tuple(data["node_folders"])}, components=components)
