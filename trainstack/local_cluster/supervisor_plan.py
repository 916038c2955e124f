"""The supervisor's plan: plain data that `launch` writes and the supervisor reads."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Probe:
    """The condition under which a component is ready."""

    kind: Literal["http", "socket", "file", "started"]
    """`http`: a GET returns 200; `socket`: a Unix socket accepts a connection; `file`: the file exists; `started`: the
    process runs."""
    target: str = ""
    """URL or path; empty for `started`."""
    client: str = "admin"
    """For `http`: base name of the client certificate."""


@dataclass(frozen=True)
class ClusterComponent:
    """A program of the cluster."""

    name: str
    argv: tuple[str, ...]
    probe: Probe
    after: tuple[str, ...] = ()
    """Names of the components that must be ready before the first start."""
    once: bool = False
    """Whether the program ends: then it is ready after exit code 0, and is retried after any other."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to those of the supervisor."""


@dataclass(frozen=True)
class SupervisorPlan:
    """The components of a cluster, and the addresses and mounts of its namespaces."""

    state: str
    """Path of the state folder."""
    node_ip: str
    link: str
    """Name of the link in the network namespace."""
    service_range: str
    certs: str
    """Path of the folder of certificates."""
    components: tuple[ClusterComponent, ...]
    node_folders: tuple[str, ...] = ()
    """Paths at which folders of the state folder are mounted."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "SupervisorPlan":
        data = json.loads(text)
        components = tuple(
            ClusterComponent(
                **component
                | {
                    "argv": tuple(component["argv"]),
                    "probe": Probe(**component["probe"]),
                    "after": tuple(component["after"]),
                }
            )
            for component in data.pop("components")
        )
        return cls(**data | {"node_folders": tuple(data["node_folders"])}, components=components)
