"""Skip cycles in which heads keep quota from each other in the same way.

A head that cannot be admitted reserves quota in its cycle, and a head that could be admitted is skipped. The next cycle
repeats that with other heads of the same shapes. Which shape blocks which is calculated once for each usage of quota.
"""

from collections.abc import Iterable, Sequence

from trainstack.kueue.cycle import Head, quota_to_reserve, still_fits
from trainstack.kueue.pending_queue import PendingQueue, Shape
from trainstack.kueue.snapshot import Snapshot


class SkipAhead:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._blockers: dict[tuple[Shape, PendingQueue], dict[Shape, int]] = {}
        """By skipped shape and blocking queue: the blocking shapes of that queue, with their borrowing levels."""

    def invalidate(self) -> None:
        """Record that the usage changed."""
        self._blockers.clear()

    def cycles(self, heads: Sequence[Head], others: Iterable[PendingQueue]) -> int:
        """Return the number of cycles that repeat this one, in which all nominated heads were skipped.

        0 with fair sharing, whose order of heads depends on the usage of all of them.
        UNLIMITED if the head of a StrictFIFO queue blocks them. `others`: the queues that advanced to their next
        workload.
        """
        skipped = [head for head in heads if head.nominated]
        waiting = [head for head in heads if not head.nominated and head.from_first_flavor]
        queues = list(others)
        if not skipped or not waiting or not all(head.from_first_flavor for head in skipped):
            return 0
        if self._snapshot.fair_sharing:
            return 0
        for head in skipped:
            for other in waiting:
                if other.order < head.order and not self._fits_with(head, other):
                    blockers = self._blockers.setdefault((head.item.shape, other.pending), {})
                    blockers[other.item.shape] = other.order[0]
        return min(max((self._blocked(head, queue) for queue in queues), default=0) for head in skipped)

    def _fits_with(self, head: Head, other: Head) -> bool:
        name, reserved = other.pending.cq.spec.name, quota_to_reserve(other)
        self._snapshot.tree.add(name, reserved)
        fits = still_fits(self._snapshot, head, {})
        self._snapshot.tree.remove(name, reserved)
        return fits

    def _blocked(self, head: Head, queue: PendingQueue) -> int:
        """Return for how many cycles the queue's next workloads block a head."""
        blockers = self._blockers.get((head.item.shape, queue), {})
        before = {shape for shape, level in blockers.items() if level < head.order[0]}
        same_level = {shape for shape, level in blockers.items() if level == head.order[0]}
        return queue.run_of(before, same_level, head.item)
