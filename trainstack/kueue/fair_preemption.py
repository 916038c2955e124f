"""The preemption targets of fair sharing.

Source: fairPreemptions in pkg/scheduler/preemption/preemption.go, and fairsharing/, of Kueue v0.15.2 and v0.17.0.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from trainstack.kueue.fair_sharing import LESS_THAN_ANY, NO_SHARE, Share, borrows, share
from trainstack.kueue.model import AdmittedWorkload, FairStrategy
from trainstack.kueue.preemption_context import PreemptionContext, preemption_order
from trainstack.kueue.resource_node import ResourceNode
from trainstack.kueue.snapshot import Snapshot


def fair_preemption_targets(snapshot: Snapshot, ctx: PreemptionContext) -> list[AdmittedWorkload]:
    """Return the workloads to preempt; empty if preemption does not make room.

    The shares include the preemptor. Queues lose workloads in the order of their shares, the largest first, as far as
    the first strategy allows it, then the second one.
    """
    candidates = sorted(_candidates(snapshot, ctx), key=lambda candidate: _candidate_order(ctx, candidate))
    if not candidates:
        return []
    search = _TargetSearch(snapshot, ctx)
    name = ctx.cq.spec.name
    snapshot.tree.add(name, ctx.usage)
    fits, retry_candidates = search.run_first_strategy(candidates, snapshot.fair_sharing[0])
    if not fits and len(snapshot.fair_sharing) > 1:
        fits = search.run_second_strategy(retry_candidates)
    snapshot.tree.remove(name, ctx.usage)
    targets = ctx.fill_back(snapshot, search.targets, borrowing=True) if fits else search.targets
    for target in targets:
        snapshot.add(target)
    return targets if fits else []


def _candidates(snapshot: Snapshot, ctx: PreemptionContext) -> Iterator[AdmittedWorkload]:
    """Source: findCandidates."""
    preemption, own_node = ctx.cq.spec.preemption, ctx.cq.node
    if preemption.within_cluster_queue != "Never":
        yield from (
            candidate
            for candidate in ctx.cq.admitted.values()
            if ctx.may_preempt(candidate, preemption.within_cluster_queue)
        )
    if own_node.parent is None or preemption.reclaim_within_cohort == "Never":
        return
    for node in own_node.root.all_queues():
        if node is not own_node and node.is_active and any(node.borrows_with(fr) for fr in ctx.contested_resources):
            admitted = snapshot.cluster_queue_of(node).admitted.values()
            yield from (
                candidate for candidate in admitted if ctx.may_preempt(candidate, preemption.reclaim_within_cohort)
            )


def _candidate_order(ctx: PreemptionContext, candidate: AdmittedWorkload) -> tuple[bool, int, int, float, str, str]:
    return preemption_order(candidate, int(candidate.cluster_queue == ctx.cq.spec.name))


class _TargetSearch:
    """The removal of candidates until the preemptor fits."""

    def __init__(self, snapshot: Snapshot, ctx: PreemptionContext) -> None:
        self._snapshot = snapshot
        self._ctx = ctx
        self.targets: list[AdmittedWorkload] = []
        """The removed candidates."""

    def run_first_strategy(
        self, candidates: Iterable[AdmittedWorkload], strategy: FairStrategy
    ) -> tuple[bool, list[AdmittedWorkload]]:
        """Return whether the preemptor fits, and the candidates that the strategy protects.

        Source: runFirstFsStrategy.
        """
        queues = _QueueOrder(self._snapshot, self._ctx, candidates)
        retry_candidates: list[AdmittedWorkload] = []
        own_node = self._ctx.cq.node
        # The usage includes the preemptor.
        reclaims = self._snapshot.reclaims_nominal_quota and own_node.is_within_nominal(self._ctx.contested_resources)
        for node in queues.next_queues():
            if node is own_node or reclaims:
                if self._remove_candidate(queues.pop(node)):
                    return True, []
                continue
            preemptor, target = _children_of_common_cohort(own_node, node)
            preemptor_share, target_share = share(preemptor), share(target)
            while queues.has_candidates(node):
                candidate = queues.pop(node)
                limit = target_share if strategy == "LessThanInitialShare" else self._share_without(candidate, target)
                if preemptor_share < limit or (preemptor_share == limit and strategy != "LessThanInitialShare"):
                    if self._remove_candidate(candidate):
                        return True, []
                    break
                retry_candidates.append(candidate)
        return False, retry_candidates

    def run_second_strategy(self, candidates: Iterable[AdmittedWorkload]) -> bool:
        """Return whether the preemptor fits with at most one more candidate of each queue.

        Source: runSecondFsStrategy.
        """
        queues = _QueueOrder(self._snapshot, self._ctx, candidates)
        for node in queues.next_queues():
            preemptor, target = _children_of_common_cohort(self._ctx.cq.node, node)
            if share(preemptor) < share(target) and self._remove_candidate(queues.pop(node)):
                return True
            queues.drop(node)
        return False

    def _remove_candidate(self, candidate: AdmittedWorkload) -> bool:
        """Remove a candidate and return whether the preemptor fits. Source: workloadFitsForFairSharing."""
        ctx, tree = self._ctx, self._snapshot.tree
        self._snapshot.remove(candidate)
        self.targets.append(candidate)
        tree.remove(ctx.cq.spec.name, ctx.usage)
        fits = ctx.fits(borrowing=True)
        tree.add(ctx.cq.spec.name, ctx.usage)
        return fits

    def _share_without(self, candidate: AdmittedWorkload, target: ResourceNode) -> Share:
        with self._snapshot.tree.without([candidate]):
            return share(target)


class _QueueOrder:
    """The queues with candidates, the largest share first at each level of the cohort tree.

    Source: TargetClusterQueueOrdering.
    """

    def __init__(self, snapshot: Snapshot, ctx: PreemptionContext, candidates: Iterable[AdmittedWorkload]) -> None:
        self._snapshot = snapshot
        self._ctx = ctx
        self._ancestors = {*ctx.cq.node.ancestors()}
        self._candidates: dict[ResourceNode, deque[AdmittedWorkload]] = {}
        for candidate in candidates:
            self._candidates.setdefault(snapshot.tree.queues[candidate.cluster_queue], deque()).append(candidate)
        self._pruned: set[ResourceNode] = set()

    def has_candidates(self, queue: ResourceNode) -> bool:
        return bool(self._candidates.get(queue))

    def pop(self, queue: ResourceNode) -> AdmittedWorkload:
        return self._candidates[queue].popleft()

    def drop(self, queue: ResourceNode) -> None:
        self._pruned.add(queue)

    def next_queues(self) -> Iterator[ResourceNode]:
        """Yield the queue of the next candidate; each time, the caller pops a candidate or drops the queue."""
        own_node = self._ctx.cq.node
        if own_node.parent is None:
            while self.has_candidates(own_node):
                yield own_node
            if self._snapshot.panics_without_cohort:
                # Iter in ordering.go reads the root of the missing cohort.
                self._snapshot.undecided = (
                    "Kueue's fair sharing crashes in a cluster queue without a cohort if preemption there does not make"
                    " enough room"
                )
            return
        root = own_node.root
        while root not in self._pruned:
            node = self._next_queue(root)
            if node is not None:
                yield node

    def _next_queue(self, cohort: ResourceNode) -> ResourceNode | None:
        """Return the next queue below a cohort; None if this call only pruned nodes. Source: nextTarget."""
        queue, largest_share = self._largest_queue(cohort)
        highest_cohort: ResourceNode | None = None
        highest_share = LESS_THAN_ANY
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            child_share = share(child)
            if self._is_exempt(child, child_share) and child not in self._ancestors:
                self._pruned.add(child)
            elif child_share >= highest_share:
                if (
                    child_share == highest_share
                    and highest_cohort is not None
                    and self._both_have_candidates(highest_cohort, child)
                ):
                    # Kueue chooses the cohort that the iteration over a set yields last.
                    self._snapshot.undecided = (
                        "two cohorts have equal shares in Kueue's fair sharing, which leaves to chance from which of"
                        " them workloads are preempted"
                    )
                highest_cohort, highest_share = child, child_share
        if queue is None and highest_cohort is None:
            self._pruned.add(cohort)
            return None
        return (
            self._next_queue(highest_cohort) if highest_cohort is not None and highest_share >= largest_share else queue
        )

    def _largest_queue(self, cohort: ResourceNode) -> tuple[ResourceNode | None, Share]:
        """Return the queue of a cohort with the largest share, and that share."""
        best_queue: ResourceNode | None = None
        largest_share = LESS_THAN_ANY
        for queue in cohort.queues:
            if queue in self._pruned or not queue.is_active:
                continue
            queue_share = share(queue)
            if (self._is_exempt(queue, queue_share) and queue is not self._ctx.cq.node) or not self.has_candidates(
                queue
            ):
                self._pruned.add(queue)
            elif (
                best_queue is None
                or queue_share > largest_share
                or (queue_share == largest_share and self._precedes(queue, best_queue))
            ):
                best_queue, largest_share = queue, queue_share
        return best_queue, largest_share

    def _is_exempt(self, node: ResourceNode, node_share: Share) -> bool:
        """Whether nothing is preempted below a node, because it does not borrow. `node_share`: its share."""
        return node_share == NO_SHARE and not (self._snapshot.counts_unlendable and borrows(node))

    def _precedes(self, queue: ResourceNode, other_queue: ResourceNode) -> bool:
        candidate, other_candidate = self._candidates[queue][0], self._candidates[other_queue][0]
        return _candidate_order(self._ctx, candidate) < _candidate_order(self._ctx, other_candidate)

    def _both_have_candidates(self, cohort: ResourceNode, other_cohort: ResourceNode) -> bool:
        return all(any(map(self.has_candidates, node.all_queues())) for node in (cohort, other_cohort))


def _children_of_common_cohort(queue: ResourceNode, other_queue: ResourceNode) -> tuple[ResourceNode, ResourceNode]:
    """Return the ancestors (or the queues themselves) of two queues below their lowest common cohort.

    Source: getAlmostLCAs.
    """
    ancestors = {*queue.ancestors()}
    common = next(node for node in other_queue.ancestors() if node in ancestors)
    return _child_of_cohort(queue, common), _child_of_cohort(other_queue, common)


def _child_of_cohort(queue: ResourceNode, cohort: ResourceNode) -> ResourceNode:
    return next(node for node in (queue, *queue.ancestors()) if node.parent is cohort)
