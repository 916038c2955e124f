"""One attempt to admit a workload at the head of its queue.

Source: getInitialAssignments in pkg/scheduler/scheduler.go and flavorassigner/podset_reducer.go of Kueue v0.15.2.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainstack.kueue.flavor_assigner import Assignment, Mode, TriedFlavors, assign_flavors
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Workload
from trainstack.kueue.preemption import preemption_targets, simulate_preemption
from trainstack.kueue.preemption_context import PreemptionContext
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class AdmissionAttempt:
    assignment: Assignment
    targets: tuple[AdmittedWorkload, ...] = ()
    """The preemption targets; () if none are needed, or none may be preempted."""
    lacks_pods: bool = False
    """Whether the targets leave too little quota of `pods`, which the search for them ignores."""

    @property
    def is_nominated(self) -> bool:
        return self.assignment.mode is Mode.FIT or bool(self.targets)

    @property
    def is_skipped(self) -> bool:
        """Whether Kueue nominates the workload and then finds that the quota is not available.

        With `preference: BorrowingOverPreemption` a resource that fits by borrowing hides a contested resource that
        fits within nominal quota: Kueue takes the flavor for a fit, and skips the workload cycle after cycle. It also
        skips a workload whose targets leave too little quota of `pods`.
        """
        return self.lacks_pods or (self.assignment.mode is Mode.FIT and bool(self.assignment.contested_resources()))

    @property
    def succeeds(self) -> bool:
        """Whether the workload is admitted, at once or after preemption."""
        return self.is_nominated and not self.is_skipped


def attempt_admission(
    snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried_flavors: TriedFlavors = ()
) -> AdmissionAttempt:
    """Make one attempt, with partial admission if not all pods fit; the snapshot is unchanged on return.

    `tried_flavors`: those of the assignment in the workload's previous attempt.
    """
    full_attempt = _attempt_with_counts(snapshot, cq, workload, None, tried_flavors)
    if full_attempt.is_nominated:
        return full_attempt
    return _reduced_attempt(snapshot, cq, workload, tried_flavors) or full_attempt


def consecutive_attempts(
    snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried_flavors: TriedFlavors = ()
) -> Iterator[AdmissionAttempt]:
    """Yield the attempts of consecutive cycles if nothing else changes; each continues after the last tried flavors.

    Ends when no untried flavors are left, or when the attempts would repeat. Source: markSkipped in scheduler.go of
    v0.19: with scan progress, an attempt that is skipped does not end the search.
    """
    earlier_tried: list[TriedFlavors] = []
    while tried_flavors not in earlier_tried:
        earlier_tried.append(tried_flavors)
        cycle_attempt = attempt_admission(snapshot, cq, workload, tried_flavors)
        yield cycle_attempt
        is_last = cycle_attempt.is_nominated and not (cycle_attempt.is_skipped and snapshot.keeps_scan_progress)
        if is_last or not cycle_attempt.assignment.has_untried_flavors:
            return
        tried_flavors = cycle_attempt.assignment.tried_flavors


def _attempt_with_counts(
    snapshot: Snapshot,
    cq: QueueSnapshot,
    workload: Workload,
    counts: Sequence[int] | None,
    tried: TriedFlavors,
) -> AdmissionAttempt:
    def oracle(fr: FlavorResource, number: int) -> tuple[Mode, int]:
        return simulate_preemption(snapshot, workload, cq, fr, number)

    assignment = assign_flavors(workload, cq, oracle, counts=counts, tried_flavors=tried)
    if assignment.mode in (Mode.FIT, Mode.NO_FIT):
        return AdmissionAttempt(assignment)
    usage = {fr: number for fr, number in assignment.usage.items() if not (cq.forgets_pods and fr[1] == "pods")}
    ctx = PreemptionContext(workload, cq, assignment.contested_resources(), usage)
    targets = tuple(preemption_targets(snapshot, ctx))
    if not targets or len(usage) == len(assignment.usage):
        return AdmissionAttempt(assignment, targets)
    with snapshot.tree.without(targets):
        lacks_pods = any(cq.available(fr) < number for fr, number in assignment.usage.items())
    return AdmissionAttempt(assignment, targets, lacks_pods)


def _reduced_attempt(
    snapshot: Snapshot, cq: QueueSnapshot, workload: Workload, tried: TriedFlavors
) -> AdmissionAttempt | None:
    """Search by bisection for the most pods that fit; all pod sets shrink in proportion, down to `min_count`.

    As in Kueue, the search begins with all pods, whether or not some are reclaimed.
    """
    pod_sets = workload.pod_sets
    full_counts = [pods.count + pods.reclaimed_count for pods in pod_sets]
    spare_counts = [
        0 if pods.min_count is None else full_count - pods.min_count
        for pods, full_count in zip(pod_sets, full_counts, strict=True)
    ]
    if not any(number > 0 for number in spare_counts):
        return None
    total_spare = sum(spare_counts)
    attempts_by_removal: dict[int, AdmissionAttempt] = {}

    def is_nominated_without(removed: int) -> bool:
        counts = [
            full_count - spare_count * removed // total_spare
            for full_count, spare_count in zip(full_counts, spare_counts, strict=True)
        ]
        attempts_by_removal[removed] = _attempt_with_counts(snapshot, cq, workload, counts, tried)
        return attempts_by_removal[removed].is_nominated

    return attempts_by_removal.get(bisect_left(range(total_spare + 1), x=True, key=is_nominated_without))
