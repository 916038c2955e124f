"""One scheduling cycle: the heads of all queues, tried and then served one after the other.

Source: schedule in pkg/scheduler/scheduler.go of Kueue v0.15.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainstack.kueue.flavor_assigner import PreemptionMode
from trainstack.kueue.model import Admitted, FlavorResource, Usage
from trainstack.kueue.nomination import Attempt
from trainstack.kueue.pending_queue import Item, PendingQueue
from trainstack.kueue.snapshot import SchedulerSnapshot


class Head:
    """The head of a queue, and what its attempt came to."""

    __slots__ = ("from_first_flavor", "goes_on", "item", "made", "nominated", "order", "pending")

    def __init__(self, item: Item, pending: PendingQueue, made: Attempt, *, goes_on: bool = False) -> None:
        """A head that was tried; `goes_on`: its next attempts begin where this one ended, and one of them succeeds."""
        self.item = item
        self.pending = pending
        self.made = made
        self.goes_on = goes_on
        self.from_first_flavor = not item.tried
        """It was tried from the first flavor on."""
        self.nominated = made.nominated
        self.order = (made.assignment.level, *item.order)
        """Who borrows least goes first. Source: entryOrdering."""


@dataclass(slots=True)
class CycleResult:
    """What a cycle comes to; all other heads come again, or are passed over."""

    admitted: list[Head] = field(default_factory=list)
    evicting: list[Head] = field(default_factory=list)
    """Those that wait for others to go, as their attempts say."""


def process_heads(snapshot: SchedulerSnapshot, heads: Sequence[Head]) -> CycleResult:
    """Serve the heads; what is taken or kept free for one is gone for those after it. The state stays as it was."""
    served = CycleResult()
    going: dict[str, Admitted] = {}
    reserved: list[tuple[str, Usage]] = []
    remaining = len(heads)
    for head in sorted(heads, key=lambda each: each.order) if remaining > 1 else heads:
        said, made = head.pending.cq.spec, head.made
        usage: Usage = made.assignment.usage
        remaining -= 1
        if not head.nominated:
            usage = quota_to_reserve(head)
        elif (reserved or head.made.skipped) and not still_fits(snapshot, head, going):
            # Skipped: its next attempt begins with the first flavor.
            head.item.tried = ()
            continue
        elif made.targets:
            going |= {each.workload.key: each for each in made.targets}
            served.evicting.append(head)
        else:
            served.admitted.append(head)
        if remaining and usage:
            snapshot.tree.add(said.name, usage)
            reserved.append((said.name, usage))
    for name, usage in reversed(reserved):
        snapshot.tree.remove(name, usage)
    return served


def still_fits(snapshot: SchedulerSnapshot, head: Head, going: Mapping[str, Admitted]) -> bool:
    """Whether there is room once everybody has gone who was told to, and whom this one tells: somebody else."""
    if any(each.workload.key in going for each in head.made.targets):
        return False
    tree, leave = snapshot.tree, [*going.values(), *head.made.targets]
    for each in leave:
        tree.remove(each.cluster_queue, each.usage)
    cq = head.pending.cq
    fits = all(cq.available(fr) >= number for fr, number in head.made.assignment.usage.items())
    for each in reversed(leave):
        tree.add(each.cluster_queue, each.usage)
    return fits


def quota_to_reserve(head: Head) -> dict[FlavorResource, int]:
    """What nobody else gets in this cycle, because a head that fails is not sure to get it back later.

    Source: quotaResourcesToReserve.
    """
    if (
        head.made.assignment.mode is PreemptionMode.NO_FIT
        or head.pending.cq.spec.preemption.reclaim_within_cohort == "Any"
    ):
        return {}
    node, assignment = head.pending.cq.node, head.made.assignment
    found = {}
    for fr, number in assignment.usage.items():
        quota, used = node.quota(fr), node.usage.get(fr, 0)
        if assignment.level == 0:
            found[fr] = max(0, min(number, quota.nominal - used))
        elif quota.borrowing_limit is None:
            found[fr] = number
        else:
            found[fr] = max(0, min(number, quota.nominal + quota.borrowing_limit - used))
    return found
