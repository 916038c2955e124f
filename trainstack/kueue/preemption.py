"""Whom a workload may evict, and whom it would.

Source: pkg/scheduler/preemption of Kueue v0.15.2 (preemption.go, preemption_oracle.go, classical/, common/), without
its fair sharing, which an environment cannot declare.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from trainstack.kueue.flavor_assigner import Assignment, Mode
from trainstack.kueue.model import Admitted, FlavorResource, Policy, Usage, Workload
from trainstack.kueue.resource_node import Node
from trainstack.kueue.snapshot import Pool, State


class Right(Enum):
    """By what a workload may evict another."""

    SAME_QUEUE = "of lower priority in the same cluster queue"
    HIERARCHY = "borrows what is nearer to this workload's queue"
    WITHOUT_BORROWING = "borrows, and may be evicted where this workload then borrows nothing"
    WHILE_BORROWING = "borrows, and is of so low a priority that this workload may borrow besides"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that may be evicted."""

    admitted: Admitted
    right: Right
    common: Node | None
    """The smallest cohort that both queues are in; None for the workload's own queue."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload needs that others use."""

    workload: Workload
    pool: Pool
    contested: Collection[FlavorResource]
    """Where others would have to give way."""
    usage: Usage
    """All that it would take."""


def targets(state: State, demand: Demand) -> list[Admitted]:
    """The workloads that would be evicted; none where evicting does not help.

    They are taken in order until the workload fits, and given back, latest first, as far as it still fits.
    The state is as before when this returns. Source: classicalPreemptions.
    """
    borrows = demand.pool.said.preemption.borrow_within_cohort
    below = borrows or _under_nominal(demand)
    candidates = _candidates(state, demand, by_priority=below)
    rights = {each.right for each in candidates}
    if rights <= {Right.SAME_QUEUE} or not below:
        attempts: tuple[bool, ...] = (True,)
    elif not borrows and Right.HIERARCHY not in rights:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        usable = [each for each in candidates if not (borrowing and each.right is Right.WITHOUT_BORROWING)]
        if _enough(demand, usable, borrowing=borrowing):
            chosen = _attempt(state, demand, usable, borrowing=borrowing)
            if chosen:
                return chosen
    return []


def possible(state: State, workload: Workload, pool: Pool, what: FlavorResource, number: int) -> tuple[Mode, int]:
    """Whether evictions could give one resource of one flavor, and how far up it would be borrowed then.

    Source: SimulatePreemption in preemption_oracle.go.
    """
    found = targets(state, Demand(workload, pool, (what,), {what: number}))
    if not found:
        return Mode.NO_CANDIDATES, pool.node.level(what, number)[0]
    for each in found:
        state.tree.remove(each.cluster_queue, each.usage)
    level, _ = pool.node.level(what, number)
    for each in found:
        state.tree.add(each.cluster_queue, each.usage)
    own = any(each.cluster_queue == pool.said.name for each in found)
    return Mode.PREEMPT if own else Mode.RECLAIM, level


def demanded(workload: Workload, pool: Pool, assignment: Assignment) -> Demand:
    """What an assignment needs that others use."""
    return Demand(workload, pool, assignment.contested(), assignment.usage)


def _enough(demand: Demand, candidates: list[Candidate], *, borrowing: bool) -> bool:
    """Whether it could fit if all of them went; spares most attempts that end in nothing."""
    node = demand.pool.node
    for what, number in demand.usage.items():
        if demand.pool.available(what) + sum(each.admitted.usage.get(what, 0) for each in candidates) < number:
            return False
        own = sum(each.admitted.usage.get(what, 0) for each in candidates if each.right is Right.SAME_QUEUE)
        if not borrowing and node.exceeds(what, number - own):
            return False
    return bool(candidates)


def _attempt(state: State, demand: Demand, candidates: list[Candidate], *, borrowing: bool) -> list[Admitted]:
    chosen: list[Admitted] = []
    fitted = False
    for candidate in candidates:
        if not _counts(state, demand, candidate):
            continue
        state.remove(candidate.admitted)
        chosen.append(candidate.admitted)
        if _fits(demand, borrowing=borrowing):
            fitted = True
            break
    kept = _without_needless(state, demand, chosen, borrowing=borrowing) if fitted else chosen
    for each in kept:
        state.add(each)
    return kept if fitted else []


def _without_needless(state: State, demand: Demand, chosen: list[Admitted], *, borrowing: bool) -> list[Admitted]:
    """Source: fillBackWorkloads."""
    left = list(chosen)
    for index in range(len(left) - 2, -1, -1):
        state.add(left[index])
        if _fits(demand, borrowing=borrowing):
            left[index] = left[-1]
            left.pop()
        else:
            state.remove(left[index])
    return left


def _fits(demand: Demand, *, borrowing: bool) -> bool:
    """Source: workloadFits."""
    node = demand.pool.node
    return not any(
        (not borrowing and node.exceeds(what, number)) or number > demand.pool.available(what)
        for what, number in demand.usage.items()
    )


def _under_nominal(demand: Demand) -> bool:
    """Source: queueUnderNominalInResourcesNeedingPreemption."""
    node = demand.pool.node
    return all(node.usage.get(what, 0) < node.quota(what).nominal for what in demand.contested)


def _counts(state: State, demand: Demand, candidate: Candidate) -> bool:
    """Whether a candidate still is one, after those that were taken before it. Source: candidateIsValid."""
    if candidate.right is Right.SAME_QUEUE:
        return True
    node = state.pools[candidate.admitted.cluster_queue].node
    if node.within(demand.contested):
        return False
    for above in node.above():
        if above is candidate.common:
            break
        if above.within(demand.contested):
            return False
    return True


def _candidates(state: State, demand: Demand, *, by_priority: bool) -> list[Candidate]:
    """All who may be evicted, in the order in which they are taken. Source: NewCandidateIterator.

    `by_priority`: False leaves out those of other queues who may only be evicted where this workload borrows nothing,
    since it would.
    """
    policy = demand.pool.said.preemption.within_cluster_queue
    own = [
        Candidate(each, Right.SAME_QUEUE, None)
        for each in (demand.pool.admitted.values() if policy != "Never" else ())
        if _may(demand, each, policy)
    ]
    others = list(_others(state, demand, by_priority=by_priority))
    hierarchy = [each for each in others if each.right is Right.HIERARCHY]
    rest = [each for each in others if each.right is not Right.HIERARCHY]
    groups = [sorted(group, key=_order) for group in (hierarchy, rest, own)]
    evicted = [each for group in groups for each in group if each.admitted.evicted]
    return [*evicted, *(each for group in groups for each in group if not each.admitted.evicted)]


def _order(candidate: Candidate) -> tuple[int, float, str]:
    """Lowest priority first, then who was admitted last. Source: CandidatesOrdering; ties are Kueue's by uid."""
    return candidate.admitted.workload.priority, -candidate.admitted.reserved, candidate.admitted.workload.key


def _may(demand: Demand, other: Admitted, policy: Policy) -> bool:
    """Source: classifyPreemptionVariant and SatisfiesPreemptionPolicy."""
    mine, theirs = demand.workload, other.workload
    lower = mine.priority > theirs.priority
    newer = mine.priority == theirs.priority and mine.created < theirs.created
    if policy == "Any" or lower or (newer and policy == "LowerOrNewerEqualPriority"):
        return not other.usage.keys().isdisjoint(demand.contested)
    return False


def _others(state: State, demand: Demand, *, by_priority: bool) -> Iterator[Candidate]:
    """Who borrows in other queues of the tree. Source: collectCandidatesForHierarchicalReclaim."""
    pool = demand.pool
    if pool.said.preemption.reclaim_within_cohort == "Never":
        return
    nearer, rest = _fits_in(pool.node, demand.usage)
    below: Node | None = None
    for cohort in pool.node.above():
        for node in _borrowing(cohort, below, pool.node, demand.contested) if nearer or by_priority else ():
            for each in state.pool_of(node).admitted.values():
                if _may(demand, each, pool.said.preemption.reclaim_within_cohort):
                    yield Candidate(each, Right.HIERARCHY if nearer else _right(demand, each), cohort)
        enough, rest = _fits_in(cohort, rest)
        nearer = nearer or enough
        below = cohort


def _right(demand: Demand, other: Admitted) -> Right:
    """Source: classifyPreemptionVariant and isAboveBorrowingThreshold."""
    policy, theirs = demand.pool.said.preemption, other.workload.priority
    if not policy.borrow_within_cohort or theirs >= demand.workload.priority:
        return Right.WITHOUT_BORROWING
    high = policy.borrow_threshold is not None and theirs > policy.borrow_threshold
    return Right.WITHOUT_BORROWING if high else Right.WHILE_BORROWING


def _borrowing(cohort: Node, below: Node | None, own: Node, contested: Collection[FlavorResource]) -> Iterator[Node]:
    """The queues of a cohort that use more than they have, but for those of the part that was looked at before.

    Source: collectCandidatesInSubtree.
    """
    for child in cohort.cohorts:
        if child is not below and not child.within(contested):
            yield from _borrowing(child, below, own, contested)
    for queue in cohort.queues:
        if queue is not own and queue.active and not queue.within(contested):
            yield queue


def _fits_in(node: Node, wanted: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether a node has so much more of its own, and what is left to ask of its parent.

    Source: QuantitiesFitInQuota.
    """
    fits = not any(node.exceeds(what, number) for what, number in wanted.items())
    return fits, {what: max(0, number - node.free_of_kept(what)) for what, number in wanted.items()}
