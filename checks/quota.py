"""How much a cluster queue can ever give: Kueue's arithmetic of cohorts on an idle cluster.

Source: potentialAvailable and localQuota in Kueue's pkg/cache/scheduler/resource_node.go.
"""

from collections.abc import Iterator
from fractions import Fraction

from settings.quantities import amount
from settings.queues import ClusterQueue, Queues, ResourceQuota

Need = dict[str, Fraction]


def potential(queues: Queues, queue: ClusterQueue, flavor: str, resource: str) -> Fraction:
    """The most of a resource on a flavor that the queue has, with what its cohort lends while nobody else uses any.

    0 where the queue has no quota of its own, which Kueue asks for even when it may borrow.
    """
    own = _quota(queue, flavor, resource)
    if own is None:
        return Fraction(0)
    nominal = amount(own.nominal_quota)
    if queue.cohort is None:
        return nominal
    members = _tree(queues, queue.cohort)
    lent = (_lent(one, flavor, resource) for one in queues.cluster_queues if one.cohort in members)
    most = nominal - _lent(queue, flavor, resource) + sum(lent, Fraction(0))
    return most if own.borrowing_limit is None else min(most, nominal + amount(own.borrowing_limit))


def _quota(queue: ClusterQueue, flavor: str, resource: str) -> ResourceQuota | None:
    found = (
        quota
        for group in queue.resource_groups
        for one in group.flavors
        if one.name == flavor
        for quota in one.resources
        if quota.name == resource
    )
    return next(found, None)


def _lent(queue: ClusterQueue, flavor: str, resource: str) -> Fraction:
    quota = _quota(queue, flavor, resource)
    if quota is None:
        return Fraction(0)
    nominal = amount(quota.nominal_quota)
    return nominal if quota.lending_limit is None else min(nominal, amount(quota.lending_limit))


def _tree(queues: Queues, cohort: str) -> set[str]:
    """The cohorts that share a root with this one, itself included. Cohorts have no quota of their own here."""
    parents = {one.name: one.parent for one in queues.cohorts}
    root = list(_ancestors(parents, cohort))[-1]
    return {cohort, root} | {name for name in parents if root in _ancestors(parents, name)}


def _ancestors(parents: dict[str, str | None], cohort: str) -> Iterator[str]:
    seen: set[str] = set()
    name: str | None = cohort
    while name is not None and name not in seen:  # a cycle is another rule's finding
        yield name
        seen.add(name)
        name = parents.get(name)
