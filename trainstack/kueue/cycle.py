"""One scheduling cycle: the heads of all queues, tried and then served one after the other.

Source: schedule in pkg/scheduler/scheduler.go of Kueue v0.15.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainstack.kueue.flavor_assigner import Mode
from trainstack.kueue.model import Admitted, FlavorResource, Usage
from trainstack.kueue.nomination import Attempt
from trainstack.kueue.pending_queue import Item, Pending
from trainstack.kueue.snapshot import State


class Head:
    """The head of a queue, and what its attempt came to."""

    __slots__ = ("fresh", "goes_on", "item", "made", "nominated", "order", "pending")

    def __init__(self, item: Item, pending: Pending, made: Attempt, *, goes_on: bool = False) -> None:
        """A head that was tried; `goes_on`: its next attempts begin where this one ended, and one of them succeeds."""
        self.item = item
        self.pending = pending
        self.made = made
        self.goes_on = goes_on
        self.fresh = not item.tried
        """It was tried from the first flavor on."""
        self.nominated = made.nominated
        self.order = (made.assignment.level, *item.order)
        """Who borrows least goes first. Source: entryOrdering."""


@dataclass(slots=True)
class Served:
    """What a cycle comes to; all other heads come again, or are passed over."""

    admitted: list[Head] = field(default_factory=list)
    evicting: list[Head] = field(default_factory=list)
    """Those that wait for others to go, as their attempts say."""


def serve(state: State, heads: Sequence[Head]) -> Served:
    """Serve the heads; what is taken or kept free for one is gone for those after it. The state stays as it was."""
    served = Served()
    going: dict[str, Admitted] = {}
    reserved: list[tuple[str, Usage]] = []
    left = len(heads)
    for head in sorted(heads, key=lambda each: each.order) if left > 1 else heads:
        said, made = head.pending.pool.said, head.made
        usage: Usage = made.assignment.usage
        left -= 1
        if not head.nominated:
            usage = kept_free(head)
        elif (reserved or head.made.skipped) and not still_fits(state, head, going):
            # Skipped: its next attempt begins with the first flavor.
            head.item.tried = ()
            continue
        elif made.evicts:
            going |= {each.workload.key: each for each in made.evicts}
            served.evicting.append(head)
        else:
            served.admitted.append(head)
        if left and usage:
            state.tree.add(said.name, usage)
            reserved.append((said.name, usage))
    for name, usage in reversed(reserved):
        state.tree.remove(name, usage)
    return served


def still_fits(state: State, head: Head, going: Mapping[str, Admitted]) -> bool:
    """Whether there is room once everybody has gone who was told to, and whom this one tells: somebody else."""
    if any(each.workload.key in going for each in head.made.evicts):
        return False
    tree, leave = state.tree, [*going.values(), *head.made.evicts]
    for each in leave:
        tree.remove(each.cluster_queue, each.usage)
    pool = head.pending.pool
    fits = all(pool.available(what) >= number for what, number in head.made.assignment.usage.items())
    for each in reversed(leave):
        tree.add(each.cluster_queue, each.usage)
    return fits


def kept_free(head: Head) -> dict[FlavorResource, int]:
    """What nobody else gets in this cycle, because a head that fails is not sure to get it back later.

    Source: quotaResourcesToReserve.
    """
    if head.made.assignment.mode is Mode.NO_FIT or head.pending.pool.said.preemption.reclaim_within_cohort == "Any":
        return {}
    node, assignment = head.pending.pool.node, head.made.assignment
    found = {}
    for what, number in assignment.usage.items():
        quota, used = node.quota(what), node.usage.get(what, 0)
        if assignment.level == 0:
            found[what] = max(0, min(number, quota.nominal - used))
        elif quota.borrowing_limit is None:
            found[what] = number
        else:
            found[what] = max(0, min(number, quota.nominal + quota.borrowing_limit - used))
    return found
