"""The usage of pods, nodes and volumes, as reported by the kubelets of running pods (`stats/summary`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_NANO = 1_000_000_000


@dataclass(frozen=True)
class Use:
    cpu_cores: float
    """Averaged over the last seconds."""
    memory_bytes: int
    """The working set, which counts against the limit."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    pods: Mapping[str, Use] = field(default_factory=dict)
    """By uid."""
    nodes: Mapping[str, Use] = field(default_factory=dict)
    """By name."""
    claims: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes by namespace and name. Kubelets do not report hostPath volumes."""


def usage(summaries: Sequence[Mapping[str, Any]]) -> Usage:
    """Merge the summaries of several nodes; figures that are not reported yet are left out."""
    pods, nodes, claims = {}, {}, {}
    for summary in summaries:
        node = summary.get("node", {})
        if use := _use(node):
            nodes[str(node["nodeName"])] = use
        for pod in summary.get("pods", ()):
            if use := _use(pod):
                pods[str(pod["podRef"]["uid"])] = use
            for volume in pod.get("volume") or ():
                if "pvcRef" in volume and "usedBytes" in volume:
                    claim = volume["pvcRef"]
                    claims[str(claim["namespace"]), str(claim["name"])] = int(volume["usedBytes"])
    return Usage(pods=pods, nodes=nodes, claims=claims)


def _use(counted: Mapping[str, Any]) -> Use | None:
    try:
        return Use(counted["cpu"]["usageNanoCores"] / _NANO, int(counted["memory"]["workingSetBytes"]))
    except KeyError:
        return None
