"""The scheduler: which workloads are admitted and preempted, in which order.

Cycles follow pkg/scheduler/scheduler.go of Kueue v0.15.2. Cycles in which no head could be admitted are skipped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import Literal

from trainstack.kueue.backoff import UNLIMITED, Backoff
from trainstack.kueue.cycle import Head, cohort_order, process_heads
from trainstack.kueue.delayed_requeue import DelayedRequeue
from trainstack.kueue.diagnosis import inadmissible
from trainstack.kueue.model import Admitted, Model, Usage, Workload
from trainstack.kueue.pending_queue import PendingQueue
from trainstack.kueue.root_cohort import root_cohorts_of
from trainstack.kueue.skip_ahead import SkipAhead
from trainstack.kueue.snapshot import Snapshot
from trainstack.kueue.verdict import Assigned, assigned

MOST_EVICTIONS = 2
"""Evictions of one workload between two submissions or ends; after more it is not requeued before the next one."""


class UnsettledError(Exception):
    """Workloads preempt each other in a cycle, as they would in Kueue."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["admitted", "evicted"]
    key: str
    """The workload's `<namespace>/<name>`."""
    at: float
    """Seconds."""
    cluster_queue: str
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    by: str = ""
    """The preempting workload."""


class Scheduler:
    def __init__(
        self, model: Model, admitted: Iterable[Admitted] = (), *, eviction_cycles: int = 0, paced: bool = False
    ) -> None:
        """Start with empty queues.

        `paced`: cycles take the time that `kueue.backoff` calculates; otherwise everything happens at one instant, and
        an evicted workload holds its quota for `eviction_cycles` cycles.
        """
        self._model = model
        self._snapshot = Snapshot(model, admitted)
        self._pending = {name: PendingQueue(cq) for name, cq in self._snapshot.cluster_queues.items()}
        self._root_cohorts = root_cohorts_of(self._snapshot, self._pending)
        self._admitted = {key: one for cq in self._snapshot.cluster_queues.values() for key, one in cq.admitted.items()}
        self._unqueued: dict[str, Workload] = {}
        """Workloads that are inadmissible whatever quota is available."""
        self._numbers: dict[str, int] = {}
        """The order of submission."""
        self._delayed = DelayedRequeue(cycles=None if paced else eviction_cycles)
        for key, one in self._admitted.items():
            if one.evicted:
                self._delayed.evict(key, 0.0)
        self._evictions: Counter[str] = Counter()
        self._parked: list[Workload] = []
        """Workloads that were evicted more than MOST_EVICTIONS times."""
        self._backoff = Backoff(instant=not paced)
        self._stamps = count(1)
        self._skip_ahead = SkipAhead(self._snapshot)

    def submit(self, workload: Workload) -> None:
        self._queue(workload)
        self._unpark()

    def finish(self, key: str) -> None:
        """Release the quota of an admitted workload, or delete a pending one."""
        if key in self._admitted:
            self._delayed.finished(self._root_cohorts[self._admitted[key].cluster_queue])
            self._release(key)
        elif self._unqueued.pop(key, None) is None:
            self._parked = [workload for workload in self._parked if workload.key != key]
            for pending in self._pending.values():
                pending.delete_workload(key)
        self._unpark()

    def settle(self, now: float) -> list[Event]:
        """Run cycles until nothing more happens; raise UnsettledError if workloads preempt each other endlessly."""
        events: list[Event] = []
        while new := self.advance(now):
            events += new
        if self._parked:
            names = ", ".join(sorted(workload.key for workload in self._parked))
            raise UnsettledError(f"{names} and the workloads that preempt them take each other's quota endlessly")
        return events

    def advance(self, now: float, until: float = inf) -> list[Event]:
        """Run cycles up to the first one with an event, and return its events; none if nothing happens before `until`.

        If workloads preempt each other endlessly, one that is evicted more than MOST_EVICTIONS times is parked until
        a workload is submitted or finishes; on a cluster every round takes time.
        """
        self._backoff.advance_to(now)
        self._delayed.advance_to(now)
        while (at := self._delayed.next) < until:
            if events := self._advance(at):
                return events
            self._backoff.advance_to(at)
            effect = self._delayed.pop()
            if isinstance(effect, str):
                self._requeue(effect)
            else:
                effect.requeue_inadmissible()
        return self._advance(until)

    def _advance(self, until: float) -> list[Event]:
        seen: set[tuple[object, ...]] = set()
        while self._delayed.counts_cycles or self._skip(until):
            if self._backoff.time >= until:
                return []
            heads = self._heads()
            evicting = self._delayed.evicting
            if events := self._cycle(heads):
                return events
            progress = tuple(pending.progress for pending in self._pending.values())
            if progress in seen and not evicting:
                # Heads of StrictFIFO queues and blocked heads are tried endlessly. Which flavor is next when something
                # else happens is chance; here it is the first one.
                self._backoff.skip(UNLIMITED, until)
                for head in heads:
                    head.item.tried = ()
                return []
            seen = set() if evicting else seen | {progress}
            if not evicting:
                self._skip_repetitions(heads, until)
        return []

    def waiting(self) -> tuple[Workload, ...]:
        """Return the workloads that are not admitted: by queue in order, then the parked and inadmissible ones."""
        queued = (workload for pending in self._pending.values() for workload in pending.workloads())
        return (*queued, *self._parked, *self._unqueued.values())

    def _queue(self, workload: Workload) -> None:
        local = (self._model.local_queues or {}).get((workload.namespace, workload.queue))
        pending = self._pending.get(local.cluster_queue) if local is not None else None
        if pending is None or any(inadmissible(self._model, workload, pending.cq.spec, self._snapshot)):
            self._unqueued[workload.key] = workload
        else:
            pending.add(workload, self._numbers.setdefault(workload.key, len(self._numbers)))

    def _unpark(self) -> None:
        self._evictions.clear()
        parked, self._parked = self._parked, []
        for workload in parked:
            self._queue(workload)

    def _skip(self, until: float) -> bool:
        """Skip the cycles in which no head could be admitted; return False if no other one begins before `until`."""
        nearest: int | None = None
        for name, pending in self._pending.items():
            found = pending.distance(self._root_cohorts[name].feasibility, nearest)
            nearest = nearest if found is None else found
        cycles = max((pending.remaining for pending in self._pending.values()), default=0)
        skipped = self._backoff.skip(cycles if nearest is None else nearest, until)
        for pending in self._pending.values():
            pending.skip(skipped)
        return nearest is not None and self._backoff.time < until

    def _skip_repetitions(self, heads: Sequence[Head], until: float) -> None:
        """Skip the cycles that repeat this one."""
        skipped_heads = {id(head.pending) for head in heads if head.nominated}
        others = {name: pending for name, pending in self._pending.items() if id(pending) not in skipped_heads}
        remaining = max((pending.remaining for pending in others.values()), default=0)
        cycles = min(self._skip_ahead.cycles(heads, others.values()), remaining)
        for name, pending in others.items():
            found = pending.distance(self._root_cohorts[name].feasibility, cycles)
            cycles = cycles if found is None else found
        skipped = self._backoff.skip(cycles, until)
        for pending in others.values():
            pending.skip(skipped)

    def _heads(self) -> list[Head]:
        """Nominate the heads; infeasible ones only if the quota that they reserve may matter to others."""
        heads, infeasible = [], []
        last: dict[int, tuple[int, float, float, int]] = {}
        for name, pending in self._pending.items():
            item = pending.head()
            if item is None:
                continue
            root = self._root_cohorts[name]
            if root.feasibility.may_admit(pending.cq, item.shape, item.shape.needs):
                head = root.nominate(item, pending)
                heads.append(head)
                last[id(root)] = max(last.get(id(root), head.order), head.order)
            else:
                infeasible.append((item, pending, root))
        for item, pending, root in infeasible:
            level = root.feasibility.reserving_level(pending.cq, item.shape.needs)
            after = last.get(id(root))
            if (
                level is not None
                and after is not None
                # Fair sharing has another order, which depends on the whole usage.
                and (self._model.fair_sharing or cohort_order(pending, item, level) < after)
            ):
                heads.append(root.nominate(item, pending))
            else:
                pending.mark_inadmissible(item)
        return heads

    def _cycle(self, heads: Sequence[Head]) -> list[Event]:
        result = process_heads(self._snapshot, heads)
        for head in heads:
            if head.continues:
                head.item.tried = head.attempt.assignment.tried
            elif not head.nominated:
                self._requeue_failed(head)
        events = [event for head in result.preempting for event in self._preempt(head)]
        events += map(self._admit, result.admitted)
        for key in self._delayed.released():
            self._requeue(key)
        self._backoff.cycle_ended(admitted=bool(result.admitted))
        return events

    def _requeue_failed(self, head: Head) -> None:
        """Source: requeueAndUpdate, and RequeueIfNotPresent in pkg/cache/queue/cluster_queue.go."""
        if head.from_first_flavor:
            self._root_cohorts[head.pending.cq.spec.name].feasibility.reject(head.item.shape)
        head.pending.mark_inadmissible(head.item)

    def _admit(self, head: Head) -> Event:
        workload, assignment, name = head.item.workload, head.attempt.assignment, head.pending.cq.spec.name
        head.pending.delete(head.item)
        admitted = Admitted(workload, name, dict(assignment.usage), reserved=self._stamp(self._backoff.time))
        self._admitted[workload.key] = admitted
        self._snapshot.add(admitted)
        self._usage_changed(name, admitted.usage)
        return Event("admitted", workload.key, self._backoff.time, name, assigned(assignment), admitted.usage)

    def _stamp(self, now: float) -> float:
        """Return the time of a reservation, slightly later than all before it."""
        return now + next(self._stamps) * 1e-6

    def _preempt(self, head: Head) -> Iterator[Event]:
        """Begin the eviction of a head's targets."""
        head.pending.make_sticky(head.item)
        time, by = self._backoff.time, head.item.workload.key
        for target in head.attempt.targets:
            key, queue = target.workload.key, target.cluster_queue
            if self._delayed.evict(key, time):
                self._admitted[key] = replace(target, evicted=True)
                self._snapshot.cluster_queues[queue].admitted[key] = self._admitted[key]
                self._root_cohorts[queue].invalidate(queue, target.usage)
                yield Event("evicted", key, time, queue, usage=target.usage, by=by)

    def _requeue(self, key: str) -> None:
        """Release the quota of an evicted workload and requeue it."""
        workload = self._release(key)
        self._evictions[key] += 1
        if self._evictions[key] > MOST_EVICTIONS:
            self._parked.append(workload)
        else:
            self._queue(workload)

    def _release(self, key: str) -> Workload:
        """Release the quota of a workload and requeue the inadmissible workloads of its cohort tree."""
        released = self._admitted.pop(key)
        self._delayed.forget(key)
        self._snapshot.remove(released)
        self._usage_changed(released.cluster_queue, released.usage)
        self._root_cohorts[released.cluster_queue].requeue_inadmissible()
        return released.workload

    def _usage_changed(self, queue: str, usage: Usage) -> None:
        self._pending[queue].generation += 1
        self._root_cohorts[queue].invalidate(queue, usage)
        self._skip_ahead.invalidate()
