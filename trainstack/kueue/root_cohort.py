"""Queues that share quota: what is known of all of them, until any of it changes hands."""

from collections.abc import Iterable, Mapping

from trainstack.kueue.cycle import Head
from trainstack.kueue.feasibility import FeasibilityFilter
from trainstack.kueue.model import Usage
from trainstack.kueue.nomination import Attempt, attempt, attempts
from trainstack.kueue.pending_queue import Item, PendingQueue, Shape
from trainstack.kueue.snapshot import SchedulerSnapshot


class RootCohort:
    """The queues below one root."""

    def __init__(self, snapshot: SchedulerSnapshot, members: Iterable[PendingQueue]) -> None:
        """Nothing is known yet."""
        self._snapshot = snapshot
        self.members = tuple(members)
        self.feasibility = FeasibilityFilter(each.cq for each in self.members)
        self._made: dict[Shape, tuple[Attempt, bool]] = {}
        """Attempts from the first flavor on: those of one shape come to the same."""

    def tried(self, item: Item, pending: PendingQueue) -> Head:
        """An attempt of a queue's head, from where its last one ended.

        Where its next ones would all fail too they are not made: Kueue makes them one by one in as many cycles.
        """
        if item.generation != pending.generation:
            item.tried, item.generation = (), pending.generation
        known = self._made.get(item.shape) if not item.tried else None
        if known is None:
            known = self._try(item, pending)
            if not item.tried:
                self._made[item.shape] = known
        made, goes_on = known
        return Head(item, pending, made, goes_on=goes_on)

    def _try(self, item: Item, pending: PendingQueue) -> tuple[Attempt, bool]:
        cq, workload = pending.cq, item.workload
        made = attempt(self._snapshot, cq, workload, item.tried)
        if made.nominated or not made.assignment.unfinished:
            return made, False
        return made, any(each.nominated for each in attempts(self._snapshot, cq, workload, made.assignment.tried))

    def requeue_inadmissible(self) -> None:
        """Let all be tried again: quota has become free."""
        for pending in self.members:
            pending.requeue_inadmissible()

    def forget(self, queue: str, usage: Usage) -> None:
        """Somebody who uses this was admitted to a queue, or was told to go, or has gone."""
        self._made.clear()
        self.feasibility.forget(queue, usage)


def root_cohorts_of(snapshot: SchedulerSnapshot, pending: Mapping[str, PendingQueue]) -> dict[str, RootCohort]:
    """By cluster queue, all those that share quota with it."""
    roots: dict[int, list[PendingQueue]] = {}
    for each in pending.values():
        *_, root = (each.cq.node, *each.cq.node.ancestors())
        roots.setdefault(id(root), []).append(each)
    found = [RootCohort(snapshot, members) for members in roots.values()]
    return {each.cq.spec.name: root_cohort for root_cohort in found for each in root_cohort.members}
