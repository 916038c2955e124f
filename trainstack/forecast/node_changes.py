"""Nodes that are tried: `a100=4`, or `a100=4:cpu=64,memory=512Gi,nvidia.com/gpu=8` where none of that kind is known."""

import re
from collections.abc import Mapping, Sequence

from trainstack.kueue.model import Flavor, Node
from trainstack.kueue.quantities import value
from trainstack.settings.errors import nearest

_FORM = re.compile(r"(?P<flavor>[^=:]+)=(?P<count>[0-9]+)(?::(?P<resources>[^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*))?")
_PODS = 110
"""What a kubelet takes where nobody says otherwise."""


def changed_nodes(nodes: Sequence[Node], changes: Sequence[str], flavors: Mapping[str, Flavor]) -> tuple[Node, ...]:
    """The nodes, with those of the named flavors replaced by so many others.

    Args:
        nodes: as they are.
        changes: `FLAVOR=COUNT` for nodes like the largest that the flavor has, or with resources.
        flavors: by name; the labels say which nodes are a flavor's.

    Raises ValueError, which names the change and the remedy.

    """
    result = list(nodes)
    for change in changes:
        match = _FORM.fullmatch(change)
        if match is None:
            raise ValueError(f"--nodes {change}: write FLAVOR=COUNT, or FLAVOR=COUNT:cpu=64,memory=512Gi")
        flavor = flavors.get(match["flavor"])
        if flavor is None:
            raise ValueError(
                f"--nodes {change}: there is no flavor {match['flavor']}; {nearest(match['flavor'], flavors)}"
            )
        own = [node for node in result if _is_of(node, flavor, flavors)]
        sample = _sample(flavor, change, match["resources"], own)
        result = [node for node in result if node not in own]
        result += (_named(sample, f"{flavor.name}-{number}") for number in range(int(match["count"])))
    return tuple(result)


def limited(changes: Sequence[str]) -> frozenset[str]:
    """The flavors that changes name."""
    return frozenset(change.partition("=")[0] for change in changes)


def _is_of(node: Node, flavor: Flavor, flavors: Mapping[str, Flavor]) -> bool:
    """Whether a node is a flavor's; one with labels that another flavor asks for besides is that one's."""
    asked, has = flavor.labels.items(), node.labels.items()
    return asked <= has and not any(asked < each.labels.items() <= has for each in flavors.values())


def _sample(flavor: Flavor, change: str, resources: str | None, own: Sequence[Node]) -> Node:
    if resources is None:
        if not own:
            raise ValueError(
                f"--nodes {change}: no node of flavor {flavor.name} is known here; say what one has: "
                f"--nodes {change}:cpu=64,memory=512Gi,nvidia.com/gpu=8"
            )
        return max(own, key=lambda node: sum(number for name, number in node.allocatable.items() if "/" in name))
    amounts = dict(each.split("=") for each in resources.split(","))
    try:
        allocatable = {name: value(name, text) for name, text in amounts.items()}
    except ValueError as error:
        raise ValueError(f"--nodes {change}: {error}") from None
    return Node(flavor.name, flavor.labels, flavor.taints, {"pods": _PODS, **allocatable})


def _named(node: Node, name: str) -> Node:
    return Node(name, node.labels, node.taints, node.allocatable)
