"""The pending workloads of one cluster queue, in Kueue's order.

Source: pkg/cache/queue/cluster_queue.go of Kueue v0.15.2. Each cycle takes the head; a workload that does not fit is
inadmissible until quota is released in its cohort tree, which makes all workloads pending again. The head of a
StrictFIFO queue is tried again in every cycle, and so is any head whose attempts leave flavors untried. A preempting
workload is sticky: it stays the head until it is admitted or another workload of the queue preempts. Workloads that
differ in nothing that the scheduler uses share a shape.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

from trainstack.kueue.backoff import UNLIMITED
from trainstack.kueue.feasibility import FeasibilityFilter, Needs, kind_of, minimum_needs, needs_of, refused_needs
from trainstack.kueue.flavor_assigner import TriedFlavors
from trainstack.kueue.model import Workload
from trainstack.kueue.snapshot import QueueSnapshot

EntryOrder = tuple[int, float, int]
"""Descending priority, creation time, then the order of submission, which Kueue leaves undefined."""


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A pending workload."""

    order: EntryOrder
    workload: Workload
    shape: "Shape"
    tried_flavors: TriedFlavors = ()
    """Where the last attempt ended, if the next one continues there."""
    generation: int = 0
    """The queue's generation at the last attempt."""

    def __lt__(self, other: "QueueEntry") -> bool:
        return self.order < other.order


@dataclass(slots=True, eq=False)
class Shape:
    """Workloads that are equal to the scheduler, in order."""

    needs: Needs
    kind: "ShapeKind"
    entries: list[QueueEntry] = field(default_factory=list)

    def first_from(self, head: QueueEntry) -> QueueEntry | None:
        """Return the first workload from `head` on."""
        index = bisect_left(self.entries, head)
        return self.entries[index] if index < len(self.entries) else None


@dataclass(slots=True, eq=False)
class ShapeKind:
    """Shapes whose needs differ in their amounts only."""

    negative_priority: float
    """The negative priority, which begins the order of their workloads."""
    shapes: list[Shape] = field(default_factory=list)
    pending_shapes: list[Shape] = field(default_factory=list)
    """The shapes with pending workloads."""
    minimum_needs: Needs | None = None
    """The minimum of their needs; None: not calculated."""
    flavors: tuple[str, ...] = ()
    infeasible_since: int = -1
    """The filter's change after which the floor was infeasible; -1: unknown."""

    def first_feasible(
        self, head: QueueEntry, last_entry: QueueEntry, cq: QueueSnapshot, feasibility: FeasibilityFilter
    ) -> QueueEntry | None:
        """Return the first workload from `head` to `last` that could be admitted."""
        if not head.order[0] <= self.negative_priority <= last_entry.order[0]:
            return None
        if self.minimum_needs is None:
            self.pending_shapes = [shape for shape in self.shapes if shape.entries]
            if not self.pending_shapes:
                return None
            self.minimum_needs = minimum_needs([shape.needs for shape in self.pending_shapes])
            self.flavors, self.infeasible_since = self.minimum_needs.flavors, -1
        if self.infeasible_since >= 0 and feasibility.is_unchanged(self.flavors, self.infeasible_since):
            return None
        if not feasibility.needs_attempt(cq, self.minimum_needs):
            self.infeasible_since = feasibility.changes
            return None
        self.infeasible_since = -1
        first_entry: QueueEntry | None = None
        for shape in self.pending_shapes:
            entry = shape.first_from(head)
            if entry is not None and not last_entry < entry and feasibility.may_admit(cq, shape, shape.needs):
                first_entry = last_entry = entry
        return first_entry


class PendingQueue:
    def __init__(self, cq: QueueSnapshot) -> None:
        self.cq = cq
        self.generation = 0
        """Incremented when the queue's usage changes: flavors are then tried from the first one again."""
        self._sticky: QueueEntry | None = None
        """The preempting workload, which is in none of the lists below. Source: stickyWorkload."""
        self._sticky_pending = False
        """Whether the sticky workload is not inadmissible."""
        self._entries: list[QueueEntry] = []
        self._next_index = 0
        """The items before this index are inadmissible."""
        self._late_entries: list[QueueEntry] = []
        """Items before that index that were submitted later and are pending."""
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._kinds: dict[object, ShapeKind] = {}

    def add(self, workload: Workload, number: int, *, is_refused: bool = False) -> QueueEntry:
        """Add a workload; `number` is the order of submission. `is_refused`: no attempt at it ever succeeds."""
        key = (is_refused, *shape_of(workload, self.cq))
        shape = self._shapes.get(key)
        if shape is None:
            needs = refused_needs(workload) if is_refused else needs_of(workload, self.cq)
            kind = self._kind(needs)
            shape = self._shapes[key] = Shape(needs, kind)
            kind.shapes.append(shape)
        entry = QueueEntry((-workload.priority, workload.created, number), workload, shape)
        self._insert(entry)
        return entry

    def _insert(self, entry: QueueEntry, *, inadmissible: bool = False) -> None:
        if not entry.shape.entries:
            entry.shape.kind.minimum_needs = None
        insort(entry.shape.entries, entry)
        index = bisect_left(self._entries, entry)
        self._entries.insert(index, entry)
        if index < self._next_index:
            self._next_index += 1
            if not inadmissible:
                insort(self._late_entries, entry)

    def _kind(self, needs: Needs) -> ShapeKind:
        key = kind_of(needs)
        if key not in self._kinds:
            self._kinds[key] = ShapeKind(-needs.priority)
            # Highest priority first: a match limits the search in the other kinds.
            self._kinds = dict(sorted(self._kinds.items(), key=lambda item: item[1].negative_priority))
        return self._kinds[key]

    def head(self) -> QueueEntry | None:
        """Return the workload of the next cycle; None if all are inadmissible."""
        if self._sticky_pending:
            return self._sticky
        if self._late_entries:
            return self._late_entries[0]
        return self._entries[self._next_index] if self._next_index < len(self._entries) else None

    def cycles_to_feasible(self, feasibility: FeasibilityFilter, limit: int | None) -> int | None:
        """Return the number of cycles before a workload that could be admitted becomes the head; None if none does.

        `limit`: ignore workloads from this number of cycles on.
        """
        head = self.head()
        if head is None or limit == 0:
            return None
        if self._sticky_pending or self._late_entries:
            return 0
        if self.cq.spec.is_strict_fifo:
            return 0 if feasibility.may_admit(self.cq, head.shape, head.shape.needs) else None
        last_entry = self._entries[-1 if limit is None else min(self._next_index + limit, len(self._entries)) - 1]
        first_entry: QueueEntry | None = None
        for kind in self._kinds.values():
            candidate = kind.first_feasible(head, last_entry, self.cq, feasibility)
            if candidate is not None:
                first_entry = last_entry = candidate
        return None if first_entry is None else bisect_left(self._entries, first_entry) - self._next_index

    def count_blocked_cycles(
        self, blocking_shapes: Collection[Shape], shapes_before_bound: Collection[Shape], bound: QueueEntry
    ) -> int:
        """Return how many of the next workloads have a blocking shape, or a shape that blocks before `bound`."""
        head = self.head()
        if head is None or self._sticky_pending or self._late_entries:
            return 0
        if self.cq.spec.is_strict_fifo:
            return (
                UNLIMITED
                if head.shape in blocking_shapes or (head.shape in shapes_before_bound and head < bound)
                else 0
            )
        end_entry: QueueEntry | None = None
        for shape in self._shapes.values():
            if shape in blocking_shapes or not shape.entries:
                continue
            next_entry = shape.first_from(max(head, bound) if shape in shapes_before_bound else head)
            if next_entry is not None and (end_entry is None or next_entry < end_entry):
                end_entry = next_entry
        return (
            len(self._entries) - self._next_index
            if end_entry is None
            else bisect_left(self._entries, end_entry) - self._next_index
        )

    @property
    def remaining_cycles(self) -> int:
        """The number of cycles until all workloads are inadmissible; UNLIMITED for StrictFIFO."""
        if self.cq.spec.is_strict_fifo:
            return UNLIMITED if self._entries else 0
        return len(self._entries) - self._next_index + len(self._late_entries) + self._sticky_pending

    @property
    def progress(self) -> tuple[Hashable, ...]:
        """The queue's state in its search; if it repeats without a change of usage, so do the cycles."""
        head = self.head()
        tried = () if head is None else tuple(tuple(flavors.items()) for flavors in head.tried_flavors)
        return self._next_index, len(self._late_entries), self._sticky_pending, tried

    def skip(self, cycles: int) -> None:
        """Mark the workloads of this number of cycles as inadmissible."""
        head = self.head()
        if head is None or cycles == 0:
            return
        head.tried_flavors = ()
        if not self.cq.spec.is_strict_fifo:
            self._next_index = min(self._next_index + cycles, len(self._entries))

    def mark_inadmissible(self, entry: QueueEntry) -> None:
        """Mark the head as inadmissible; in a StrictFIFO queue it stays the head."""
        entry.tried_flavors = ()
        if self.cq.spec.is_strict_fifo:
            return
        if entry is self._sticky:
            self._sticky_pending = False
        elif self._late_entries and self._late_entries[0] is entry:
            self._late_entries.pop(0)
        elif self._next_index < len(self._entries) and self._entries[self._next_index] is entry:
            self._next_index += 1

    def make_sticky(self, entry: QueueEntry) -> None:
        """Keep a preempting workload at the head."""
        entry.tried_flavors = ()
        if self.cq.spec.is_strict_fifo:
            return
        previous, previous_was_pending = self._sticky, self._sticky_pending
        if previous is not entry:
            self.delete(entry)
            self._sticky = entry
            if previous is not None:
                self._insert(previous, inadmissible=not previous_was_pending)
        self._sticky_pending = True

    def delete(self, entry: QueueEntry) -> None:
        if entry is self._sticky:
            self._sticky, self._sticky_pending = None, False
            return
        for entries in (self._entries, entry.shape.entries, self._late_entries):
            index = bisect_left(entries, entry)
            if index < len(entries) and entries[index] is entry:
                del entries[index]
                if entries is self._entries and index < self._next_index:
                    self._next_index -= 1
        if not entry.shape.entries:
            entry.shape.kind.minimum_needs = None

    def delete_workload(self, key: str) -> None:
        """Delete a workload, if it is in this queue."""
        for entry in self._all_entries():
            if entry.workload.key == key:
                self.delete(entry)
                break

    def requeue_inadmissible(self) -> None:
        """Make all workloads pending again: quota was released."""
        self._next_index = 0
        self._late_entries.clear()
        self._sticky_pending = self._sticky is not None

    def workloads(self) -> list[Workload]:
        """Return all workloads in order."""
        return [entry.workload for entry in sorted(self._all_entries())]

    def _all_entries(self) -> list[QueueEntry]:
        return [*self._entries, *([] if self._sticky is None else [self._sticky])]


def shape_of(workload: Workload, cq: QueueSnapshot) -> tuple[Any, ...]:
    """Return a key of everything that an attempt depends on."""
    preemption = cq.spec.preemption
    policies = (preemption.within_cluster_queue, preemption.reclaim_within_cohort)
    created = workload.created if "LowerOrNewerEqualPriority" in policies else None
    pod_sets = (
        (
            pods.count,
            pods.min_count,
            pods.requests_topology,
            pods.levels,
            pods.group,
            pods.reclaimed_count,
            tuple(pods.requests.items()),
            tuple(pods.selector.items()),
            pods.affinity,
            pods.tolerations,
        )
        for pods in workload.pod_sets
    )
    return (workload.priority, created, *pod_sets)
