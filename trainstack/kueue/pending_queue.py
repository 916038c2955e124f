"""The workloads that wait for one cluster queue, in the order in which Kueue takes them.

Source: pkg/cache/queue/cluster_queue.go of Kueue v0.15.2. In each cycle the queue gives its next one; what does not fit
is passed over until quota becomes free somewhere in its tree, and then all of them come again from the first. A strict
queue gives its first one again and again. Who has evicted others stands before all others until it is admitted or
another one evicts. Workloads that the scheduler cannot tell apart share a shape.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.kueue.backoff import UNLIMITED
from trainstack.kueue.feasibility import FeasibilityFilter, Needs, floor, kind_of, needs_of
from trainstack.kueue.model import PodSet, Workload
from trainstack.kueue.snapshot import ClusterQueueSnapshot

Order = tuple[int, float, int]
"""Highest priority first, then who was created first, then who was submitted first: Kueue leaves the last one open."""


@dataclass(slots=True, eq=False)
class Item:
    """A workload that waits."""

    order: Order
    workload: Workload
    shape: "Shape"
    tried: tuple[Mapping[str, int], ...] = ()
    """Where its last attempt ended, if the next one goes on there."""
    generation: int = 0
    """Its queue's at that attempt."""

    def __lt__(self, other: "Item") -> bool:
        """Whether it comes before another."""
        return self.order < other.order


@dataclass(slots=True, eq=False)
class Shape:
    """Workloads that are alike to the scheduler, in order."""

    needs: Needs
    kind: "Kind"
    items: list[Item] = field(default_factory=list)

    def first(self, head: Item) -> Item | None:
        """The first that is not before `head`."""
        if not self.items[0] < head:
            return self.items[0]
        place = bisect_left(self.items, head)
        return self.items[place] if place < len(self.items) else None


@dataclass(slots=True, eq=False)
class Kind:
    """Shapes whose needs differ in their amounts alone."""

    place: float
    """Where their priority stands: the first part of their items' order."""
    shapes: list[Shape] = field(default_factory=list)
    waiting: list[Shape] = field(default_factory=list)
    """Those of which somebody waits."""
    floor: Needs | None = None
    """What those need at the least; None: to be found again."""
    flavors: tuple[str, ...] = ()
    """That they choose between."""
    infeasible_since: int = -1
    """After so many changes of the use of the flavors the floor was not to be had; -1: that is not known."""

    def first(self, head: Item, last: Item, cq: ClusterQueueSnapshot, feasibility: FeasibilityFilter) -> Item | None:
        """The first between `head` and `last` who could be admitted."""
        if not head.order[0] <= self.place <= last.order[0]:
            return None
        if self.floor is None:
            self.waiting = [shape for shape in self.shapes if shape.items]
            if not self.waiting:
                return None
            self.floor = floor([shape.needs for shape in self.waiting])
            self.flavors, self.infeasible_since = self.floor.flavors, -1
        if self.infeasible_since >= 0 and feasibility.same(self.flavors, self.infeasible_since):
            return None
        if not feasibility.may_fit(cq, self.floor):
            self.infeasible_since = feasibility.changes
            return None
        self.infeasible_since = -1
        found: Item | None = None
        for shape in self.waiting:
            item = shape.first(head)
            if item is not None and not last < item and feasibility.may_admit(cq, shape, shape.needs):
                found = last = item
        return found


class PendingQueue:
    """Who waits for a cluster queue."""

    def __init__(self, cq: ClusterQueueSnapshot) -> None:
        """Nobody yet."""
        self.cq = cq
        self.generation = 0
        """Raised whenever quota of this queue changes hands: then flavors are tried from the first one again."""
        self._sticky: Item | None = None
        """Who has evicted others; it is in none of the lists below. Source: stickyWorkload."""
        self._sticks = False
        """It was not passed over yet."""
        self._items: list[Item] = []
        self._next = 0
        """Those before this place were passed over."""
        self._late: list[Item] = []
        """Submitted before that place since."""
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._kinds: dict[object, Kind] = {}

    def add(self, workload: Workload, number: int) -> None:
        """Let a workload join. `number` counts submissions."""
        key = shape_of(workload, self.cq)
        shape = self._shapes.get(key)
        if shape is None:
            needs = needs_of(workload, self.cq)
            kind = self._kind(needs)
            shape = self._shapes[key] = Shape(needs, kind)
            kind.shapes.append(shape)
        self._insert(Item((-workload.priority, workload.created, number), workload, shape))

    def _insert(self, item: Item, *, passed: bool = False) -> None:
        """`passed`: it is not tried again before quota becomes free, if its place was passed over."""
        if not item.shape.items:
            item.shape.kind.floor = None
        insort(item.shape.items, item)
        place = bisect_left(self._items, item)
        self._items.insert(place, item)
        if place < self._next:
            self._next += 1
            if not passed:
                insort(self._late, item)

    def _kind(self, needs: Needs) -> Kind:
        key = kind_of(needs)
        if key not in self._kinds:
            self._kinds[key] = Kind(-needs.priority)
            # Those of high priority are looked at first, and then it is known how far the others matter.
            self._kinds = dict(sorted(self._kinds.items(), key=lambda each: each[1].place))
        return self._kinds[key]

    def head(self) -> Item | None:
        """Who is tried in the next cycle; None where all were passed over."""
        if self._sticks:
            return self._sticky
        if self._late:
            return self._late[0]
        return self._items[self._next] if self._next < len(self._items) else None

    def distance(self, feasibility: FeasibilityFilter, most: int | None) -> int | None:
        """How many cycles pass before somebody is tried who could be admitted; None where nobody is.

        Args:
            hope: tells who could be admitted at all now.
            most: after so many cycles it does not matter any more; None: it always does.

        """
        head = self.head()
        if head is None or most == 0:
            return None
        if self._sticks or self._late:
            return 0
        if self.cq.spec.strict:
            return 0 if feasibility.may_admit(self.cq, head.shape, head.shape.needs) else None
        last = self._items[-1 if most is None else min(self._next + most, len(self._items)) - 1]
        found: Item | None = None
        for kind in self._kinds.values():
            better = kind.first(head, last, self.cq, feasibility)
            if better is not None:
                found = last = better
        return None if found is None else bisect_left(self._items, found) - self._next

    def run_of(self, always: Collection[Shape], before: Collection[Shape], bound: Item) -> int:
        """How many of the next ones are of the shapes `always`, or of the shapes `before` and come before `bound`."""
        head = self.head()
        if head is None or self._sticks or self._late:
            return 0
        if self.cq.spec.strict:
            return UNLIMITED if head.shape in always or (head.shape in before and head < bound) else 0
        end: Item | None = None
        for shape in self._shapes.values():
            if shape in always or not shape.items:
                continue
            first = shape.first(max(head, bound) if shape in before else head)
            if first is not None and (end is None or first < end):
                end = first
        return len(self._items) - self._next if end is None else bisect_left(self._items, end) - self._next

    @property
    def remaining(self) -> int:
        """Cycles until all were passed over: in a strict queue none ever is."""
        if self.cq.spec.strict:
            return UNLIMITED if self._items else 0
        return len(self._items) - self._next + len(self._late) + self._sticks

    @property
    def stage(self) -> tuple[Hashable, ...]:
        """How far this has come: where it is the same again with no quota changed meanwhile, it goes on in a circle."""
        head = self.head()
        tried = () if head is None else tuple(tuple(each.items()) for each in head.tried)
        return self._next, len(self._late), self._sticks, tried

    def skip(self, cycles: int) -> None:
        """Pass so many over, none of whom could be admitted."""
        head = self.head()
        if head is None or cycles == 0:
            return
        head.tried = ()
        if not self.cq.spec.strict:
            self._next = min(self._next + cycles, len(self._items))

    def mark_inadmissible(self, item: Item) -> None:
        """Pass over who was tried in vain, but not in a strict queue."""
        item.tried = ()
        if self.cq.spec.strict:
            return
        if item is self._sticky:
            self._sticks = False
        elif self._late and self._late[0] is item:
            self._late.pop(0)
        elif self._next < len(self._items) and self._items[self._next] is item:
            self._next += 1

    def make_sticky(self, item: Item) -> None:
        """Put who evicts others before all others, but not in a strict queue."""
        item.tried = ()
        if self.cq.spec.strict:
            return
        before, waits = self._sticky, self._sticks
        if before is not item:
            self.take(item)
            self._sticky = item
            if before is not None:
                self._insert(before, passed=not waits)
        self._sticks = True

    def take(self, item: Item) -> None:
        """Let a workload leave: it is admitted."""
        if item is self._sticky:
            self._sticky, self._sticks = None, False
            return
        for items in (self._items, item.shape.items, self._late):
            place = bisect_left(items, item)
            if place < len(items) and items[place] is item:
                del items[place]
                if items is self._items and place < self._next:
                    self._next -= 1
        if not item.shape.items:
            item.shape.kind.floor = None

    def remove(self, key: str) -> None:
        """Let a workload leave that does not wait any more; it may not be here."""
        for item in (item for item in self._all() if item.workload.key == key):
            self.take(item)
            break

    def requeue_inadmissible(self) -> None:
        """Let all be tried again: quota has become free."""
        self._next = 0
        self._late.clear()
        self._sticks = self._sticky is not None

    def waiting(self) -> list[Workload]:
        """All of them, by priority and age."""
        return [item.workload for item in sorted(self._all())]

    def _all(self) -> list[Item]:
        return [*self._items, *([] if self._sticky is None else [self._sticky])]


def shape_of(workload: Workload, cq: ClusterQueueSnapshot) -> tuple[Any, ...]:
    """All that an attempt depends on."""
    by_age = "LowerOrNewerEqualPriority" in (
        cq.spec.preemption.within_cluster_queue,
        cq.spec.preemption.reclaim_within_cohort,
    )
    return (workload.priority, workload.created if by_age else None, *map(_pods, workload.pod_sets))


def _pods(pods: PodSet) -> tuple[Any, ...]:
    return (
        pods.count,
        pods.least,
        pods.topology,
        tuple(pods.requests.items()),
        tuple(pods.selector.items()),
        pods.affinity,
        pods.tolerations,
    )
