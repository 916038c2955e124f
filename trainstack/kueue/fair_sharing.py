"""Shares of cohorts and cluster queues in fair sharing.

Source: pkg/cache/scheduler/fair_sharing.go of Kueue v0.15.2.
"""

from trainstack.kueue.resource_node import ResourceNode

Share = tuple[bool, float]
"""Whether a node of weight 0 borrows, which is more than any other share; then the share: what is borrowed of the
resource that is borrowed most, in thousandths of what can be lent, divided by the node's weight."""
NO_SHARE: Share = (False, 0.0)
LESS_THAN_ANY: Share = (False, -1.0)


def borrows(node: ResourceNode) -> bool:
    """Whether a node borrows any resource. Source: IsBorrowing of v0.17."""
    return node.parent is not None and any(node.borrows_with(fr) for fr in node.subtree_quota)


def share(node: ResourceNode) -> Share:
    """Return the share of a node with its current usage. Source: dominantResourceShare and CompareDRS."""
    if node.parent is None:
        return NO_SHARE
    borrowed: dict[str, int] = {}
    for fr, quota in node.subtree_quota.items():
        excess = node.usage.get(fr, 0) - quota
        if excess > 0:
            borrowed[fr[1]] = borrowed.get(fr[1], 0) + excess
    lendable = node.parent.lendable if borrowed else {}
    # In Kueue's floating point operations, since shares are compared for equality.
    ratios = (number * 1000.0 / lendable[name] for name, number in borrowed.items() if lendable.get(name, 0) > 0)
    ratio = max(ratios, default=0.0)
    if ratio == 0:
        return NO_SHARE
    return (True, ratio) if node.weight == 0 else (False, ratio / node.weight)
