"""The cohort tree: quota and usage of cohorts and cluster queues.

Source: pkg/cache/scheduler/resource_node.go of Kueue v0.15.2. A node's subtree quota is its own quota plus its
children's, without the local quota that children do not lend. Usage above a child's local quota counts for its parent.
Sums have 64 bits and wrap around: two queues that lend 9E each have a cohort with a negative quota. Since v0.18 they
end at the largest amount.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from trainstack.kueue.model import AdmittedWorkload, ClusterQueue, FlavorResource, Model, Quota, Usage
from trainstack.kueue.quantities import saturate, wrap_around
from trainstack.settings.values.quantities import MAX_AMOUNT

_NO_QUOTA = Quota(0)


@dataclass(slots=True, eq=False)
class ResourceNode:
    """A cohort or a cluster queue; a missing flavor and resource counts as 0."""

    name: str
    quotas: Mapping[FlavorResource, Quota]
    weight: float = 1.0
    """In fair sharing."""
    is_active: bool = True
    """Of a cluster queue; an inactive queue still lends its quota."""
    saturates: bool = False
    """Whether sums end at the largest amount, which counts as unlimited, instead of wrapping around."""
    parent: "ResourceNode | None" = None
    cohorts: list["ResourceNode"] = field(default_factory=list)
    queues: list["ResourceNode"] = field(default_factory=list)
    subtree_quota: dict[FlavorResource, int] = field(default_factory=dict)
    local_quota: dict[FlavorResource, int] = field(default_factory=dict)
    """The part of the subtree quota that the lending limit excludes from lending."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    _potential_quota: dict[FlavorResource, int] = field(default_factory=dict)
    _lendable_amounts: dict[str, int] = field(default_factory=dict)
    _exact_quota: dict[FlavorResource, int] = field(default_factory=dict)
    _height: int = -1
    _bounded: Callable[[int], int] = field(init=False)
    """Returns a sum in Kueue's 64 bits."""

    def __post_init__(self) -> None:
        self._bounded = saturate if self.saturates else wrap_around

    def quota(self, fr: FlavorResource) -> Quota:
        return self.quotas.get(fr, _NO_QUOTA)

    def local_available(self, fr: FlavorResource) -> int:
        return max(0, self.local_quota.get(fr, 0) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """Return what may be used in addition to the usage; negative if the usage exceeds the quota."""
        used = self.usage.get(fr, 0)
        if self.parent is None:
            return self._bounded(self.subtree_quota.get(fr, 0) - used)
        from_parent = self.parent.available(fr)
        local = self.local_quota.get(fr, 0)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            maximum = self.subtree_quota.get(fr, 0) - local - max(0, used - local) + limit
            from_parent = min(from_parent, self._bounded(maximum))
        return self._bounded(from_parent + (local - used if local > used else 0))

    def potential_available(self, fr: FlavorResource) -> int:
        """Return what is available without any usage."""
        potential = self._potential_quota.get(fr)
        if potential is None:
            potential, limit = self.subtree_quota.get(fr, 0), self.quota(fr).borrowing_limit
            if self.parent is not None:
                maximum = self._bounded(self.local_quota.get(fr, 0) + self.parent.potential_available(fr))
                potential = maximum if limit is None else min(maximum, self._bounded(potential + limit))
            self._potential_quota[fr] = potential
        return potential

    def overflows(self, fr: FlavorResource) -> bool:
        """Whether a sum that the node depends on wraps around. Without that, no amount is negative."""
        if self.saturates:
            return False
        nodes = (self, *self.ancestors())
        return any(node.potential_available(fr) < 0 or node.largest_sum(fr) > MAX_AMOUNT for node in nodes)

    def largest_sum(self, fr: FlavorResource) -> int:
        """Return the largest sum of quota that Kueue calculates for the node, if it had more than 64 bits."""
        subtree_quota, limit = self.exact_subtree_quota(fr), self.quota(fr).borrowing_limit or 0
        if self.parent is None:
            return subtree_quota
        return max(subtree_quota + limit, subtree_quota - self.exact_lent_quota(fr) + self.parent.exact_potential(fr))

    def exact_subtree_quota(self, fr: FlavorResource) -> int:
        """Return the subtree quota, which does not wrap around here."""
        exact_quota = self._exact_quota.get(fr)
        if exact_quota is None:
            lent_quota = sum(child.exact_lent_quota(fr) for child in (*self.cohorts, *self.queues))
            exact_quota = self._exact_quota[fr] = self.quota(fr).nominal + lent_quota
        return exact_quota

    def exact_lent_quota(self, fr: FlavorResource) -> int:
        subtree_quota, limit = self.exact_subtree_quota(fr), self.quota(fr).lending_limit
        return subtree_quota if limit is None else min(subtree_quota, limit)

    def exact_potential(self, fr: FlavorResource) -> int:
        subtree_quota, limit = self.exact_subtree_quota(fr), self.quota(fr).borrowing_limit
        maximum = (
            subtree_quota
            if self.parent is None
            else subtree_quota - self.exact_lent_quota(fr) + self.parent.exact_potential(fr)
        )
        return maximum if limit is None else min(maximum, subtree_quota + limit)

    @property
    def lendable(self) -> dict[str, int]:
        """What a cohort can lend on an idle cluster, by resource. Source: calculateLendable, fair_sharing.go."""
        if not self._lendable_amounts:
            for fr in self.root.subtree_quota:
                number = self._lendable_amounts.get(fr[1], 0) + self.potential_available(fr)
                self._lendable_amounts[fr[1]] = saturate(number) if self.saturates else number
        return self._lendable_amounts

    def add(self, fr: FlavorResource, number: int) -> None:
        """Add usage."""
        excess = number - self.local_available(fr)
        self.usage[fr] = self.usage.get(fr, 0) + number
        if self.parent is not None and excess > 0:
            self.parent.add(fr, excess)

    def remove(self, fr: FlavorResource, number: int) -> None:
        """Remove usage."""
        excess = self.usage.get(fr, 0) - self.local_quota.get(fr, 0)
        self.usage[fr] = self.usage.get(fr, 0) - number
        if self.parent is not None and excess > 0:
            self.parent.remove(fr, min(number, excess))

    def borrows_with(self, fr: FlavorResource, number: int = 0) -> bool:
        """Whether the node borrows if this much usage is added: above nominal quota for a cluster queue."""
        return self.usage.get(fr, 0) + number > self.subtree_quota.get(fr, 0)

    def is_within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        return not any(self.borrows_with(fr) for fr in frs)

    def ancestors(self) -> Iterator["ResourceNode"]:
        """Yield the cohorts from the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> "ResourceNode":
        """The root cohort; without a cohort, the node itself."""
        *_, root = (self, *self.ancestors())
        return root

    def all_queues(self) -> Iterator["ResourceNode"]:
        """Yield the cluster queues below a cohort."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.all_queues()

    def all_cohorts(self) -> Iterator[str]:
        """Yield the names of a cohort and the cohorts below it; none for a cluster queue without a cohort."""
        if self.cohorts or self.queues:
            yield self.name
        for cohort in self.cohorts:
            yield from cohort.all_cohorts()

    def tree_queues(self) -> Iterator["ResourceNode"]:
        """Yield all cluster queues of the cohort tree of a cluster queue."""
        yield from self.root.all_queues() if self.parent is not None else (self,)

    @property
    def height(self) -> int:
        """The distance to the furthest active queue below. Source: getNodeHeight, hierarchical_preemption.go."""
        if self._height < 0:
            own_height = int(bool(self.cohorts) or any(queue.is_active for queue in self.queues))
            self._height = max((own_height, *(cohort.height + 1 for cohort in self.cohorts)))
        return self._height

    def borrowing_level(self, fr: FlavorResource, number: int) -> tuple[int, bool]:
        """Return the height of the lowest subtree that fits the usage, and whether it has a parent to reclaim from.

        The height is 0 without borrowing, and the root's height if no subtree fits.
        Source: FindHeightOfLowestSubtreeThatFits, hierarchical_preemption.go.
        """
        if self.parent is None or not self.borrows_with(fr, number):
            return 0, self.parent is not None
        remaining, root = number - self.local_available(fr), self
        for node in self.ancestors():
            if not node.borrows_with(fr, remaining):
                return node.height, node.parent is not None
            remaining -= node.local_available(fr)
            root = node
        return root.height, False

    def update_subtree_quota(self) -> None:
        """Calculate the quota of the node and of all nodes below it."""
        self.subtree_quota = {fr: quota.nominal for fr, quota in self.quotas.items()}
        for child in (*self.cohorts, *self.queues):
            child.update_subtree_quota()
            for fr, number in child.subtree_quota.items():
                lent_number = number - child.local_quota.get(fr, 0)
                self.subtree_quota[fr] = self._bounded(self.subtree_quota.get(fr, 0) + lent_number)
        for fr, quota in self.quotas.items():
            if quota.lending_limit is not None:
                self.local_quota[fr] = self._quota_not_lent(self.subtree_quota[fr], quota.lending_limit)

    def _quota_not_lent(self, subtree_quota: int, lending_limit: int) -> int:
        """Source: localQuota in resource_node.go; Sub in pkg/resources/amount.go."""
        if self.saturates and subtree_quota == MAX_AMOUNT > lending_limit:
            # Unlimited quota minus any limit is unlimited, so nothing of it is lent.
            return MAX_AMOUNT
        return max(0, self._bounded(subtree_quota - lending_limit))


class CohortTree:
    """All cohorts and cluster queues of a model, without usage."""

    def __init__(self, model: Model) -> None:
        """Build the tree; cohorts in a cycle or below one have no parent, and their queues are inactive."""
        queues = model.cluster_queues or {}
        names = {queue.cohort for queue in queues.values()} | {cohort.parent for cohort in model.cohorts.values()}
        saturates = model.release.saturates
        self.cohorts = {name: ResourceNode(name, {}, saturates=saturates) for name in names if name is not None}
        self.cohorts |= {
            name: ResourceNode(name, cohort.quotas, cohort.weight, saturates=saturates)
            for name, cohort in model.cohorts.items()
        }
        self._parents = {name: cohort.parent for name, cohort in model.cohorts.items()}
        self.queues = {
            name: ResourceNode(name, queue.quotas, queue.weight, saturates=saturates) for name, queue in queues.items()
        }
        for name, queue in queues.items():
            if queue.cohort is not None and not self.is_cyclic(queue.cohort):
                self.queues[name].parent = self.cohorts[queue.cohort]
                self.cohorts[queue.cohort].queues.append(self.queues[name])
        for name, node in self.cohorts.items():
            parent = self._parents.get(name)
            if parent is not None and not self.is_cyclic(name):
                node.parent = self.cohorts[parent]
                node.parent.cohorts.append(node)
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                node.update_subtree_quota()
        for name, queue in queues.items():
            self.queues[name].is_active = is_queue_active(model, queue) and not (
                queue.cohort and self.is_cyclic(queue.cohort)
            )

    def is_cyclic(self, cohort: str) -> bool:
        """Whether a cohort is its own ancestor or below such a cohort; Kueue admits nothing there."""
        visited: set[str] = set()
        name: str | None = cohort
        while name is not None and name not in visited:
            visited.add(name)
            name = self._parents.get(name)
        return name is not None

    @contextmanager
    def without(self, admitted: Iterable[AdmittedWorkload]) -> Iterator[None]:
        """Remove the usage of workloads for as long as the context lasts."""
        removed_workloads = list(admitted)
        for removed_workload in removed_workloads:
            self.remove(removed_workload.cluster_queue, removed_workload.usage)
        yield
        for removed_workload in reversed(removed_workloads):
            self.add(removed_workload.cluster_queue, removed_workload.usage)

    def add(self, queue: str, usage: Usage) -> None:
        """Add usage to a cluster queue."""
        for fr, number in usage.items():
            self.queues[queue].add(fr, number)

    def remove(self, queue: str, usage: Usage) -> None:
        """Remove usage from a cluster queue."""
        for fr, number in usage.items():
            self.queues[queue].remove(fr, number)

    def potential_available(self, cluster_queue: str, flavor: str, resource: str) -> int:
        """Return what a cluster queue can use on an idle cluster; 0 if it has no such quota."""
        node = self.queues[cluster_queue]
        return node.potential_available((flavor, resource)) if (flavor, resource) in node.quotas else 0


def is_queue_active(model: Model, queue: ClusterQueue) -> bool:
    """Whether a cluster queue is active, apart from its cohort. Source: updateQueueStatus, clusterqueue.go."""
    if queue.stop_policy != "None" or queue.inactive_message:
        return False
    if model.release.dispatches_or_provisions and dispatches_and_provisions(model, queue):
        return False
    return not missing_objects(model, queue)


def dispatches_and_provisions(model: Model, queue: ClusterQueue) -> bool:
    """Whether a queue has checks of both MultiKueue and ProvisioningRequest."""
    return not any(checks.isdisjoint(queue.checks) for checks in (model.multikueue_checks, model.provisioning_checks))


def missing_objects(model: Model, queue: ClusterQueue) -> list[str]:
    """Return the names of the flavors, topologies and active checks that a queue needs and that do not exist."""
    return [*missing_flavors(model, queue), *missing_topologies(model, queue), *inactive_checks(model, queue)]


def missing_flavors(model: Model, queue: ClusterQueue) -> list[str]:
    flavors = model.flavors
    return [name for group in queue.groups for name in group.flavors if flavors is not None and name not in flavors]


def missing_topologies(model: Model, queue: ClusterQueue) -> list[str]:
    """Source: isTASViolated, clusterqueue.go."""
    topologies, flavors = model.topologies, model.flavors or {}
    if topologies is None or model.dispatches(queue):
        return []
    topology_names = (flavors[name].topology for group in queue.groups for name in group.flavors if name in flavors)
    return [name for name in dict.fromkeys(topology_names) if name is not None and name not in topologies]


def inactive_checks(model: Model, queue: ClusterQueue) -> list[str]:
    """Return the queue's admission checks that are missing or not active."""
    active_checks = model.active_checks
    return [name for name in queue.checks if active_checks is not None and not active_checks.get(name, False)]
