"""The tree of cohorts and queues, with what each has, keeps, lends and uses.

Source: pkg/cache/scheduler/resource_node.go of Kueue v0.15.2. A node's quota is what it has itself and what its
children have less what they keep; what exceeds a child's own part of its usage counts as its parent's.
"""

from collections.abc import Iterable, Iterator, Mapping

from trainstack.kueue.model import ClusterQueue, FlavorResource, Model, Quota, Usage

_NONE = Quota(0)


class ResourceNode:
    """A cohort or a cluster queue. Numbers are by flavor and resource; what is not there is 0."""

    __slots__ = (
        "_height",
        "_most",
        "active",
        "cohorts",
        "local_quota",
        "name",
        "parent",
        "queues",
        "quotas",
        "subtree_quota",
        "usage",
    )

    def __init__(self, name: str, quotas: Mapping[FlavorResource, Quota]) -> None:
        """A node with its own quotas, in no tree yet."""
        self.name = name
        self.quotas = quotas
        self.active = True
        """Of a queue: whether it admits. One that does not lends on, and counts for nothing else."""
        self.parent: ResourceNode | None = None
        self.cohorts: list[ResourceNode] = []
        self.queues: list[ResourceNode] = []
        self.subtree_quota: dict[FlavorResource, int] = {}
        """All that it and its children have, less what children keep."""
        self.local_quota: dict[FlavorResource, int] = {}
        """Of that, what its lending limit keeps from its parent."""
        self.usage: dict[FlavorResource, int] = {}
        self._most: dict[FlavorResource, int] = {}
        self._height = -1

    def quota(self, fr: FlavorResource) -> Quota:
        """Its own; nothing where none is written."""
        return self.quotas.get(fr, _NONE)

    def local_available(self, fr: FlavorResource) -> int:
        """What it keeps and does not use."""
        return max(0, self.local_quota.get(fr, 0) - self.usage.get(fr, 0))

    def available(self, fr: FlavorResource) -> int:
        """What could be used beside the present usage; negative where more is used than there is."""
        used = self.usage.get(fr, 0)
        if self.parent is None:
            return self.subtree_quota.get(fr, 0) - used
        ancestors = self.parent.available(fr)
        local_quota = self.local_quota.get(fr, 0)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            ancestors = min(ancestors, self.subtree_quota.get(fr, 0) - local_quota - max(0, used - local_quota) + limit)
        return ancestors + (local_quota - used if local_quota > used else 0)

    def potential_available(self, fr: FlavorResource) -> int:
        """What could be used if nobody used anything."""
        known = self._most.get(fr)
        if known is None:
            known = self._most[fr] = self._potential_available(fr)
        return known

    def _potential_available(self, fr: FlavorResource) -> int:
        if self.parent is None:
            return self.subtree_quota.get(fr, 0)
        most = self.local_quota.get(fr, 0) + self.parent.potential_available(fr)
        limit = self.quota(fr).borrowing_limit
        return most if limit is None else min(most, self.subtree_quota.get(fr, 0) + limit)

    def add(self, fr: FlavorResource, number: int) -> None:
        """Use so much more."""
        beyond = number - self.local_available(fr)
        self.usage[fr] = self.usage.get(fr, 0) + number
        if self.parent is not None and beyond > 0:
            self.parent.add(fr, beyond)

    def remove(self, fr: FlavorResource, number: int) -> None:
        """Use so much less."""
        beyond = self.usage.get(fr, 0) - self.local_quota.get(fr, 0)
        self.usage[fr] = self.usage.get(fr, 0) - number
        if self.parent is not None and beyond > 0:
            self.parent.remove(fr, min(number, beyond))

    def borrows_with(self, fr: FlavorResource, number: int = 0) -> bool:
        """Whether, with so much more, it uses more than it has: a queue than its nominal quota."""
        return self.usage.get(fr, 0) + number > self.subtree_quota.get(fr, 0)

    def within_nominal(self, wanted: Iterable[FlavorResource]) -> bool:
        """Whether it uses no more than it has of all of these."""
        return not any(self.borrows_with(fr) for fr in wanted)

    def ancestors(self) -> Iterator["ResourceNode"]:
        """The cohorts that it is in, from its own up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def height(self) -> int:
        """Steps down to the furthest active queue. Source: getNodeHeight, hierarchical_preemption.go."""
        if self._height < 0:
            own = int(bool(self.cohorts) or any(queue.active for queue in self.queues))
            self._height = max((own, *(cohort.height + 1 for cohort in self.cohorts)))
        return self._height

    def level(self, fr: FlavorResource, number: int) -> tuple[int, bool]:
        """How far up so much more has to be borrowed, and whether there is somebody above that to reclaim from.

        0 is no borrowing, otherwise the height of the smallest cohort that has it, or of the whole tree.
        Source: FindHeightOfLowestSubtreeThatFits, hierarchical_preemption.go.
        """
        if self.parent is None or not self.borrows_with(fr, number):
            return 0, self.parent is not None
        rest, root = number - self.local_available(fr), self
        for node in self.ancestors():
            if not node.borrows_with(fr, rest):
                return node.height, node.parent is not None
            rest -= node.local_available(fr)
            root = node
        return root.height, False

    def update_subtree_quota(self) -> None:
        """Calculate what it and all below it have."""
        self.subtree_quota = {fr: quota.nominal for fr, quota in self.quotas.items()}
        for child in (*self.cohorts, *self.queues):
            child.update_subtree_quota()
            for fr, number in child.subtree_quota.items():
                self.subtree_quota[fr] = self.subtree_quota.get(fr, 0) + number - child.local_quota.get(fr, 0)
        for fr in self.quotas:
            self._keep(fr)

    def set_quota(self, fr: FlavorResource, quota: Quota) -> None:
        """Give it another quota of its own; what those above it have follows."""
        more = quota.nominal - self.quota(fr).nominal
        self.quotas = {**self.quotas, fr: quota}
        self._have_more(fr, more)
        *_, root = (self, *self.ancestors())
        root.forget()

    def forget(self) -> None:
        """What it and all below it could use is to be calculated anew."""
        self._most.clear()
        for child in (*self.cohorts, *self.queues):
            child.forget()

    def _have_more(self, fr: FlavorResource, more: int) -> None:
        local_quota = self.local_quota.get(fr, 0)
        self.subtree_quota[fr] = self.subtree_quota.get(fr, 0) + more
        self._keep(fr)
        if self.parent is not None:
            self.parent._have_more(fr, more - self.local_quota.get(fr, 0) + local_quota)  # noqa: SLF001 (of its own kind)

    def _keep(self, fr: FlavorResource) -> None:
        limit = self.quota(fr).lending_limit
        if limit is None:
            self.local_quota.pop(fr, None)
        else:
            self.local_quota[fr] = max(0, self.subtree_quota[fr] - limit)


class CohortTree:
    """All cohorts and queues of a model, idle at first."""

    def __init__(self, model: Model) -> None:
        """Build it; cohorts that are their own ancestors, and all in them, stand apart as `cyclic`."""
        queues = model.cluster_queues or {}
        names = {each.cohort for each in queues.values()} | {each.parent for each in model.cohorts.values()}
        self.cohorts = {name: ResourceNode(name, {}) for name in names if name is not None}
        self.cohorts |= {name: ResourceNode(name, each.quotas) for name, each in model.cohorts.items()}
        self._parents = {name: each.parent for name, each in model.cohorts.items()}
        self.queues = {name: self._queue(each) for name, each in queues.items()}
        for name, node in self.cohorts.items():
            parent = self._parents.get(name)
            if parent is not None and not self.cyclic(name):
                node.parent = self.cohorts[parent]
                node.parent.cohorts.append(node)
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                node.update_subtree_quota()
        for name, each in queues.items():
            self.queues[name].active = active(model, each) and not (each.cohort and self.cyclic(each.cohort))

    def _queue(self, queue: ClusterQueue) -> ResourceNode:
        node = ResourceNode(queue.name, queue.quotas)
        if queue.cohort is not None and not self.cyclic(queue.cohort):
            node.parent = self.cohorts[queue.cohort]
            node.parent.queues.append(node)
        return node

    def cyclic(self, cohort: str) -> bool:
        """Whether a cohort is its own ancestor, or below one that is. Kueue admits nothing there."""
        seen: set[str] = set()
        name: str | None = cohort
        while name is not None and name not in seen:
            seen.add(name)
            name = self._parents.get(name)
        return name is not None

    def add(self, queue: str, usage: Usage) -> None:
        """Let a queue use so much more."""
        node = self.queues[queue]
        for fr, number in usage.items():
            node.add(fr, number)

    def remove(self, queue: str, usage: Usage) -> None:
        """Let a queue use so much less."""
        node = self.queues[queue]
        for fr, number in usage.items():
            node.remove(fr, number)

    def potential_available(self, cluster_queue: str, flavor: str, resource: str) -> int:
        """The most that a queue can have, if nobody else uses anything; 0 where it has no such quota."""
        node = self.queues[cluster_queue]
        return node.potential_available((flavor, resource)) if (flavor, resource) in node.quotas else 0

    def available(self, cluster_queue: str, flavor: str, resource: str) -> int:
        """What a queue can have now; 0 where it has no such quota."""
        node = self.queues[cluster_queue]
        return max(0, node.available((flavor, resource))) if (flavor, resource) in node.quotas else 0

    def subtree_quota(self, cohort: str, flavor: str, resource: str) -> int:
        """What a cohort and all below it have."""
        return self.cohorts[cohort].subtree_quota.get((flavor, resource), 0)


def active(model: Model, queue: ClusterQueue) -> bool:
    """Whether Kueue takes a queue for able to admit, cohorts aside. Source: updateQueueStatus, clusterqueue.go."""
    if queue.stop_policy != "None" or queue.inactive:
        return False
    return not missing_flavors(model, queue) and not idle_checks(model, queue)


def missing_flavors(model: Model, queue: ClusterQueue) -> list[str]:
    """Flavors that the queue names and nobody declares."""
    known = model.flavors
    return [name for group in queue.groups for name in group.flavors if known is not None and name not in known]


def idle_checks(model: Model, queue: ClusterQueue) -> list[str]:
    """Admission checks of the queue that are missing or not active."""
    known = model.active_checks
    return [name for name in queue.checks if known is not None and not known.get(name, False)]
