"""The user's settings of a local cluster."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.state_folder import COVERED_FOLDERS

NODE_NAME = "local"

MAX_SIMULATED_NODES = 1000
"""Upper limit of `simulated_nodes`: more nodes exceed the machines that the local cluster is designed for."""
LIVE_SETTINGS = frozenset({"gpus", "gpu_product", "node_folders", "sites"})
"""Settings that a running cluster adopts without a restart."""
RESERVED_PATHS = tuple(map(Path, ("/dev", "/etc", "/proc", "/run", "/sys", "/usr", *COVERED_FOLDERS)))
"""Paths that node folders must not overlap, because the cluster or its programs use them."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Settings that survive `down`. A running cluster adopts those in LIVE_SETTINGS; the others require a restart.

    The defaults give a cluster of one real node without GPUs.
    """

    gpus: int = 0
    """Count of `nvidia.com/gpu` that the real node advertises; 0 for none. Pods that request a GPU run on the CPU."""
    gpu_product: str = "NVIDIA-A100-SXM4-40GB"
    """Value of the node label `nvidia.com/gpu.product` if `gpus` is above 0."""
    simulated_nodes: int = 0
    """Count of nodes that KWOK simulates; their pods start no process."""
    simulated_gpus: int = 8
    """Count of `nvidia.com/gpu` on each simulated node."""
    simulated_product: str = "NVIDIA-A100-SXM4-40GB"
    """Value of the label `nvidia.com/gpu.product` on each simulated node."""
    max_pods: int = 250
    """Maximum number of pods on the real node."""
    registry: str = ""
    """Folder of the image registry; empty for the folder in the shared cache, which outlives every cluster."""
    volumes: str = ""
    """Folder of the dynamic volumes; empty for `volumes` in the state folder."""
    node_folders: tuple[str, ...] = ()
    """Absolute paths of folders on the real node, for `hostPath` volumes. The files are in the state folder."""
    sites: tuple[str, ...] = ()
    """Names of the reference systems that the cluster simulates (`trainstack/local_cluster/sites`)."""
    audit: bool = False
    """Whether the API server logs requests, without bodies, to `audit.log` in the components' log folder."""

    def __post_init__(self) -> None:
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
        faults += [f"node_folders has {path!r}; {fault}" for path in self.node_folders if (fault := _path_fault(path))]
        if faults:
            raise LocalClusterError("Invalid settings of the local cluster: " + "; ".join(faults) + ".")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Parse the output of `to_json`. Ignore keys of other versions, and use defaults for missing keys."""
        field_names = {field.name for field in dataclasses.fields(cls)}
        # JSON has lists, not tuples.
        data: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(text).items()}
        return cls(**{key: value for key, value in data.items() if key in field_names})

    def differences(self, other: "ClusterSpec") -> list[str]:
        """Return `name: mine → theirs` for each setting that differs."""
        own_values, other_values = dataclasses.asdict(self), dataclasses.asdict(other)
        changed_names = [name for name in own_values if own_values[name] != other_values[name]]
        return [
            f"{name}: {_format_value(own_values[name])} → {_format_value(other_values[name])}" for name in changed_names
        ]

    def with_live_settings(self, other: "ClusterSpec") -> "ClusterSpec":
        """Return a copy with the other spec's LIVE_SETTINGS."""
        return dataclasses.replace(self, **{name: getattr(other, name) for name in LIVE_SETTINGS})


def _format_value(value: int | str | tuple[str, ...]) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _path_fault(folder: str) -> str:
    """Return why a path cannot be a folder of the node, or an empty string."""
    path = Path(folder)
    if not path.is_absolute() or ".." in path.parts or str(path) != folder or len(path.parts) < 3:
        return "it must be an absolute path with at least two elements and no trailing slash"
    reserved = next((root for root in RESERVED_PATHS if path.is_relative_to(root) or root.is_relative_to(path)), None)
    return f"{reserved} is the cluster's own" if reserved else ""
