"""The queues of one cohort tree, with what is cached about them until their usage changes."""

from collections.abc import Iterable, Mapping

from trainstack.kueue.cycle import QueueHead
from trainstack.kueue.feasibility import FeasibilityFilter
from trainstack.kueue.model import Usage
from trainstack.kueue.nomination import AdmissionAttempt, attempt_admission, consecutive_attempts
from trainstack.kueue.pending_queue import PendingQueue, QueueEntry, Shape
from trainstack.kueue.snapshot import Snapshot


class RootCohort:
    def __init__(self, snapshot: Snapshot, members: Iterable[PendingQueue]) -> None:
        self._snapshot = snapshot
        self.members = tuple(members)
        self.feasibility = FeasibilityFilter(pending_queue.cq for pending_queue in self.members)
        self._attempts: dict[Shape, tuple[AdmissionAttempt, bool]] = {}
        """Attempts that begin with the first flavor: they are equal for all workloads of one shape."""

    def nominate(self, entry: QueueEntry, pending_queue: PendingQueue) -> QueueHead:
        """Attempt to admit the head of a queue, from where its last attempt ended.

        If its next attempts would all fail they are not made, unless they would repeat without end; Kueue makes them
        one by one in later cycles.
        """
        # With scan progress, an assignment of the preceding cycle is kept although the usage has changed.
        if entry.generation != pending_queue.generation and not self._snapshot.keeps_scan_progress:
            entry.tried_flavors = ()
        entry.generation = pending_queue.generation
        cached_attempt = self._attempts.get(entry.shape) if not entry.tried_flavors else None
        if cached_attempt is None:
            cached_attempt = self._attempt_and_continues(entry, pending_queue)
            if not entry.tried_flavors:
                self._attempts[entry.shape] = cached_attempt
        first_attempt, continues = cached_attempt
        return QueueHead(entry, pending_queue, first_attempt, continues=continues)

    def _attempt_and_continues(self, item: QueueEntry, pending: PendingQueue) -> tuple[AdmissionAttempt, bool]:
        cq, workload = pending.cq, item.workload
        first_attempt = attempt_admission(self._snapshot, cq, workload, item.tried_flavors)
        if first_attempt.is_nominated or not first_attempt.assignment.has_untried_flavors:
            return first_attempt, False
        for later_attempt in consecutive_attempts(self._snapshot, cq, workload, first_attempt.assignment.tried_flavors):
            if later_attempt.is_nominated:
                return first_attempt, True
        return first_attempt, later_attempt.assignment.has_untried_flavors

    def requeue_inadmissible(self) -> None:
        """Make all workloads pending again: quota was released."""
        for pending_queue in self.members:
            pending_queue.requeue_inadmissible()

    def invalidate(self, queue: str, usage: Usage) -> None:
        """Record that a workload with this usage was admitted, evicted or finished."""
        self._attempts.clear()
        self.feasibility.invalidate(queue, usage)


def root_cohorts_of(snapshot: Snapshot, pending_queues: Mapping[str, PendingQueue]) -> dict[str, RootCohort]:
    """Return the root cohort of each cluster queue."""
    roots: dict[int, list[PendingQueue]] = {}
    for pending_queue in pending_queues.values():
        roots.setdefault(id(pending_queue.cq.node.root), []).append(pending_queue)
    root_cohorts = [RootCohort(snapshot, members) for members in roots.values()]
    return {
        pending_queue.cq.spec.name: root_cohort for root_cohort in root_cohorts for pending_queue in root_cohort.members
    }
