"""The option `--nodes`: `a100=4`, or `a100=4:cpu=64,memory=512Gi,nvidia.com/gpu=8` for a flavor without nodes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainstack.errors import TrainstackError
from trainstack.kueue.model import ClusterNode, Flavor
from trainstack.kueue.quantities import resource_value
from trainstack.settings.errors import suggest_name

_CHANGE = re.compile(r"(?P<flavor>[^=:]+)=(?P<count>[0-9]+)(?::(?P<resources>[^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*))?")
_MAX_PODS = 110
"""The kubelet's default for maxPods."""


def apply_node_changes(
    nodes: Sequence[ClusterNode], changes: Sequence[str], flavors: Mapping[str, Flavor]
) -> tuple[ClusterNode, ...]:
    """Return the nodes, with those of the named flavors replaced.

    `changes`: `FLAVOR=COUNT`, which copies the flavor's largest node, or `FLAVOR=COUNT:RESOURCE=QUANTITY,…`. Raises
    TrainstackError with the change and the remedy.
    """
    new_nodes = list(nodes)
    for change in changes:
        match = _CHANGE.fullmatch(change)
        if match is None:
            raise TrainstackError(f"--nodes {change}: write FLAVOR=COUNT, or FLAVOR=COUNT:cpu=64,memory=512Gi")
        flavor = flavors.get(match["flavor"])
        if flavor is None:
            remedy = suggest_name(match["flavor"], flavors)
            raise TrainstackError(f"--nodes {change}: unknown flavor {match['flavor']}", remedy)
        flavor_nodes = [node for node in new_nodes if _has_flavor(node, flavor, flavors)]
        sample = _sample_node(flavor, change, match["resources"], flavor_nodes)
        new_nodes = [node for node in new_nodes if node not in flavor_nodes]
        new_nodes += (replace(sample, name=f"{flavor.name}-{number}") for number in range(int(match["count"])))
    return tuple(new_nodes)


def flavors_of_changes(changes: Sequence[str]) -> frozenset[str]:
    return frozenset(change.partition("=")[0] for change in changes)


def _has_flavor(node: ClusterNode, flavor: Flavor, flavors: Mapping[str, Flavor]) -> bool:
    """Return whether a node belongs to a flavor, and not to another one that selects more of its labels."""
    selected_labels, labels = flavor.labels.items(), node.labels.items()
    return selected_labels <= labels and not any(
        selected_labels < another_flavor.labels.items() <= labels for another_flavor in flavors.values()
    )


def _sample_node(
    flavor: Flavor, change: str, resources: str | None, flavor_nodes: Sequence[ClusterNode]
) -> ClusterNode:
    if resources is None:
        if not flavor_nodes:
            raise TrainstackError(
                f"--nodes {change}: no node of flavor {flavor.name} is known; write its resources: "
                f"--nodes {change}:cpu=64,memory=512Gi,nvidia.com/gpu=8"
            )
        largest = max(
            flavor_nodes, key=lambda node: sum(number for name, number in node.allocatable.items() if "/" in name)
        )
        return replace(largest, unschedulable=False)
    try:
        allocatable = {
            name: resource_value(name, text) for name, text in (part.split("=") for part in resources.split(","))
        }
    except ValueError as error:
        raise TrainstackError(f"--nodes {change}: {error}") from None
    return ClusterNode(flavor.name, flavor.labels, flavor.taints, {"pods": _MAX_PODS, **allocatable})
