"""The usage of pods, nodes and volumes, as reported by the kubelets of running pods (`stats/summary`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_NANO = 1_000_000_000


@dataclass(frozen=True)
class ResourceUse:
    """The CPU and memory that a pod or node uses."""

    cpu_cores: float
    """The CPU use, averaged over the last seconds."""
    memory_bytes: int
    """The working set, which counts against the limit."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The reported usage of several nodes; without what is not reported yet."""

    pods: Mapping[str, ResourceUse] = field(default_factory=dict)
    """The usage of pods by uid."""
    nodes: Mapping[str, ResourceUse] = field(default_factory=dict)
    """The usage of nodes by name, including everything that runs there."""
    claims: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The used bytes of claims by namespace and name. Kubelets do not report hostPath volumes."""


def merge_summaries(summaries: Sequence[Mapping[str, Any]]) -> Usage:
    """Merge the summaries of several nodes, without the figures that are not reported yet."""
    pods, nodes, claims = {}, {}, {}
    for summary in summaries:
        node = summary.get("node", {})
        if use := _read_use(node):
            nodes[str(node["nodeName"])] = use
        for pod in summary.get("pods", ()):
            if use := _read_use(pod):
                pods[str(pod["podRef"]["uid"])] = use
            for volume in pod.get("volume") or ():
                if "pvcRef" in volume and "usedBytes" in volume:
                    claim = volume["pvcRef"]
                    claims[str(claim["namespace"]), str(claim["name"])] = int(volume["usedBytes"])
    return Usage(pods=pods, nodes=nodes, claims=claims)


def _read_use(stats: Mapping[str, Any]) -> ResourceUse | None:
    try:
        return ResourceUse(stats["cpu"]["usageNanoCores"] / _NANO, int(stats["memory"]["workingSetBytes"]))
    except KeyError:
        return None
