"""One attempt to admit a workload, as Kueue makes it when the workload is at the head of its queue.

Source: getInitialAssignments in pkg/scheduler/scheduler.go and flavorassigner/podset_reducer.go of Kueue v0.15.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.flavor_assigner import Assignment, PreemptionMode, assign
from trainstack.kueue.model import Admitted, FlavorResource, Workload
from trainstack.kueue.preemption import demanded, preemption_targets, simulate_preemption
from trainstack.kueue.snapshot import ClusterQueueSnapshot, SchedulerSnapshot


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt comes to."""

    assignment: Assignment
    targets: tuple[Admitted, ...] = ()
    """Who would have to go first; () where it fits as it is, and where nobody may be evicted."""

    @property
    def nominated(self) -> bool:
        """Whether Kueue goes on to admit it, now or once others have gone."""
        return self.assignment.mode is PreemptionMode.FIT or bool(self.targets)

    @property
    def skipped(self) -> bool:
        """Whether Kueue nominates it and then finds that the quota is not there.

        With `preference: BorrowingOverPreemption` a resource that fits by borrowing hides one that is in use and would
        not have to be borrowed: Kueue takes the flavor for one that fits, and skips the workload cycle after cycle.
        """
        return self.assignment.mode is PreemptionMode.FIT and bool(self.assignment.contested())

    @property
    def succeeds(self) -> bool:
        """Whether it is admitted, now or once others have gone."""
        return self.nominated and not self.skipped


def attempt(
    snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot, workload: Workload, tried: Sequence[Mapping[str, int]] = ()
) -> Attempt:
    """One attempt, with fewer pods where all of them do not fit and the workload allows it.

    Args:
        state: who uses what; as before when this returns.
        pool: the workload's queue.
        workload: what asks.
        tried: where its attempt before this one ended.

    """
    whole = _attempt(snapshot, cq, workload, None, tried)
    if whole.nominated:
        return whole
    return _reduced(snapshot, cq, workload, tried) or whole


def attempts(
    snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot, workload: Workload, tried: tuple[Mapping[str, int], ...] = ()
) -> Iterator[Attempt]:
    """The attempts that Kueue makes while nothing else happens: each begins where the one before ended.

    It stops when no flavors are left to begin with, or where it would go round for ever, as Kueue then does.
    `tried`: where one before them ended.
    """
    seen: list[tuple[Mapping[str, int], ...]] = []
    while tried not in seen:
        seen.append(tried)
        made = attempt(snapshot, cq, workload, tried)
        yield made
        if made.nominated or not made.assignment.unfinished:
            return
        tried = made.assignment.tried


def _attempt(
    snapshot: SchedulerSnapshot,
    cq: ClusterQueueSnapshot,
    workload: Workload,
    counts: Sequence[int] | None,
    tried: Sequence[Mapping[str, int]],
) -> Attempt:
    def oracle(fr: FlavorResource, number: int) -> tuple[PreemptionMode, int]:
        return simulate_preemption(snapshot, workload, cq, fr, number)

    assignment = assign(workload, cq, oracle, counts=counts, tried=tried)
    if assignment.mode in (PreemptionMode.FIT, PreemptionMode.NO_FIT):
        return Attempt(assignment)
    return Attempt(assignment, tuple(preemption_targets(snapshot, demanded(workload, cq, assignment))))


def _reduced(
    snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot, workload: Workload, tried: Sequence[Mapping[str, int]]
) -> Attempt | None:
    """With as many pods as fit, by bisection: sets shrink in step, from all their pods to the fewest that will do."""
    sets = workload.pod_sets
    spare = [0 if each.least is None else each.count - each.least for each in sets]
    if not any(each > 0 for each in spare):
        return None
    total = sum(spare)
    low, high = 0, total + 1
    good: tuple[int, Attempt] | None = None
    while low < high:
        middle = (low + high) // 2
        counts = [each.count - extra * middle // total for each, extra in zip(sets, spare, strict=True)]
        made = _attempt(snapshot, cq, workload, counts, tried)
        if made.nominated:
            high, good = middle, (middle, made)
        else:
            low = middle + 1
    return good[1] if good is not None and good[0] == low else None
