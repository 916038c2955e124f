"""One scheduling cycle: nominate the heads of all queues, then process them in order.

Source: schedule in pkg/scheduler/scheduler.go of Kueue v0.15.2.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trainstack.kueue.fair_sharing import Share, share
from trainstack.kueue.flavor_assigner import Assignment, Mode
from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Usage
from trainstack.kueue.nomination import AdmissionAttempt
from trainstack.kueue.pending_queue import PendingQueue, QueueEntry
from trainstack.kueue.resource_node import ResourceNode
from trainstack.kueue.snapshot import Snapshot


class QueueHead:
    """The head of a queue with its attempt."""

    def __init__(
        self, entry: QueueEntry, pending_queue: PendingQueue, attempt: AdmissionAttempt, *, continues: bool = False
    ) -> None:
        """`continues`: the next attempts begin where this one ended, until one succeeds or without end."""
        self.entry = entry
        self.pending_queue = pending_queue
        self.attempt = attempt
        self.continues = continues
        self.from_first_flavor = not entry.tried_flavors
        self.is_nominated = attempt.is_nominated
        self.order = cohort_order(pending_queue, entry, attempt.assignment.level)


def cohort_order(pending_queue: PendingQueue, entry: QueueEntry, level: int) -> tuple[int, int, float, int]:
    """Return the order of a head in its cohort: lowest borrowing level first. Source: entryOrdering."""
    priority, created, number = entry.order
    return level, priority if pending_queue.cq.sorts_by_priority else 0, created, number


@dataclass(slots=True)
class CycleResult:
    """The heads that are admitted or preempt; all others are requeued or become inadmissible."""

    admitted_heads: list[QueueHead] = field(default_factory=list)
    preempting_heads: list[QueueHead] = field(default_factory=list)


def process_heads(snapshot: Snapshot, heads: Sequence[QueueHead]) -> CycleResult:
    """Process the heads; quota that a head uses or reserves is not available to later heads.

    The snapshot is unchanged on return.
    """
    cycle_result = CycleResult()
    preempted_workloads: dict[str, AdmittedWorkload] = {}
    reservations: list[tuple[str, Usage]] = []
    remaining = len(heads)
    for head in _heads_in_order(snapshot, heads):
        queue, attempt = head.pending_queue.cq.spec.name, head.attempt
        usage: Usage = attempt.assignment.usage
        remaining -= 1
        if not head.is_nominated:
            usage = quota_to_reserve(head)
        elif (reservations or attempt.is_skipped) and not still_fits(snapshot, head, preempted_workloads):
            # Skipped: the next attempt begins with the first flavor, or with the next one.
            keeps_progress = snapshot.keeps_scan_progress and attempt.assignment.has_untried_flavors
            head.entry.tried_flavors = attempt.assignment.tried_flavors if keeps_progress else ()
            continue
        elif attempt.targets:
            preempted_workloads |= {target.workload.key: target for target in attempt.targets}
            cycle_result.preempting_heads.append(head)
        else:
            cycle_result.admitted_heads.append(head)
        if remaining and usage:
            snapshot.tree.add(queue, usage)
            reservations.append((queue, usage))
    for name, usage in reversed(reservations):
        snapshot.tree.remove(name, usage)
    return cycle_result


def _heads_in_order(snapshot: Snapshot, heads: Sequence[QueueHead]) -> Iterable[QueueHead]:
    if len(heads) < 2:
        return heads
    if snapshot.fair_sharing:
        return _heads_by_fair_share(snapshot, heads)
    return sorted(heads, key=lambda head: head.order)


def _heads_by_fair_share(snapshot: Snapshot, heads: Iterable[QueueHead]) -> Iterator[QueueHead]:
    """Yield the heads in the order of fair sharing, each by the usage after the heads before it.

    At each level of a cohort tree the lowest share wins, with the head admitted. From v0.16 on, heads that do not
    borrow win over others. Source: fairSharingIterator and runTournament in pkg/scheduler/fair_sharing_iterator.go.
    """
    remaining = {head.pending_queue.cq.node: head for head in heads}
    while remaining:
        next_node = next(iter(remaining))
        if next_node.parent is None:
            yield remaining.pop(next_node)
            continue
        root = next_node.root
        shares: dict[tuple[ResourceNode, ResourceNode], tuple[bool, Share]] = {}
        for node, head in remaining.items():
            if root in node.ancestors():
                shares.update(_shares_after_admission(snapshot, node, head.attempt.assignment))
        yield remaining.pop(_winning_queue(root, remaining, shares) or next_node)


def _shares_after_admission(
    snapshot: Snapshot, queue: ResourceNode, assignment: Assignment
) -> Iterator[tuple[tuple[ResourceNode, ResourceNode], tuple[bool, Share]]]:
    """Yield whether a queue and its cohorts count as borrowing after an admission, and their shares.

    By parent cohort and queue.
    """
    snapshot.tree.add(queue.name, assignment.usage)
    shares = [
        ((node.parent, queue), (_counts_as_borrowing(snapshot, node, assignment), share(node)))
        for node in (queue, *queue.ancestors())
        if node.parent is not None
    ]
    snapshot.tree.remove(queue.name, assignment.usage)
    yield from shares


def _counts_as_borrowing(snapshot: Snapshot, node: ResourceNode, assignment: Assignment) -> bool:
    """Whether a node, with the admission, counts as borrowing in the order of fair sharing."""
    if snapshot.nominal_first == "by queue":
        return assignment.level > 0
    if snapshot.nominal_first == "by subtree":
        return any(number > 0 and node.borrows_with(fr) for fr, number in assignment.usage.items())
    return False


def _winning_queue(
    cohort: ResourceNode,
    heads: Mapping[ResourceNode, QueueHead],
    shares: Mapping[tuple[ResourceNode, ResourceNode], tuple[bool, Share]],
) -> ResourceNode | None:
    """Return the queue below a cohort whose head is next."""
    child_winners = (_winning_queue(child, heads, shares) for child in cohort.cohorts)
    candidates = [node for node in child_winners if node is not None] + [
        node for node in cohort.queues if node in heads
    ]
    # Without the borrowing level.
    return min(candidates, key=lambda node: (shares[cohort, node], heads[node].order[1:]), default=None)


def still_fits(snapshot: Snapshot, head: QueueHead, preempted_workloads: Mapping[str, AdmittedWorkload]) -> bool:
    """Whether the head fits after all preemptions of this cycle and its own; no target may be preempted twice."""
    targets = head.attempt.targets
    if any(target.workload.key in preempted_workloads for target in targets):
        return False
    cq = head.pending_queue.cq
    with snapshot.tree.without([*preempted_workloads.values(), *targets]):
        return all(cq.available(fr) >= number for fr, number in head.attempt.assignment.usage.items())


def find_blocking_head(snapshot: Snapshot, heads: Sequence[QueueHead], blocked_head: QueueHead) -> QueueHead | None:
    """Return the head after which a head of the same cycle no longer fits; None if it fits after all before it."""
    preempted_workloads: dict[str, AdmittedWorkload] = {}
    reservations: list[tuple[str, Usage]] = []
    blocking_head = None
    for head in _heads_in_order(snapshot, heads):
        if head is blocked_head:
            break
        queue, attempt = head.pending_queue.cq.spec.name, head.attempt
        if not head.is_nominated:
            usage: Usage = quota_to_reserve(head)
        elif still_fits(snapshot, head, preempted_workloads):
            usage = attempt.assignment.usage
            preempted_workloads |= {target.workload.key: target for target in attempt.targets}
        else:
            continue
        snapshot.tree.add(queue, usage)
        reservations.append((queue, usage))
        if not still_fits(snapshot, blocked_head, preempted_workloads):
            blocking_head = head
            break
    for name, usage in reversed(reservations):
        snapshot.tree.remove(name, usage)
    return blocking_head


def quota_to_reserve(head: QueueHead) -> dict[FlavorResource, int]:
    """Return the quota that a failed head reserves against later heads, because it may be unable to reclaim it.

    Source: quotaResourcesToReserve.
    """
    node, assignment, preemption = (
        head.pending_queue.cq.node,
        head.attempt.assignment,
        head.pending_queue.cq.spec.preemption,
    )
    if assignment.mode is Mode.NO_FIT or preemption.reclaim_within_cohort == "Any":
        return {}
    reservation = {}
    for fr, number in assignment.usage.items():
        quota, used = node.quota(fr), node.usage.get(fr, 0)
        if assignment.level == 0:
            reservation[fr] = max(0, min(number, quota.nominal - used))
        elif quota.borrowing_limit is None:
            reservation[fr] = number
        else:
            # Below 0 if the limit was lowered: as in Kueue, others may then use more.
            reservation[fr] = min(number, quota.nominal + quota.borrowing_limit - used)
    return reservation
