"""Whom a workload may evict, and whom it would.

Source: pkg/scheduler/preemption of Kueue v0.15.2 (preemption.go, preemption_oracle.go, classical/, common/), without
its fair sharing, which an environment cannot declare.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from trainstack.kueue.flavor_assigner import Assignment, PreemptionMode
from trainstack.kueue.model import Admitted, FlavorResource, Policy, Usage, Workload
from trainstack.kueue.resource_node import ResourceNode
from trainstack.kueue.snapshot import ClusterQueueSnapshot, SchedulerSnapshot


class PreemptionVariant(Enum):
    """By what a workload may evict another."""

    WITHIN_CQ = "of lower priority in the same cluster queue"
    HIERARCHICAL_RECLAIM = "borrows what is nearer to this workload's queue"
    RECLAIM_WITHOUT_BORROWING = "borrows, and may be evicted where this workload then borrows nothing"
    RECLAIM_WHILE_BORROWING = "borrows, and is of so low a priority that this workload may borrow besides"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that may be evicted."""

    admitted: Admitted
    variant: PreemptionVariant
    common: ResourceNode | None
    """The smallest cohort that both queues are in; None for the workload's own queue."""


@dataclass(frozen=True, slots=True)
class PreemptionContext:
    """What a workload needs that others use."""

    workload: Workload
    cq: ClusterQueueSnapshot
    contested: Collection[FlavorResource]
    """Where others would have to give way."""
    usage: Usage
    """All that it would take."""


def preemption_targets(snapshot: SchedulerSnapshot, ctx: PreemptionContext) -> list[Admitted]:
    """The workloads that would be evicted; none where evicting does not help.

    They are taken in order until the workload fits, and given back, latest first, as far as it still fits.
    The state is as before when this returns. Source: classicalPreemptions.
    """
    borrows = ctx.cq.spec.preemption.borrow_within_cohort
    below = borrows or _under_nominal(ctx)
    candidates = _candidates(snapshot, ctx, by_priority=below)
    variants = {each.variant for each in candidates}
    if variants <= {PreemptionVariant.WITHIN_CQ} or not below:
        attempts: tuple[bool, ...] = (True,)
    elif not borrows and PreemptionVariant.HIERARCHICAL_RECLAIM not in variants:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        usable = [
            each
            for each in candidates
            if not (borrowing and each.variant is PreemptionVariant.RECLAIM_WITHOUT_BORROWING)
        ]
        if _enough(ctx, usable, borrowing=borrowing):
            chosen = _attempt(snapshot, ctx, usable, borrowing=borrowing)
            if chosen:
                return chosen
    return []


def simulate_preemption(
    snapshot: SchedulerSnapshot, workload: Workload, cq: ClusterQueueSnapshot, fr: FlavorResource, number: int
) -> tuple[PreemptionMode, int]:
    """Whether evictions could give one resource of one flavor, and how far up it would be borrowed then.

    Source: SimulatePreemption in preemption_oracle.go.
    """
    found = preemption_targets(snapshot, PreemptionContext(workload, cq, (fr,), {fr: number}))
    if not found:
        return PreemptionMode.NO_CANDIDATES, cq.node.level(fr, number)[0]
    for each in found:
        snapshot.tree.remove(each.cluster_queue, each.usage)
    level, _ = cq.node.level(fr, number)
    for each in found:
        snapshot.tree.add(each.cluster_queue, each.usage)
    own = any(each.cluster_queue == cq.spec.name for each in found)
    return PreemptionMode.PREEMPT if own else PreemptionMode.RECLAIM, level


def demanded(workload: Workload, cq: ClusterQueueSnapshot, assignment: Assignment) -> PreemptionContext:
    """What an assignment needs that others use."""
    return PreemptionContext(workload, cq, assignment.contested(), assignment.usage)


def _enough(ctx: PreemptionContext, candidates: list[Candidate], *, borrowing: bool) -> bool:
    """Whether it could fit if all of them went; spares most attempts that end in nothing."""
    node = ctx.cq.node
    for fr, number in ctx.usage.items():
        if ctx.cq.available(fr) + sum(each.admitted.usage.get(fr, 0) for each in candidates) < number:
            return False
        own = sum(each.admitted.usage.get(fr, 0) for each in candidates if each.variant is PreemptionVariant.WITHIN_CQ)
        if not borrowing and node.borrows_with(fr, number - own):
            return False
    return bool(candidates)


def _attempt(
    snapshot: SchedulerSnapshot, ctx: PreemptionContext, candidates: list[Candidate], *, borrowing: bool
) -> list[Admitted]:
    chosen: list[Admitted] = []
    fitted = False
    for candidate in candidates:
        if not _counts(snapshot, ctx, candidate):
            continue
        snapshot.remove(candidate.admitted)
        chosen.append(candidate.admitted)
        if _fits(ctx, borrowing=borrowing):
            fitted = True
            break
    local_quota = _without_needless(snapshot, ctx, chosen, borrowing=borrowing) if fitted else chosen
    for each in local_quota:
        snapshot.add(each)
    return local_quota if fitted else []


def _without_needless(
    snapshot: SchedulerSnapshot, ctx: PreemptionContext, chosen: list[Admitted], *, borrowing: bool
) -> list[Admitted]:
    """Source: fillBackWorkloads."""
    left = list(chosen)
    for index in range(len(left) - 2, -1, -1):
        snapshot.add(left[index])
        if _fits(ctx, borrowing=borrowing):
            left[index] = left[-1]
            left.pop()
        else:
            snapshot.remove(left[index])
    return left


def _fits(ctx: PreemptionContext, *, borrowing: bool) -> bool:
    """Source: workloadFits."""
    node = ctx.cq.node
    return not any(
        (not borrowing and node.borrows_with(fr, number)) or number > ctx.cq.available(fr)
        for fr, number in ctx.usage.items()
    )


def _under_nominal(ctx: PreemptionContext) -> bool:
    """Source: queueUnderNominalInResourcesNeedingPreemption."""
    node = ctx.cq.node
    return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in ctx.contested)


def _counts(snapshot: SchedulerSnapshot, ctx: PreemptionContext, candidate: Candidate) -> bool:
    """Whether a candidate still is one, after those that were taken before it. Source: candidateIsValid."""
    if candidate.variant is PreemptionVariant.WITHIN_CQ:
        return True
    node = snapshot.cluster_queues[candidate.admitted.cluster_queue].node
    if node.within_nominal(ctx.contested):
        return False
    for ancestors in node.ancestors():
        if ancestors is candidate.common:
            break
        if ancestors.within_nominal(ctx.contested):
            return False
    return True


def _candidates(snapshot: SchedulerSnapshot, ctx: PreemptionContext, *, by_priority: bool) -> list[Candidate]:
    """All who may be evicted, in the order in which they are taken. Source: NewCandidateIterator.

    `by_priority`: False leaves out those of other queues who may only be evicted where this workload borrows nothing,
    since it would.
    """
    policy = ctx.cq.spec.preemption.within_cluster_queue
    own = [
        Candidate(each, PreemptionVariant.WITHIN_CQ, None)
        for each in (ctx.cq.admitted.values() if policy != "Never" else ())
        if _may(ctx, each, policy)
    ]
    others = list(_others(snapshot, ctx, by_priority=by_priority))
    hierarchy = [each for each in others if each.variant is PreemptionVariant.HIERARCHICAL_RECLAIM]
    rest = [each for each in others if each.variant is not PreemptionVariant.HIERARCHICAL_RECLAIM]
    groups = [sorted(group, key=_order) for group in (hierarchy, rest, own)]
    evicted = [each for group in groups for each in group if each.admitted.evicted]
    return [*evicted, *(each for group in groups for each in group if not each.admitted.evicted)]


def _order(candidate: Candidate) -> tuple[int, float, str]:
    """Lowest priority first, then who was admitted last. Source: CandidatesOrdering; ties are Kueue's by uid."""
    return candidate.admitted.workload.priority, -candidate.admitted.reserved, candidate.admitted.workload.key


def _may(ctx: PreemptionContext, other: Admitted, policy: Policy) -> bool:
    """Source: classifyPreemptionVariant and SatisfiesPreemptionPolicy."""
    mine, theirs = ctx.workload, other.workload
    lower = mine.priority > theirs.priority
    newer = mine.priority == theirs.priority and mine.created < theirs.created
    if policy == "Any" or lower or (newer and policy == "LowerOrNewerEqualPriority"):
        return not other.usage.keys().isdisjoint(ctx.contested)
    return False


def _others(snapshot: SchedulerSnapshot, ctx: PreemptionContext, *, by_priority: bool) -> Iterator[Candidate]:
    """Who borrows in other queues of the tree. Source: collectCandidatesForHierarchicalReclaim."""
    cq = ctx.cq
    if cq.spec.preemption.reclaim_within_cohort == "Never":
        return
    nearer, rest = _fits_in(cq.node, ctx.usage)
    below: ResourceNode | None = None
    for cohort in cq.node.ancestors():
        for node in _borrowing(cohort, below, cq.node, ctx.contested) if nearer or by_priority else ():
            for each in snapshot.cluster_queue_of(node).admitted.values():
                if _may(ctx, each, cq.spec.preemption.reclaim_within_cohort):
                    yield Candidate(
                        each, PreemptionVariant.HIERARCHICAL_RECLAIM if nearer else _right(ctx, each), cohort
                    )
        enough, rest = _fits_in(cohort, rest)
        nearer = nearer or enough
        below = cohort


def _right(ctx: PreemptionContext, other: Admitted) -> PreemptionVariant:
    """Source: classifyPreemptionVariant and isAboveBorrowingThreshold."""
    policy, theirs = ctx.cq.spec.preemption, other.workload.priority
    if not policy.borrow_within_cohort or theirs >= ctx.workload.priority:
        return PreemptionVariant.RECLAIM_WITHOUT_BORROWING
    high = policy.borrow_threshold is not None and theirs > policy.borrow_threshold
    return PreemptionVariant.RECLAIM_WITHOUT_BORROWING if high else PreemptionVariant.RECLAIM_WHILE_BORROWING


def _borrowing(
    cohort: ResourceNode, below: ResourceNode | None, own: ResourceNode, contested: Collection[FlavorResource]
) -> Iterator[ResourceNode]:
    """The queues of a cohort that use more than they have, but for those of the part that was looked at before.

    Source: collectCandidatesInSubtree.
    """
    for child in cohort.cohorts:
        if child is not below and not child.within_nominal(contested):
            yield from _borrowing(child, below, own, contested)
    for queue in cohort.queues:
        if queue is not own and queue.active and not queue.within_nominal(contested):
            yield queue


def _fits_in(node: ResourceNode, wanted: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether a node has so much more of its own, and what is left to ask of its parent.

    Source: QuantitiesFitInQuota.
    """
    fits = not any(node.borrows_with(fr, number) for fr, number in wanted.items())
    return fits, {fr: max(0, number - node.local_available(fr)) for fr, number in wanted.items()}
