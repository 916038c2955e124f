"""One attempt to admit a workload at the head of its queue.

Source: getInitialAssignments in pkg/scheduler/scheduler.go and flavorassigner/podset_reducer.go of Kueue v0.15.2.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainstack.kueue.flavor_assigner import Assignment, Mode, Tried, assign
from trainstack.kueue.model import Admitted, FlavorResource, Workload
from trainstack.kueue.preemption import preemption_targets, simulate_preemption
from trainstack.kueue.preemption_context import Context
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class Attempt:
    assignment: Assignment
    targets: tuple[Admitted, ...] = ()
    """The preemption targets; () if none are needed, or none may be preempted."""

    @property
    def nominated(self) -> bool:
        return self.assignment.mode is Mode.FIT or bool(self.targets)

    @property
    def skipped(self) -> bool:
        """Whether Kueue nominates the workload and then finds that the quota is not available.

        With `preference: BorrowingOverPreemption` a resource that fits by borrowing hides a contested resource that
        fits within nominal quota: Kueue takes the flavor for a fit, and skips the workload cycle after cycle.
        """
        return self.assignment.mode is Mode.FIT and bool(self.assignment.contested())

    @property
    def succeeds(self) -> bool:
        """Whether the workload is admitted, at once or after preemption."""
        return self.nominated and not self.skipped


def attempt(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried: Tried = ()) -> Attempt:
    """Make one attempt, with partial admission if not all pods fit; the snapshot is unchanged on return.

    `tried`: `Assignment.tried` of the workload's previous attempt.
    """
    whole = _attempt(snapshot, cq, workload, None, tried)
    if whole.nominated:
        return whole
    return _reduced(snapshot, cq, workload, tried) or whole


def attempts(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried: Tried = ()) -> Iterator[Attempt]:
    """Yield the attempts of consecutive cycles if nothing else changes; each continues after the flavors tried before.

    Ends when no untried flavors are left, or when the attempts would repeat.
    """
    seen: list[Tried] = []
    while tried not in seen:
        seen.append(tried)
        current = attempt(snapshot, cq, workload, tried)
        yield current
        if current.nominated or not current.assignment.unfinished:
            return
        tried = current.assignment.tried


def _attempt(
    snapshot: Snapshot,
    cq: QueueSnapshot,
    workload: Workload,
    counts: Sequence[int] | None,
    tried: Tried,
) -> Attempt:
    def oracle(fr: FlavorResource, number: int) -> tuple[Mode, int]:
        return simulate_preemption(snapshot, workload, cq, fr, number)

    assignment = assign(workload, cq, oracle, counts=counts, tried=tried)
    if assignment.mode in (Mode.FIT, Mode.NO_FIT):
        return Attempt(assignment)
    ctx = Context(workload, cq, assignment.contested(), assignment.usage)
    return Attempt(assignment, tuple(preemption_targets(snapshot, ctx)))


def _reduced(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried: Tried) -> Attempt | None:
    """Search by bisection for the most pods that fit; all pod sets shrink in proportion, down to `min_count`.

    As in Kueue, the search begins with all pods, whether or not some are reclaimed.
    """
    sets = workload.pod_sets
    whole = [pods.count + pods.reclaimed for pods in sets]
    spare = [0 if pods.min_count is None else full - pods.min_count for pods, full in zip(sets, whole, strict=True)]
    if not any(number > 0 for number in spare):
        return None
    total = sum(spare)
    made: dict[int, Attempt] = {}

    def nominated(removed: int) -> bool:
        counts = [full - extra * removed // total for full, extra in zip(whole, spare, strict=True)]
        made[removed] = _attempt(snapshot, cq, workload, counts, tried)
        return made[removed].nominated

    return made.get(bisect_left(range(total + 1), x=True, key=nominated))
