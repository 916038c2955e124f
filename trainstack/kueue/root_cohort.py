"""Queues that share quota: what is known of all of them, until any of it changes hands."""

from collections.abc import Iterable, Mapping

from trainstack.kueue.cycle import Head
from trainstack.kueue.feasibility import Hope
from trainstack.kueue.model import Usage
from trainstack.kueue.nomination import Attempt, attempt, attempts
from trainstack.kueue.pending_queue import Item, Pending, Shape
from trainstack.kueue.snapshot import State


class Kin:
    """The queues below one root."""

    def __init__(self, state: State, members: Iterable[Pending]) -> None:
        """Nothing is known yet."""
        self._state = state
        self.members = tuple(members)
        self.hope = Hope(each.pool for each in self.members)
        self._made: dict[Shape, tuple[Attempt, bool]] = {}
        """Attempts from the first flavor on: those of one shape come to the same."""

    def tried(self, item: Item, pending: Pending) -> Head:
        """An attempt of a queue's head, from where its last one ended.

        Where its next ones would all fail too they are not made: Kueue makes them one by one in as many cycles.
        """
        if item.generation != pending.generation:
            item.tried, item.generation = (), pending.generation
        known = self._made.get(item.shape) if not item.tried else None
        if known is None:
            known = self._try(item, pending)
            if not item.tried:
                self._made[item.shape] = known
        made, goes_on = known
        return Head(item, pending, made, goes_on=goes_on)

    def _try(self, item: Item, pending: Pending) -> tuple[Attempt, bool]:
        pool, workload = pending.pool, item.workload
        made = attempt(self._state, pool, workload, item.tried)
        if made.nominated or not made.assignment.unfinished:
            return made, False
        return made, any(each.nominated for each in attempts(self._state, pool, workload, made.assignment.tried))

    def wake(self) -> None:
        """Let all be tried again: quota has become free."""
        for pending in self.members:
            pending.wake()

    def forget(self, queue: str, usage: Usage) -> None:
        """Somebody who uses this was admitted to a queue, or was told to go, or has gone."""
        self._made.clear()
        self.hope.forget(queue, usage)


def kin_of(state: State, pending: Mapping[str, Pending]) -> dict[str, Kin]:
    """By cluster queue, all those that share quota with it."""
    roots: dict[int, list[Pending]] = {}
    for each in pending.values():
        *_, root = (each.pool.node, *each.pool.node.above())
        roots.setdefault(id(root), []).append(each)
    found = [Kin(state, members) for members in roots.values()]
    return {each.pool.said.name: kin for kin in found for each in kin.members}
