"""The workloads that wait in one cluster queue: those whose turn comes, and those that were refused.

Source: pkg/cache/queue/cluster_queue.go of Kueue v0.15.2. What was refused waits apart until quota becomes free in the
cohort. Workloads that ask for the same are refused alike: where one was, the others are not tried before that, and not
then either while what it lacked is still lacking. So a sweep of thousands costs one attempt.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from checks.admission.model import FlavorResource, Workload

Order = tuple[float, float, int]
"""The highest priority first, then the oldest, then the first that came."""
Needs = tuple[tuple[FlavorResource, int], ...]
"""For each flavor that would do, what was too little of, and how much is needed: one of them has to be there."""


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

    __slots__ = ("asleep", "needs", "ready", "refused")

    def __init__(self) -> None:
        self.ready: list[Entry] = []
        self.refused: list[Entry] = []
        self.needs: Needs | None = None
        """What one of them lacked when it was last refused; None where that is not known."""
        self.asleep = False
        """None of them is tried until the line is woken."""


class Line:
    """The entries of one cluster queue."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._kinds: dict[Hashable, _Alike] = {}
        self._next: list[tuple[Order, Hashable]] = []
        """The first ready entry of each kind that is awake; may hold some that are not that any more."""
        self._first: Entry | None = None
        """Waits for those that it evicts; comes before all others."""

    def push(self, entry: Entry, *, first: bool = False) -> None:
        """Let an entry be tried."""
        if first:
            self._first = entry
            return
        kind = self._kinds.setdefault(entry.alike, _Alike())
        heappush(kind.ready, entry)
        if kind.ready[0] is entry and not kind.asleep:
            heappush(self._next, (entry.order, entry.alike))

    def pop(self, still_lacking: Callable[[Workload, Needs], bool]) -> Entry | None:
        """The entry whose turn it is.

        `still_lacking`: whether what others like it were refused for is too little still.
        """
        if self._first is not None:
            entry, self._first = self._first, None
            return entry
        while self._next:
            order, alike = heappop(self._next)
            kind = self._kinds[alike]
            if kind.asleep or not kind.ready or kind.ready[0].order != order:
                continue
            entry = kind.ready[0]
            if kind.needs is not None and not entry.tried and still_lacking(entry.workload, kind.needs):
                kind.asleep = True
                continue
            heappop(kind.ready)
            if kind.ready:
                heappush(self._next, (kind.ready[0].order, alike))
            return entry
        return None

    def refuse(self, entry: Entry, needs: Needs | None) -> None:
        """Let an entry, and all that ask for the same, wait until the line is woken."""
        kind = self._kinds.setdefault(entry.alike, _Alike())
        kind.refused.append(entry)
        kind.needs = needs
        kind.asleep = True

    def wake(self) -> None:
        """Let everybody be tried again: quota has become free."""
        for alike, kind in self._kinds.items():
            if not kind.asleep:
                continue
            kind.asleep = False
            for entry in kind.refused:
                heappush(kind.ready, entry)
            kind.refused.clear()
            heappush(self._next, (kind.ready[0].order, alike))

    def remove(self, key: str) -> bool:
        """Let a workload leave; whether it was there."""
        if self._first is not None and self._first.workload.key == key:
            self._first = None
            return True
        for alike, kind in self._kinds.items():
            for entries in (kind.ready, kind.refused):
                found = next((entry for entry in entries if entry.workload.key == key), None)
                if found is None:
                    continue
                entries.remove(found)
                heapify(kind.ready)
                if not kind.ready and not kind.refused:
                    del self._kinds[alike]
                elif kind.ready and not kind.asleep:
                    heappush(self._next, (kind.ready[0].order, alike))
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
        )
        for pods in workload.pod_sets
    ]
    return workload.namespace, workload.queue, workload.priority, tuple(sets)
