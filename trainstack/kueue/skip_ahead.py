"""Skip cycles in which heads reserve quota against each other in the same way.

A head that cannot be admitted reserves quota in its cycle, and a head that could be admitted is skipped. The next cycle
repeats that with other heads of the same shapes. Which shape blocks which is calculated once for each usage of quota.
"""

from collections.abc import Iterable, Sequence

from trainstack.kueue.cycle import QueueHead, quota_to_reserve, still_fits
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

    def count_repetitions(self, heads: Sequence[QueueHead], advancing_queues: Iterable[PendingQueue]) -> int:
        """Return the number of cycles that repeat this one, in which all nominated heads were skipped.

        0 with fair sharing, whose order of heads depends on the usage of all of them.
        UNLIMITED if the head of a StrictFIFO queue blocks them. `advancing_queues`: the queues that advanced to their
        next workload.
        """
        skipped_heads = [head for head in heads if head.is_nominated]
        waiting_heads = [head for head in heads if not head.is_nominated and head.from_first_flavor]
        queues = list(advancing_queues)
        if not skipped_heads or not waiting_heads:
            return 0
        if any(not head.from_first_flavor or head.entry.tried_flavors for head in skipped_heads):
            return 0
        if self._snapshot.fair_sharing:
            return 0
        for head in skipped_heads:
            for waiting_head in waiting_heads:
                if waiting_head.order < head.order and not self._fits_after(head, waiting_head):
                    blockers = self._blockers.setdefault((head.entry.shape, waiting_head.pending_queue), {})
                    blockers[waiting_head.entry.shape] = waiting_head.order[0]
        return min(max((self._cycles_blocked(head, queue) for queue in queues), default=0) for head in skipped_heads)

    def _fits_after(self, head: QueueHead, waiting_head: QueueHead) -> bool:
        name, reserved_usage = waiting_head.pending_queue.cq.spec.name, quota_to_reserve(waiting_head)
        self._snapshot.tree.add(name, reserved_usage)
        fits = still_fits(self._snapshot, head, {})
        self._snapshot.tree.remove(name, reserved_usage)
        return fits

    def _cycles_blocked(self, head: QueueHead, queue: PendingQueue) -> int:
        """Return for how many cycles the queue's next workloads block a head."""
        blockers = self._blockers.get((head.entry.shape, queue), {})
        lower_level = {shape for shape, level in blockers.items() if level < head.order[0]}
        same_level = {shape for shape, level in blockers.items() if level == head.order[0]}
        return queue.count_blocked_cycles(lower_level, same_level, head.entry)
