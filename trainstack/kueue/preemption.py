"""Preemption: candidates, targets, and the oracle of the flavor assigner.

Source: pkg/scheduler/preemption of Kueue v0.15.2 (preemption.go, preemption_oracle.go, classical/). Fair sharing
selects other targets, in `fair_preemption`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from trainstack.kueue.fair_preemption import fair_preemption_targets
from trainstack.kueue.flavor_assigner import Mode
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Workload
from trainstack.kueue.preemption_context import PreemptionContext, preemption_order
from trainstack.kueue.resource_node import ResourceNode
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot


class PreemptionVariant(Enum):
    WITHIN_CQ = auto()
    HIERARCHICAL_RECLAIM = auto()
    RECLAIM_WITHOUT_BORROWING = auto()
    RECLAIM_WHILE_BORROWING = auto()


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    admitted: AdmittedWorkload
    variant: PreemptionVariant
    common_cohort: ResourceNode | None
    """The lowest common ancestor of both queues; None for the workload's own queue."""


def preemption_targets(snapshot: Snapshot, ctx: PreemptionContext) -> list[AdmittedWorkload]:
    """Return the workloads to preempt; empty if preemption does not make room.

    The snapshot is unchanged on return. Source: getTargets.
    """
    if snapshot.fair_sharing:
        return fair_preemption_targets(snapshot, ctx)
    return _classical_targets(snapshot, ctx)


def _classical_targets(snapshot: Snapshot, ctx: PreemptionContext) -> list[AdmittedWorkload]:
    """Remove candidates in order until the workload fits, then add them back, latest first, while it still fits.

    Source: classicalPreemptions.
    """
    borrows = ctx.cq.spec.preemption.borrow_within_cohort
    by_priority = borrows or _is_under_nominal(ctx)
    candidates = _candidates(snapshot, ctx, by_priority=by_priority)
    variants = {candidate.variant for candidate in candidates}
    if variants <= {PreemptionVariant.WITHIN_CQ} or not by_priority:
        borrowing_attempts: tuple[bool, ...] = (True,)
    elif not borrows and PreemptionVariant.HIERARCHICAL_RECLAIM not in variants:
        borrowing_attempts = (False, True)
    else:
        borrowing_attempts = (True, False)
    without_borrowing = PreemptionVariant.RECLAIM_WITHOUT_BORROWING
    for borrowing in borrowing_attempts:
        usable_candidates = [
            candidate for candidate in candidates if not borrowing or candidate.variant is not without_borrowing
        ]
        if _may_succeed(ctx, usable_candidates, borrowing=borrowing):
            targets = _remove_until_fit(snapshot, ctx, usable_candidates, borrowing=borrowing)
            if targets:
                return targets
    return []


def simulate_preemption(
    snapshot: Snapshot, workload: Workload, cq: QueueSnapshot, fr: FlavorResource, number: int
) -> tuple[Mode, int]:
    """Return the mode for one resource of one flavor, and the borrowing level after preemption.

    Source: SimulatePreemption in preemption_oracle.go.
    """
    targets = preemption_targets(snapshot, PreemptionContext(workload, cq, (fr,), {fr: number}))
    if not targets:
        return Mode.NO_CANDIDATES, cq.node.borrowing_level(fr, number)[0]
    with snapshot.tree.without(targets):
        level, _ = cq.node.borrowing_level(fr, number)
    within_queue = any(target.cluster_queue == cq.spec.name for target in targets)
    return Mode.PREEMPT if within_queue else Mode.RECLAIM, level


def _may_succeed(ctx: PreemptionContext, candidates: list[PreemptionCandidate], *, borrowing: bool) -> bool:
    """Whether the workload could fit without all candidates; avoids most attempts that fail."""
    node = ctx.cq.node
    for fr, number in ctx.usage.items():
        freed_numbers = [(candidate.variant, candidate.admitted.usage.get(fr, 0)) for candidate in candidates]
        if ctx.cq.available(fr) + sum(used for _, used in freed_numbers) < number:
            return False
        freed_within_queue = sum(used for variant, used in freed_numbers if variant is PreemptionVariant.WITHIN_CQ)
        if not borrowing and node.borrows_with(fr, number - freed_within_queue):
            return False
    return bool(candidates)


def _remove_until_fit(
    snapshot: Snapshot, ctx: PreemptionContext, candidates: list[PreemptionCandidate], *, borrowing: bool
) -> list[AdmittedWorkload]:
    targets: list[AdmittedWorkload] = []
    fits = False
    for candidate in candidates:
        if not _is_valid(snapshot, ctx, candidate):
            continue
        snapshot.remove(candidate.admitted)
        targets.append(candidate.admitted)
        if fits := ctx.fits(borrowing=borrowing):
            targets = ctx.fill_back(snapshot, targets, borrowing=borrowing)
            break
    for target in targets:
        snapshot.add(target)
    return targets if fits else []


def _is_under_nominal(ctx: PreemptionContext) -> bool:
    """Source: queueUnderNominalInResourcesNeedingPreemption."""
    node = ctx.cq.node
    return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in ctx.contested_resources)


def _is_valid(snapshot: Snapshot, ctx: PreemptionContext, candidate: PreemptionCandidate) -> bool:
    """Whether a candidate is still valid after earlier ones were removed. Source: candidateIsValid."""
    if candidate.variant is PreemptionVariant.WITHIN_CQ:
        return True
    node = snapshot.cluster_queues[candidate.admitted.cluster_queue].node
    if node.is_within_nominal(ctx.contested_resources):
        return False
    for cohort in node.ancestors():
        if cohort is candidate.common_cohort:
            break
        if cohort.is_within_nominal(ctx.contested_resources):
            return False
    return True


def _candidates(snapshot: Snapshot, ctx: PreemptionContext, *, by_priority: bool) -> list[PreemptionCandidate]:
    """Return all candidates in the order of preemption.

    Without `by_priority` the workload borrows, so candidates that require preemption without borrowing are left out.
    """
    policy = ctx.cq.spec.preemption.within_cluster_queue
    own_candidates = [
        PreemptionCandidate(admitted, PreemptionVariant.WITHIN_CQ, None)
        for admitted in (ctx.cq.admitted.values() if policy != "Never" else ())
        if ctx.may_preempt(admitted, policy)
    ]
    return sorted((*_reclaim_candidates(snapshot, ctx, by_priority=by_priority), *own_candidates), key=_candidate_order)


def _candidate_order(candidate: PreemptionCandidate) -> tuple[bool, int, int, float, str, str]:
    """Source: NewCandidateIterator."""
    group = {PreemptionVariant.HIERARCHICAL_RECLAIM: 0, PreemptionVariant.WITHIN_CQ: 2}.get(candidate.variant, 1)
    return preemption_order(candidate.admitted, group)


def _reclaim_candidates(
    snapshot: Snapshot, ctx: PreemptionContext, *, by_priority: bool
) -> Iterator[PreemptionCandidate]:
    """Yield workloads of borrowing queues in the cohort tree. Source: collectCandidatesForHierarchicalReclaim."""
    cq = ctx.cq
    policy = cq.spec.preemption.reclaim_within_cohort
    if policy == "Never":
        return
    hierarchical, remaining_requests = _fits_in_quota(cq.node, ctx.usage)
    visited: ResourceNode | None = None
    for cohort in cq.node.ancestors():
        for node in (
            _borrowing_queues(cohort, visited, cq.node, ctx.contested_resources) if hierarchical or by_priority else ()
        ):
            for admitted in snapshot.cluster_queues[node.name].admitted.values():
                if ctx.may_preempt(admitted, policy):
                    variant = PreemptionVariant.HIERARCHICAL_RECLAIM if hierarchical else _variant(ctx, admitted)
                    yield PreemptionCandidate(admitted, variant, cohort)
        fits, remaining_requests = _fits_in_quota(cohort, remaining_requests)
        hierarchical = hierarchical or fits
        visited = cohort


def _variant(ctx: PreemptionContext, admitted: AdmittedWorkload) -> PreemptionVariant:
    """Source: classifyPreemptionVariant and isAboveBorrowingThreshold."""
    policy, priority = ctx.cq.spec.preemption, admitted.workload.priority
    if not policy.borrow_within_cohort or priority >= ctx.workload.priority:
        return PreemptionVariant.RECLAIM_WITHOUT_BORROWING
    above_threshold = policy.borrow_threshold is not None and priority > policy.borrow_threshold
    return PreemptionVariant.RECLAIM_WITHOUT_BORROWING if above_threshold else PreemptionVariant.RECLAIM_WHILE_BORROWING


def _borrowing_queues(
    cohort: ResourceNode,
    visited: ResourceNode | None,
    own_queue: ResourceNode,
    contested_resources: Collection[FlavorResource],
) -> Iterator[ResourceNode]:
    """Yield the borrowing queues below a cohort, without the visited subtree. Source: collectCandidatesInSubtree."""
    for child in cohort.cohorts:
        if child is not visited and not child.is_within_nominal(contested_resources):
            yield from _borrowing_queues(child, visited, own_queue, contested_resources)
    for queue in cohort.queues:
        if queue is not own_queue and queue.is_active and not queue.is_within_nominal(contested_resources):
            yield queue


def _fits_in_quota(
    node: ResourceNode, requests: Mapping[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Return whether the requests fit without borrowing, and the remaining requests for the parent.

    Source: QuantitiesFitInQuota.
    """
    fits = not any(node.borrows_with(fr, number) for fr, number in requests.items())
    return fits, {fr: max(0, number - node.local_available(fr)) for fr, number in requests.items()}
