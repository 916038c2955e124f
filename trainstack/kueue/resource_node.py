"""The tree of cohorts and queues, with what each has, keeps, lends and uses.

Source: pkg/cache/scheduler/resource_node.go of Kueue v0.15.2. A node's quota is what it has itself and what its
children have less what they keep; what exceeds a child's own part of its usage counts as its parent's.
"""

from collections.abc import Iterable, Iterator, Mapping

from trainstack.kueue.model import ClusterQueue, FlavorResource, Model, Quota, Usage

_NONE = Quota(0)


class Node:
    """A cohort or a cluster queue. Numbers are by flavor and resource; what is not there is 0."""

    __slots__ = (
        "_height",
        "_most",
        "active",
        "cohorts",
        "kept",
        "name",
        "parent",
        "queues",
        "quotas",
        "subtree",
        "usage",
    )

    def __init__(self, name: str, quotas: Mapping[FlavorResource, Quota]) -> None:
        """A node with its own quotas, in no tree yet."""
        self.name = name
        self.quotas = quotas
        self.active = True
        """Of a queue: whether it admits. One that does not lends on, and counts for nothing else."""
        self.parent: Node | None = None
        self.cohorts: list[Node] = []
        self.queues: list[Node] = []
        self.subtree: dict[FlavorResource, int] = {}
        """All that it and its children have, less what children keep."""
        self.kept: dict[FlavorResource, int] = {}
        """Of that, what its lending limit keeps from its parent."""
        self.usage: dict[FlavorResource, int] = {}
        self._most: dict[FlavorResource, int] = {}
        self._height = -1

    def quota(self, what: FlavorResource) -> Quota:
        """Its own; nothing where none is written."""
        return self.quotas.get(what, _NONE)

    def free_of_kept(self, what: FlavorResource) -> int:
        """What it keeps and does not use."""
        return max(0, self.kept.get(what, 0) - self.usage.get(what, 0))

    def available(self, what: FlavorResource) -> int:
        """What could be used beside the present usage; negative where more is used than there is."""
        used = self.usage.get(what, 0)
        if self.parent is None:
            return self.subtree.get(what, 0) - used
        above = self.parent.available(what)
        kept = self.kept.get(what, 0)
        limit = self.quota(what).borrowing_limit
        if limit is not None:
            above = min(above, self.subtree.get(what, 0) - kept - max(0, used - kept) + limit)
        return above + (kept - used if kept > used else 0)

    def potential(self, what: FlavorResource) -> int:
        """What could be used if nobody used anything."""
        known = self._most.get(what)
        if known is None:
            known = self._most[what] = self._potential(what)
        return known

    def _potential(self, what: FlavorResource) -> int:
        if self.parent is None:
            return self.subtree.get(what, 0)
        most = self.kept.get(what, 0) + self.parent.potential(what)
        limit = self.quota(what).borrowing_limit
        return most if limit is None else min(most, self.subtree.get(what, 0) + limit)

    def add(self, what: FlavorResource, number: int) -> None:
        """Use so much more."""
        beyond = number - self.free_of_kept(what)
        self.usage[what] = self.usage.get(what, 0) + number
        if self.parent is not None and beyond > 0:
            self.parent.add(what, beyond)

    def remove(self, what: FlavorResource, number: int) -> None:
        """Use so much less."""
        beyond = self.usage.get(what, 0) - self.kept.get(what, 0)
        self.usage[what] = self.usage.get(what, 0) - number
        if self.parent is not None and beyond > 0:
            self.parent.remove(what, min(number, beyond))

    def exceeds(self, what: FlavorResource, number: int = 0) -> bool:
        """Whether, with so much more, it uses more than it has: a queue than its nominal quota."""
        return self.usage.get(what, 0) + number > self.subtree.get(what, 0)

    def within(self, wanted: Iterable[FlavorResource]) -> bool:
        """Whether it uses no more than it has of all of these."""
        return not any(self.exceeds(what) for what in wanted)

    def above(self) -> Iterator["Node"]:
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

    def level(self, what: FlavorResource, number: int) -> tuple[int, bool]:
        """How far up so much more has to be borrowed, and whether there is somebody above that to reclaim from.

        0 is no borrowing, otherwise the height of the smallest cohort that has it, or of the whole tree.
        Source: FindHeightOfLowestSubtreeThatFits, hierarchical_preemption.go.
        """
        if self.parent is None or not self.exceeds(what, number):
            return 0, self.parent is not None
        rest, root = number - self.free_of_kept(what), self
        for node in self.above():
            if not node.exceeds(what, rest):
                return node.height, node.parent is not None
            rest -= node.free_of_kept(what)
            root = node
        return root.height, False

    def sum_up(self) -> None:
        """Calculate what it and all below it have."""
        self.subtree = {what: quota.nominal for what, quota in self.quotas.items()}
        for child in (*self.cohorts, *self.queues):
            child.sum_up()
            for what, number in child.subtree.items():
                self.subtree[what] = self.subtree.get(what, 0) + number - child.kept.get(what, 0)
        for what in self.quotas:
            self._keep(what)

    def requote(self, what: FlavorResource, quota: Quota) -> None:
        """Give it another quota of its own; what those above it have follows."""
        more = quota.nominal - self.quota(what).nominal
        self.quotas = {**self.quotas, what: quota}
        self._have_more(what, more)
        *_, root = (self, *self.above())
        root.forget()

    def forget(self) -> None:
        """What it and all below it could use is to be calculated anew."""
        self._most.clear()
        for child in (*self.cohorts, *self.queues):
            child.forget()

    def _have_more(self, what: FlavorResource, more: int) -> None:
        kept = self.kept.get(what, 0)
        self.subtree[what] = self.subtree.get(what, 0) + more
        self._keep(what)
        if self.parent is not None:
            self.parent._have_more(what, more - self.kept.get(what, 0) + kept)  # noqa: SLF001 (of its own kind)

    def _keep(self, what: FlavorResource) -> None:
        limit = self.quota(what).lending_limit
        if limit is None:
            self.kept.pop(what, None)
        else:
            self.kept[what] = max(0, self.subtree[what] - limit)


class Tree:
    """All cohorts and queues of a model, idle at first."""

    def __init__(self, model: Model) -> None:
        """Build it; cohorts that are their own ancestors, and all in them, stand apart as `cyclic`."""
        queues = model.cluster_queues or {}
        names = {each.cohort for each in queues.values()} | {each.parent for each in model.cohorts.values()}
        self.cohorts = {name: Node(name, {}) for name in names if name is not None}
        self.cohorts |= {name: Node(name, each.quotas) for name, each in model.cohorts.items()}
        self._parents = {name: each.parent for name, each in model.cohorts.items()}
        self.queues = {name: self._queue(each) for name, each in queues.items()}
        for name, node in self.cohorts.items():
            parent = self._parents.get(name)
            if parent is not None and not self.cyclic(name):
                node.parent = self.cohorts[parent]
                node.parent.cohorts.append(node)
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                node.sum_up()
        for name, each in queues.items():
            self.queues[name].active = active(model, each) and not (each.cohort and self.cyclic(each.cohort))

    def _queue(self, queue: ClusterQueue) -> Node:
        node = Node(queue.name, queue.quotas)
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
        for what, number in usage.items():
            node.add(what, number)

    def remove(self, queue: str, usage: Usage) -> None:
        """Let a queue use so much less."""
        node = self.queues[queue]
        for what, number in usage.items():
            node.remove(what, number)

    def potential(self, cluster_queue: str, flavor: str, resource: str) -> int:
        """The most that a queue can have, if nobody else uses anything; 0 where it has no such quota."""
        node = self.queues[cluster_queue]
        return node.potential((flavor, resource)) if (flavor, resource) in node.quotas else 0

    def available(self, cluster_queue: str, flavor: str, resource: str) -> int:
        """What a queue can have now; 0 where it has no such quota."""
        node = self.queues[cluster_queue]
        return max(0, node.available((flavor, resource))) if (flavor, resource) in node.quotas else 0

    def subtree(self, cohort: str, flavor: str, resource: str) -> int:
        """What a cohort and all below it have."""
        return self.cohorts[cohort].subtree.get((flavor, resource), 0)


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
