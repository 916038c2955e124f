"""Many workloads in their queues: who is admitted, in which order, and who has to go.

Source: pkg/scheduler/scheduler.go of Kueue v0.15.2. In a cycle the head of every queue is tried against what is used at
its beginning; then those heads are admitted one after the other, as far as they still fit. There is no clock here:
`settle` goes on until nothing more happens at one instant.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from checks.admission.assignment import Mode
from checks.admission.attempts import Attempt, attempt
from checks.admission.diagnosis import closed, pod_faults
from checks.admission.model import Admitted, FlavorResource, Model, Usage, Workload
from checks.admission.state import Pool, State
from checks.admission.verdict import Assigned, assigned
from checks.admission.waiting_line import Entry, Line, Needs

MOST_CYCLES = 200
"""Cycles without a new admission after which it is said that workloads only evict each other."""


class UnsettledError(Exception):
    """Workloads evict each other in a circle, as Kueue then has them do; says which."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a workload."""

    kind: Literal["admitted", "evicted"]
    key: str
    """The workload's, `<namespace>/<name>`."""
    at: float
    """Seconds."""
    cluster_queue: str
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    by: str = ""
    """The workload that an evicted one made way for."""


@dataclass(slots=True)
class _Head:
    """The head of a queue in one cycle."""

    pool: Pool
    entry: Entry
    attempt: Attempt
    skipped: bool = False
    evicting: bool = False
    """It has made others go, and waits for that."""
    admitted: bool = False


class Queueing:
    """The queues of a model, and who is admitted."""

    def __init__(self, model: Model, admitted: Iterable[Admitted] = (), *, eviction_cycles: int = 0) -> None:
        """`eviction_cycles`: for how many cycles an evicted workload still holds its quota, since its pods must end."""
        self.model = model
        self.state = State(model, admitted)
        self._lines = {name: Line() for name in self.state.pools}
        self._roots = {name: _root(pool) for name, pool in self.state.pools.items()}
        self._trees: dict[str, list[Pool]] = {}
        """The queues of each tree of cohorts."""
        for name, pool in self.state.pools.items():
            self._trees.setdefault(self._roots[name], []).append(pool)
        self._generations = dict.fromkeys(self._lines, 0)
        self._held: dict[str, Workload] = {}
        """Those whose queue is on hold, not there or closed to them."""
        self._eviction_cycles = eviction_cycles
        self._leaving: dict[str, int] = {}
        """Cycles that are left to evicted workloads."""
        self._numbers = self._stamps = 0

    def submit(self, workload: Workload) -> None:
        """Let a workload join its queue."""
        pool = self._pool_of(workload)
        if pool is None or any(pod_faults(workload)) or any(closed(self.model, workload, pool.said)):
            self._held[workload.key] = workload
            return
        self._numbers += 1
        self._lines[pool.said.name].push(Entry(workload, self._numbers))

    def finish(self, key: str) -> None:
        """Give an admitted workload's quota back; or let one that waits leave."""
        for pool in self.state.pools.values():
            if key in pool.admitted:
                self._leaving.pop(key, None)
                self._free(pool.admitted[key])
                return
        if not self._held.pop(key, None):
            any(line.remove(key) for line in self._lines.values())

    def settle(self, now: float) -> list[Event]:
        """Scheduling cycles until nothing more happens at this instant.

        Raises UnsettledError where workloads evict each other for ever.
        """
        events: list[Event] = []
        seen: set[tuple[tuple[str, str], ...]] = set()
        idle = 0
        while True:
            heads = self._cycle(now, events)
            moved = self._let_go()
            if any(head.admitted for head in heads):
                idle = 0
                seen.clear()
                continue
            idle += 1
            if idle > MOST_CYCLES:
                names = sorted({head.entry.workload.key for head in heads})
                raise UnsettledError(f"{', '.join(names)} and those that they evict take each other's quota for ever")
            before = tuple((head.entry.workload.key, repr(head.entry.tried)) for head in heads)
            if not moved and not self._leaving and (not heads or before in seen):
                return events
            seen.add(before)

    def waiting(self) -> tuple[Workload, ...]:
        """Who is not admitted: by queue, in the order in which they are tried; last those that are held."""
        found = [entry.workload for line in self._lines.values() for entry in sorted(line, key=lambda each: each.order)]
        return (*found, *self._held.values())

    def usage(self, cluster_queue: str) -> Usage:
        """What a queue uses."""
        return dict(self.state.tree.queues[cluster_queue].usage)

    def stamp(self, now: float) -> float:
        """When a workload that is admitted now got its quota: a little later than all before it."""
        self._stamps += 1
        return now + self._stamps * 1e-6

    def _pool_of(self, workload: Workload) -> Pool | None:
        local = (self.model.local_queues or {}).get((workload.namespace, workload.queue))
        if local is None or local.stop_policy != "None":
            return None
        pool = self.state.pools.get(local.cluster_queue)
        return pool if pool is not None and pool.node.active else None

    def _cycle(self, now: float, events: list[Event]) -> list[_Head]:
        heads = [head for name, line in self._lines.items() if (head := self._head(name, line))]
        heads.sort(key=lambda head: (head.attempt.assignment.level, head.entry.order))
        going: dict[str, Admitted] = {}
        reserved: list[tuple[str, Usage]] = []
        for head in heads:
            self._process(head, going, reserved, now, events)
        for name, usage in reserved:
            self.state.tree.remove(name, usage)
        for head in heads:
            if head.admitted:
                self._generations[head.pool.said.name] += 1
            else:
                self._requeue(head)
        return heads

    def _head(self, name: str, line: Line) -> _Head | None:
        pool = self.state.pools[name]
        entry = line.pop(partial(_still_lacking, pool, self._trees[self._roots[name]]))
        if entry is None:
            return None
        if entry.generation != self._generations[name]:
            entry.tried = ()
        entry.generation = self._generations[name]
        return _Head(pool, entry, attempt(self.state, pool, entry.workload, entry.tried))

    def _process(
        self,
        head: _Head,
        going: dict[str, Admitted],
        reserved: list[tuple[str, Usage]],
        now: float,
        events: list[Event],
    ) -> None:
        assignment, evicts = head.attempt.assignment, head.attempt.evicts
        name = head.pool.said.name
        if assignment.mode is Mode.NO_FIT:
            return
        if assignment.mode is not Mode.FIT and not evicts:
            # Who may not be sure to get his quota back keeps it from others meanwhile.
            if head.pool.said.preemption.reclaim_within_cohort != "Any":
                self._reserve(name, _to_reserve(head), reserved)
            return
        if any(each.workload.key in going for each in evicts) or not self._still_fits(head, going.values()):
            head.skipped = True
            return
        if not evicts:
            admitted = Admitted(head.entry.workload, name, dict(assignment.usage), reserved=self.stamp(now))
            self.state.add(admitted)
            head.admitted = True
            key = head.entry.workload.key
            events.append(Event("admitted", key, now, name, assigned(assignment), admitted.usage))
            return
        self._reserve(name, assignment.usage, reserved)
        head.evicting = True
        for each in evicts:
            going[each.workload.key] = each
            if each.workload.key not in self._leaving:
                self._leaving[each.workload.key] = self._eviction_cycles
                self.state.pools[each.cluster_queue].admitted[each.workload.key] = replace(each, evicted=True)
                by = head.entry.workload.key
                events.append(Event("evicted", each.workload.key, now, each.cluster_queue, by=by))

    def _reserve(self, name: str, usage: Usage, reserved: list[tuple[str, Usage]]) -> None:
        self.state.tree.add(name, usage)
        reserved.append((name, dict(usage)))

    def _still_fits(self, head: _Head, going: Collection[Admitted]) -> bool:
        """Whether there is room once everybody has gone who was told to, and whom this one tells."""
        tree, leave = self.state.tree, [*going, *head.attempt.evicts]
        for each in leave:
            tree.remove(each.cluster_queue, each.usage)
        fits = all(head.pool.available(what) >= number for what, number in head.attempt.assignment.usage.items())
        for each in leave:
            tree.add(each.cluster_queue, each.usage)
        return fits

    def _requeue(self, head: _Head) -> None:
        """Source: requeueAndUpdate, and RequeueIfNotPresent in pkg/cache/queue/cluster_queue.go."""
        entry, name = head.entry, head.pool.said.name
        line = self._lines[name]
        if head.skipped or head.evicting:
            entry.tried = ()
            line.push(entry, first=head.evicting and not head.pool.said.strict)
            return
        fresh = not any(entry.tried)
        entry.tried = head.attempt.assignment.tried
        if head.pool.said.strict or head.attempt.assignment.unfinished:
            line.push(entry)
        else:
            entry.tried = ()
            line.refuse(entry, _needs(head) if fresh else None)

    def _let_go(self) -> bool:
        """Take the quota of evicted workloads whose time is over, and queue them again."""
        moved = False
        for key, left in list(self._leaving.items()):
            if left > 0:
                self._leaving[key] = left - 1
                continue
            del self._leaving[key]
            for pool in self.state.pools.values():
                if key in pool.admitted:
                    admitted = pool.admitted[key]
                    self._free(admitted)
                    self.submit(admitted.workload)
                    moved = True
        return moved

    def _free(self, admitted: Admitted) -> None:
        self.state.remove(admitted)
        self._generations[admitted.cluster_queue] += 1
        for pool in self._trees[self._roots[admitted.cluster_queue]]:
            self._lines[pool.said.name].wake()


def _needs(head: _Head) -> Needs | None:
    """What the first pod set lacked on every flavor; None where that alone does not keep the workload out.

    Fewer pods may do; a later pod set lacks what those before it leave; there may be somebody to evict.
    """
    (placed, *others), sets = head.attempt.assignment.placed, head.entry.workload.pod_sets
    if others or any(pods.least is not None for pods in sets):
        return None
    short = [each for each in placed.refused if each.flavor and each.resource]
    return tuple(((each.flavor, each.resource), each.wanted) for each in short)


def _still_lacking(pool: Pool, neighbours: Collection[Pool], workload: Workload, needs: Needs) -> bool:
    """Whether all of that is still lacking, and there is nobody who could be evicted."""
    if any(pool.available(what) >= number for what, number in needs):
        return False
    policy = pool.said.preemption
    if policy.within_cluster_queue != "Never":
        below = workload.priority + (policy.within_cluster_queue == "LowerOrNewerEqualPriority")
        if any(each.workload.priority < below for each in pool.admitted.values()):
            return False
    return policy.reclaim_within_cohort == "Never" or not any(
        other.node.exceeds(what) for other in neighbours if other is not pool for what, _ in needs
    )


def _root(pool: Pool) -> str:
    """What tells the queues of one tree from those of others."""
    *_, top = (pool.node, *pool.node.above())
    return f"cohort {top.name}" if top is not pool.node else f"queue {top.name}"


def _to_reserve(head: _Head) -> dict[FlavorResource, int]:
    """Source: quotaResourcesToReserve."""
    node, assignment = head.pool.node, head.attempt.assignment
    found = {}
    for what, number in assignment.usage.items():
        quota, used = node.quota(what), node.usage.get(what, 0)
        if assignment.level == 0:
            found[what] = max(0, min(number, quota.nominal - used))
        elif quota.borrowing_limit is None:
            found[what] = number
        else:
            found[what] = min(number, quota.nominal + quota.borrowing_limit - used)
    return found
