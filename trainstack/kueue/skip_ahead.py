"""Who keeps others from quota by waiting for it: so that thousands who do so alike are not tried one by one.

A head that cannot be admitted keeps quota free for itself in its cycle, and one that could is skipped for it. In the
next cycle another head does the same. What one shape keeps from another is found out once for each use of quota.
"""

from collections.abc import Iterable, Sequence

from trainstack.kueue.cycle import Head, quota_to_reserve, still_fits
from trainstack.kueue.pending_queue import PendingQueue, Shape
from trainstack.kueue.snapshot import SchedulerSnapshot


class SkipAhead:
    """What is known at one use of quota."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        """Nothing yet."""
        self._snapshot = snapshot
        self._known: dict[tuple[Shape, PendingQueue], dict[Shape, int]] = {}
        """By the shape that is skipped and the queue that keeps quota from it: shapes of that queue, and the level at
        which they borrow."""

    def forget(self) -> None:
        """The use of quota is another one."""
        self._known.clear()

    def cycles(self, heads: Sequence[Head], others: Iterable[PendingQueue]) -> int:
        """How many cycles go like this one, in which no head was served: all who could be admitted are skipped again.

        FOR_EVER where a strict queue's head does it.

        Args:
            heads: of this cycle, those that were tried.
            others: the queues that have gone on to their next one.

        """
        skipped = [head for head in heads if head.nominated]
        waiting = [head for head in heads if not head.nominated and head.from_first_flavor]
        queues = list(others)
        if not skipped or not waiting or not all(head.from_first_flavor for head in skipped):
            return 0
        for head in skipped:
            for other in waiting:
                if other.order < head.order and not self._fits_beside(head, other):
                    known = self._known.setdefault((head.item.shape, other.pending), {})
                    known[other.item.shape] = other.order[0]
        return min(max((self._blocked(head, each) for each in queues), default=0) for head in skipped)

    def _fits_beside(self, head: Head, other: Head) -> bool:
        name, local_quota = other.pending.cq.spec.name, quota_to_reserve(other)
        self._snapshot.tree.add(name, local_quota)
        fits = still_fits(self._snapshot, head, {})
        self._snapshot.tree.remove(name, local_quota)
        return fits

    def _blocked(self, head: Head, queue: PendingQueue) -> int:
        """For how many cycles the queue's next ones keep a head from what it needs."""
        known = self._known.get((head.item.shape, queue), {})
        before = {shape for shape, level in known.items() if level < head.order[0]}
        beside = {shape for shape, level in known.items() if level == head.order[0]}
        return queue.run_of(before, beside, head.item)
