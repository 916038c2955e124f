"""One scheduling cycle: nominate the heads of all queues, then process them in order.

Source: schedule in pkg/scheduler/scheduler.go of Kueue v0.15.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainstack.kueue.flavor_assigner import Mode
from trainstack.kueue.model import Admitted, FlavorResource, Usage
from trainstack.kueue.nomination import Attempt
from trainstack.kueue.pending_queue import Item, PendingQueue
from trainstack.kueue.snapshot import Snapshot


class Head:
    """The head of a queue with its attempt."""

    def __init__(self, item: Item, pending: PendingQueue, attempt: Attempt, *, continues: bool = False) -> None:
        """`continues`: the next attempts begin where this one ended, and one of them succeeds."""
        self.item = item
        self.pending = pending
        self.attempt = attempt
        self.continues = continues
        self.from_first_flavor = not item.tried
        self.nominated = attempt.nominated
        self.order = (attempt.assignment.level, *item.order)
        """Lowest borrowing level first. Source: entryOrdering."""


@dataclass(slots=True)
class CycleResult:
    """The heads that are admitted or preempt; all others are requeued or become inadmissible."""

    admitted: list[Head] = field(default_factory=list)
    preempting: list[Head] = field(default_factory=list)


def process_heads(snapshot: Snapshot, heads: Sequence[Head]) -> CycleResult:
    """Process the heads; quota that one takes or reserves is not available to later ones.

    The snapshot is unchanged on return.
    """
    result = CycleResult()
    preempted: dict[str, Admitted] = {}
    reserved: list[tuple[str, Usage]] = []
    remaining = len(heads)
    for head in sorted(heads, key=lambda one: one.order) if remaining > 1 else heads:
        queue, attempt = head.pending.cq.spec.name, head.attempt
        usage: Usage = attempt.assignment.usage
        remaining -= 1
        if not head.nominated:
            usage = quota_to_reserve(head)
        elif (reserved or attempt.skipped) and not still_fits(snapshot, head, preempted):
            # Skipped: the next attempt begins with the first flavor.
            head.item.tried = ()
            continue
        elif attempt.targets:
            preempted |= {target.workload.key: target for target in attempt.targets}
            result.preempting.append(head)
        else:
            result.admitted.append(head)
        if remaining and usage:
            snapshot.tree.add(queue, usage)
            reserved.append((queue, usage))
    for name, usage in reversed(reserved):
        snapshot.tree.remove(name, usage)
    return result


def still_fits(snapshot: Snapshot, head: Head, preempted: Mapping[str, Admitted]) -> bool:
    """Whether the head fits after all preemptions of this cycle and its own; no target may be preempted twice."""
    targets = head.attempt.targets
    if any(target.workload.key in preempted for target in targets):
        return False
    cq = head.pending.cq
    with snapshot.tree.without([*preempted.values(), *targets]):
        return all(cq.available(fr) >= number for fr, number in head.attempt.assignment.usage.items())


def quota_to_reserve(head: Head) -> dict[FlavorResource, int]:
    """Return the quota that a failed head keeps from later heads, because it may be unable to reclaim it.

    Source: quotaResourcesToReserve.
    """
    node, assignment, preemption = head.pending.cq.node, head.attempt.assignment, head.pending.cq.spec.preemption
    if assignment.mode is Mode.NO_FIT or preemption.reclaim_within_cohort == "Any":
        return {}
    reserved = {}
    for fr, number in assignment.usage.items():
        quota, used = node.quota(fr), node.usage.get(fr, 0)
        if assignment.level == 0:
            reserved[fr] = max(0, min(number, quota.nominal - used))
        elif quota.borrowing_limit is None:
            reserved[fr] = number
        else:
            reserved[fr] = max(0, min(number, quota.nominal + quota.borrowing_limit - used))
    return reserved
