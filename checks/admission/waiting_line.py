"""The workloads that wait in one cluster queue: those whose turn comes, and those that were refused.

Source: pkg/cache/queue/cluster_queue.go of Kueue v0.15.2. What was refused waits apart until something in the cohort
changes. Workloads that ask for the same are refused alike: where one was, the others are not tried before quota changes
hands, so that a sweep of thousands costs one attempt.
"""

from collections.abc import Hashable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from checks.admission.model import Workload

Order = tuple[float, float, int]
"""The highest priority first, then the oldest, then the first that came."""


class Entry:
    """A workload that waits."""

    __slots__ = ("alike", "generation", "order", "tried", "workload")

    def __init__(self, workload: Workload, number: int) -> None:
        """`number`: how many came before it."""
        self.workload = workload
        self.order: Order = (-workload.priority, workload.created, number)
        self.alike = _alike(workload)
        self.tried: tuple[Mapping[str, int], ...] = ()
        """Where its last attempt ended."""
        self.generation = -1
        """What the queue had gone through then."""

    def __lt__(self, other: "Entry") -> bool:
        return self.order < other.order


class _Alike:
    """Entries that ask for the same."""

    __slots__ = ("ready", "refused", "version")

    def __init__(self) -> None:
        self.ready: list[Entry] = []
        self.refused: list[Entry] = []
        self.version = -1
        """Of the usage at which one was refused."""


class Line:
    """The entries of one cluster queue."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._kinds: dict[Hashable, _Alike] = {}
        self._next: list[tuple[Order, Hashable]] = []
        """The first ready entry of each kind; may hold some that are not that any more."""
        self._asleep: list[Hashable] = []
        self._version = -1
        self._first: Entry | None = None
        """Waits for those that it evicts; comes before all others."""

    def push(self, entry: Entry, *, first: bool = False) -> None:
        """Let an entry be tried."""
        if first:
            self._first = entry
            return
        kind = self._kinds.setdefault(entry.alike, _Alike())
        heappush(kind.ready, entry)
        if kind.ready[0] is entry:
            heappush(self._next, (entry.order, entry.alike))

    def pop(self, version: int) -> Entry | None:
        """The entry whose turn it is. `version`: of the usage, which changes whenever quota changes hands."""
        if self._first is not None:
            entry, self._first = self._first, None
            return entry
        if version != self._version:
            self._version = version
            for alike in self._asleep:
                if ready := self._kinds[alike].ready:
                    heappush(self._next, (ready[0].order, alike))
            self._asleep.clear()
        while self._next:
            order, alike = heappop(self._next)
            kind = self._kinds[alike]
            if not kind.ready or kind.ready[0].order != order:
                continue
            if kind.version == version and not kind.ready[0].tried:
                self._asleep.append(alike)
                continue
            entry = heappop(kind.ready)
            if kind.ready:
                heappush(self._next, (kind.ready[0].order, alike))
            return entry
        return None

    def refuse(self, entry: Entry, version: int) -> None:
        """Let an entry wait until the queue is woken."""
        kind = self._kinds.setdefault(entry.alike, _Alike())
        kind.refused.append(entry)
        kind.version = version

    def wake(self) -> None:
        """Let everybody be tried again."""
        for kind in self._kinds.values():
            for entry in kind.refused:
                self.push(entry)
            kind.refused.clear()

    def remove(self, key: str) -> bool:
        """Let a workload leave; whether it was there."""
        if self._first is not None and self._first.workload.key == key:
            self._first = None
            return True
        for kind in self._kinds.values():
            for entries in (kind.ready, kind.refused):
                for entry in entries:
                    if entry.workload.key == key:
                        entries.remove(entry)
                        entries.sort()
                        if kind.ready:
                            heappush(self._next, (kind.ready[0].order, entry.alike))
                        return True
        return False

    def __iter__(self) -> Iterator[Entry]:
        """Everybody, in no order."""
        if self._first is not None:
            yield self._first
        for kind in self._kinds.values():
            yield from kind.ready
            yield from kind.refused


def _alike(workload: Workload) -> Hashable:
    sets: list[Any] = [
        (
            pods.count,
            pods.least,
            tuple(sorted(pods.requests.items())),
            tuple(sorted(pods.selector.items())),
            pods.affinity,
            pods.tolerations,
            pods.topology,
            pods.faults,
        )
        for pods in workload.pod_sets
    ]
    return workload.namespace, workload.queue, workload.priority, tuple(sets)
