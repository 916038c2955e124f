"""The pending workloads of one cluster queue, in Kueue's order.

Source: pkg/cache/queue/cluster_queue.go of Kueue v0.15.2. Each cycle takes the head; a workload that does not fit is
inadmissible until quota is released in its cohort tree, which makes all workloads pending again. The head of a
StrictFIFO queue is tried again in every cycle. A preempting workload is sticky: it stays the head until it is admitted
or another workload of the queue preempts. Workloads that differ in nothing that the scheduler uses share a shape.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

from trainstack.kueue.backoff import UNLIMITED
from trainstack.kueue.feasibility import FeasibilityFilter, Needs, floor, kind_of, needs_of
from trainstack.kueue.flavor_assigner import Tried
from trainstack.kueue.model import Workload
from trainstack.kueue.snapshot import QueueSnapshot

Order = tuple[int, float, int]
"""Descending priority, creation time, then the order of submission, which Kueue leaves undefined."""


@dataclass(slots=True, eq=False)
class Item:
    """A pending workload."""

    order: Order
    workload: Workload
    shape: "Shape"
    tried: Tried = ()
    """Where the last attempt ended, if the next one continues there."""
    generation: int = 0
    """The queue's generation at the last attempt."""

    def __lt__(self, other: "Item") -> bool:
        return self.order < other.order


@dataclass(slots=True, eq=False)
class Shape:
    """Workloads that are equal to the scheduler, in order."""

    needs: Needs
    kind: "Kind"
    items: list[Item] = field(default_factory=list)

    def first(self, head: Item) -> Item | None:
        """Return the first workload from `head` on."""
        place = bisect_left(self.items, head)
        return self.items[place] if place < len(self.items) else None


@dataclass(slots=True, eq=False)
class Kind:
    """Shapes whose needs differ in their amounts only."""

    place: float
    """The negative priority, which begins the order of their workloads."""
    shapes: list[Shape] = field(default_factory=list)
    pending: list[Shape] = field(default_factory=list)
    """The shapes with pending workloads."""
    floor: Needs | None = None
    """The minimum of their needs; None: not calculated."""
    flavors: tuple[str, ...] = ()
    infeasible_since: int = -1
    """The filter's change after which the floor was infeasible; -1: unknown."""

    def first(self, head: Item, last: Item, cq: QueueSnapshot, feasibility: FeasibilityFilter) -> Item | None:
        """Return the first workload from `head` to `last` that could be admitted."""
        if not head.order[0] <= self.place <= last.order[0]:
            return None
        if self.floor is None:
            self.pending = [shape for shape in self.shapes if shape.items]
            if not self.pending:
                return None
            self.floor = floor([shape.needs for shape in self.pending])
            self.flavors, self.infeasible_since = self.floor.flavors, -1
        if self.infeasible_since >= 0 and feasibility.unchanged(self.flavors, self.infeasible_since):
            return None
        if not feasibility.may_fit(cq, self.floor):
            self.infeasible_since = feasibility.changes
            return None
        self.infeasible_since = -1
        found: Item | None = None
        for shape in self.pending:
            item = shape.first(head)
            if item is not None and not last < item and feasibility.may_admit(cq, shape, shape.needs):
                found = last = item
        return found


class PendingQueue:
    def __init__(self, cq: QueueSnapshot) -> None:
        self.cq = cq
        self.generation = 0
        """Incremented when the queue's usage changes: flavors are then tried from the first one again."""
        self._sticky: Item | None = None
        """The preempting workload, which is in none of the lists below. Source: stickyWorkload."""
        self._sticky_pending = False
        """Whether the sticky workload is not inadmissible."""
        self._items: list[Item] = []
        self._next = 0
        """The items before this index are inadmissible."""
        self._late: list[Item] = []
        """Items before that index that were submitted later and are pending."""
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._kinds: dict[object, Kind] = {}

    def add(self, workload: Workload, number: int) -> None:
        """Add a workload; `number` is the order of submission."""
        key = shape_of(workload, self.cq)
        shape = self._shapes.get(key)
        if shape is None:
            needs = needs_of(workload, self.cq)
            kind = self._kind(needs)
            shape = self._shapes[key] = Shape(needs, kind)
            kind.shapes.append(shape)
        self._insert(Item((-workload.priority, workload.created, number), workload, shape))

    def _insert(self, item: Item, *, inadmissible: bool = False) -> None:
        if not item.shape.items:
            item.shape.kind.floor = None
        insort(item.shape.items, item)
        place = bisect_left(self._items, item)
        self._items.insert(place, item)
        if place < self._next:
            self._next += 1
            if not inadmissible:
                insort(self._late, item)

    def _kind(self, needs: Needs) -> Kind:
        key = kind_of(needs)
        if key not in self._kinds:
            self._kinds[key] = Kind(-needs.priority)
            # Highest priority first: a match limits the search in the other kinds.
            self._kinds = dict(sorted(self._kinds.items(), key=lambda pair: pair[1].place))
        return self._kinds[key]

    def head(self) -> Item | None:
        """Return the workload of the next cycle; None if all are inadmissible."""
        if self._sticky_pending:
            return self._sticky
        if self._late:
            return self._late[0]
        return self._items[self._next] if self._next < len(self._items) else None

    def distance(self, feasibility: FeasibilityFilter, limit: int | None) -> int | None:
        """Return the number of cycles before a workload that could be admitted becomes the head; None if none does.

        `limit`: ignore workloads from this number of cycles on.
        """
        head = self.head()
        if head is None or limit == 0:
            return None
        if self._sticky_pending or self._late:
            return 0
        if self.cq.spec.strict:
            return 0 if feasibility.may_admit(self.cq, head.shape, head.shape.needs) else None
        last = self._items[-1 if limit is None else min(self._next + limit, len(self._items)) - 1]
        found: Item | None = None
        for kind in self._kinds.values():
            better = kind.first(head, last, self.cq, feasibility)
            if better is not None:
                found = last = better
        return None if found is None else bisect_left(self._items, found) - self._next

    def run_of(self, always: Collection[Shape], before: Collection[Shape], bound: Item) -> int:
        """Return how many of the next workloads have a shape in `always`, or one in `before` and precede `bound`."""
        head = self.head()
        if head is None or self._sticky_pending or self._late:
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
        """The number of cycles until all workloads are inadmissible; UNLIMITED for StrictFIFO."""
        if self.cq.spec.strict:
            return UNLIMITED if self._items else 0
        return len(self._items) - self._next + len(self._late) + self._sticky_pending

    @property
    def progress(self) -> tuple[Hashable, ...]:
        """The queue's state in its search; if it repeats without a change of usage, so do the cycles."""
        head = self.head()
        tried = () if head is None else tuple(tuple(flavors.items()) for flavors in head.tried)
        return self._next, len(self._late), self._sticky_pending, tried

    def skip(self, cycles: int) -> None:
        """Mark the workloads of this number of cycles as inadmissible."""
        head = self.head()
        if head is None or cycles == 0:
            return
        head.tried = ()
        if not self.cq.spec.strict:
            self._next = min(self._next + cycles, len(self._items))

    def mark_inadmissible(self, item: Item) -> None:
        """Mark the head as inadmissible; in a StrictFIFO queue it stays the head."""
        item.tried = ()
        if self.cq.spec.strict:
            return
        if item is self._sticky:
            self._sticky_pending = False
        elif self._late and self._late[0] is item:
            self._late.pop(0)
        elif self._next < len(self._items) and self._items[self._next] is item:
            self._next += 1

    def make_sticky(self, item: Item) -> None:
        """Keep a preempting workload at the head."""
        item.tried = ()
        if self.cq.spec.strict:
            return
        previous, was_pending = self._sticky, self._sticky_pending
        if previous is not item:
            self.delete(item)
            self._sticky = item
            if previous is not None:
                self._insert(previous, inadmissible=not was_pending)
        self._sticky_pending = True

    def delete(self, item: Item) -> None:
        if item is self._sticky:
            self._sticky, self._sticky_pending = None, False
            return
        for items in (self._items, item.shape.items, self._late):
            place = bisect_left(items, item)
            if place < len(items) and items[place] is item:
                del items[place]
                if items is self._items and place < self._next:
                    self._next -= 1
        if not item.shape.items:
            item.shape.kind.floor = None

    def delete_workload(self, key: str) -> None:
        """Delete a workload, if it is in this queue."""
        for item in self._all():
            if item.workload.key == key:
                self.delete(item)
                break

    def requeue_inadmissible(self) -> None:
        """Make all workloads pending again: quota was released."""
        self._next = 0
        self._late.clear()
        self._sticky_pending = self._sticky is not None

    def workloads(self) -> list[Workload]:
        """Return all workloads in order."""
        return [item.workload for item in sorted(self._all())]

    def _all(self) -> list[Item]:
        return [*self._items, *([] if self._sticky is None else [self._sticky])]


def shape_of(workload: Workload, cq: QueueSnapshot) -> tuple[Any, ...]:
    """Return a key of everything that an attempt depends on."""
    preemption = cq.spec.preemption
    policies = (preemption.within_cluster_queue, preemption.reclaim_within_cohort)
    created = workload.created if "LowerOrNewerEqualPriority" in policies else None
    pod_sets = (
        (
            pods.count,
            pods.min_count,
            pods.topology,
            pods.levels,
            pods.group,
            pods.reclaimed,
            tuple(pods.requests.items()),
            tuple(pods.selector.items()),
            pods.affinity,
            pods.tolerations,
        )
        for pods in workload.pod_sets
    )
    return (workload.priority, created, *pod_sets)
