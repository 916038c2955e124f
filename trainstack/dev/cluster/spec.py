"""What a person chooses about a local cluster."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.layout import HIDDEN

NODE_NAME = "local"
"""Name of the one real node, as the API shows it."""

MAX_SIMULATED_NODES = 1000
"""More than this needs a bigger machine than the local cluster is made for."""
LIVE = frozenset({"gpus", "gpu_product", "node_folders", "sites"})
"""Choices that a running cluster takes over without a restart."""
RESERVED = tuple(map(Path, ("/dev", "/etc", "/proc", "/run", "/sys", "/usr", *HIDDEN)))
"""Where no folder of the node may lie: the cluster or its programs have these folders themselves."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Choices that survive `down`; a running cluster takes over those in LIVE and keeps the others until a restart.

    The defaults give a cluster of one real node without GPUs.
    """

    gpus: int = 0
    """Count of `nvidia.com/gpu` that the real node advertises; 0 advertises none. Pods that get one run on the CPU."""
    gpu_product: str = "NVIDIA-A100-SXM4-40GB"
    """Value of the node label `nvidia.com/gpu.product` when `gpus` is above 0."""
    simulated_nodes: int = 0
    """Count of nodes that KWOK pretends to run; their pods start no process."""
    simulated_gpus: int = 8
    """Count of `nvidia.com/gpu` on each simulated node."""
    simulated_product: str = "NVIDIA-A100-SXM4-40GB"
    """Value of the label `nvidia.com/gpu.product` on each simulated node."""
    max_pods: int = 250
    """Most pods on the real node."""
    registry: str = ""
    """Folder of the image registry; empty means the folder in the shared cache, which outlives every cluster."""
    volumes: str = ""
    """Folder of the dynamic volumes; empty means `volumes` in the state folder."""
    node_folders: tuple[str, ...] = ()
    """Folders that the real node has, for volumes on hosts: absolute paths. Their files lie in the state folder."""
    sites: tuple[str, ...] = ()
    """Names of the sites that the cluster stands in for."""
    audit: bool = False
    """Whether the API server writes who asked what into `audit.log` beside the components' logs, without bodies."""

    def __post_init__(self) -> None:
        """Refuse what no cluster can be."""
        faults = [
            f"{name} is {value}; it must be from 0 to {limit}"
            for name, value, limit in (
                ("gpus", self.gpus, 64),
                ("simulated_nodes", self.simulated_nodes, MAX_SIMULATED_NODES),
                ("simulated_gpus", self.simulated_gpus, 64),
                ("max_pods", self.max_pods, 1000),
            )
            if not 0 <= value <= limit
        ]
        faults += [
            f"{name} is {value!r}; it must be an absolute path"
            for name, value in (("registry", self.registry), ("volumes", self.volumes))
            if value and not Path(value).is_absolute()
        ]
        faults += [f"node_folders has {each!r}; {fault}" for each in self.node_folders if (fault := _unusable(each))]
        if faults:
            raise ClusterError("This local cluster cannot be made: " + "; ".join(faults) + ".")

    def to_json(self) -> str:
        """The form in which the state folder keeps it."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Read `to_json`'s form; keys of other versions are dropped, absent ones take their default."""
        known = {field.name for field in dataclasses.fields(cls)}
        data: dict[str, Any] = json.loads(text)
        # JSON knows lists alone.
        choices: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
        return cls(**{key: value for key, value in choices.items() if key in known})

    def differences(self, other: "ClusterSpec") -> list[str]:
        """`name: mine → theirs` of each choice in which `other` differs."""
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        changed = [name for name in mine if mine[name] != theirs[name]]
        return [f"{name}: {_shown(mine[name])} → {_shown(theirs[name])}" for name in changed]

    def with_live(self, other: "ClusterSpec") -> "ClusterSpec":
        """These choices, but those in LIVE as `other` has them."""
        return dataclasses.replace(self, **{name: getattr(other, name) for name in LIVE})


def _shown(choice: int | str | tuple[str, ...]) -> str:
    return ", ".join(choice) or "none" if isinstance(choice, tuple) else str(choice)


def _unusable(folder: str) -> str:
    """Why a path cannot be a folder of the node; empty if it can."""
    path = Path(folder)
    if not path.is_absolute() or ".." in path.parts or str(path) != folder or len(path.parts) < 3:
        return "it must be an absolute path of two names or more, without a slash at its end"
    reserved = next((each for each in RESERVED if path.is_relative_to(each) or each.is_relative_to(path)), None)
    return f"{reserved} is the cluster's own" if reserved else ""
