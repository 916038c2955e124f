"""Many workloads in their queues: who is admitted, in which order, and who has to go.

Cycle follows cycle as in pkg/scheduler/scheduler.go of Kueue v0.15.2. Those in which no head could be admitted are
passed over unmade.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from trainstack.kueue.backoff import UNLIMITED, Backoff
from trainstack.kueue.cycle import Head, process_heads
from trainstack.kueue.delayed_requeue import DelayedRequeue
from trainstack.kueue.diagnosis import closed, inactive, pod_faults
from trainstack.kueue.event import Event, UnsettledError
from trainstack.kueue.model import Admitted, Model, Usage, Workload
from trainstack.kueue.pending_queue import PendingQueue
from trainstack.kueue.root_cohort import root_cohorts_of
from trainstack.kueue.skip_ahead import SkipAhead
from trainstack.kueue.snapshot import SchedulerSnapshot
from trainstack.kueue.verdict import assigned

MOST_EVICTIONS = 2
"""Of one workload, with nobody submitted and nobody ended meanwhile; after one more it is not queued again at once."""


class Scheduler:
    """The queues of a model, and who is admitted."""

    def __init__(
        self, model: Model, admitted: Iterable[Admitted] = (), *, eviction_cycles: int = 0, paced: bool = False
    ) -> None:
        """Queues that are empty.

        Args:
            model: queues and quotas.
            admitted: who has quota at the beginning.
            eviction_cycles: for how many cycles an evicted workload still holds its quota, since its pods must end.
            paced: cycles take their time, as `kueue.backoff` has it; else everything happens at one instant.

        """
        self._model = model
        self._snapshot = SchedulerSnapshot(model, admitted)
        self._pending = {name: PendingQueue(cq) for name, cq in self._snapshot.cluster_queues.items()}
        self._root_cohorts = root_cohorts_of(self._snapshot, self._pending)
        self._running = {
            key: each for cq in self._snapshot.cluster_queues.values() for key, each in cq.admitted.items()
        }
        self._aside: dict[str, Workload] = {}
        """Those whose queue is on hold, not there or closed to them, or whose pods are refused."""
        self._numbers: dict[str, int] = {}
        """Of submissions."""
        self._delayed_requeue = DelayedRequeue(cycles=None if paced else eviction_cycles)
        self._evictions: Counter[str] = Counter()
        self._resting: list[Workload] = []
        """Evicted too often since somebody was submitted or ended."""
        self._backoff = Backoff(instant=not paced)
        self._stamps = 0
        self._skip_ahead = SkipAhead(self._snapshot)

    def submit(self, workload: Workload) -> None:
        """Let a workload join its queue; `created` orders equal priority, and then who was submitted first."""
        self._join(workload)
        self._rested()

    def finish(self, key: str) -> None:
        """Give an admitted workload's quota back, so that all in its tree are tried again; one that waits leaves."""
        if key in self._running:
            self._delayed_requeue.ended(self._root_cohorts[self._running[key].cluster_queue])
            self._free(key)
        elif self._aside.pop(key, None) is None:
            self._resting = [each for each in self._resting if each.key != key]
            for pending in self._pending.values():
                pending.remove(key)
        self._rested()

    def settle(self, now: float) -> list[Event]:
        """Cycles until nothing more happens, with nobody submitted and nobody ending meanwhile.

        Raises UnsettledError where workloads evict each other for ever.
        """
        events: list[Event] = []
        while done := self.advance(now):
            events += done
        if self._resting:
            names = ", ".join(sorted(each.key for each in self._resting))
            raise UnsettledError(f"{names} and those that they make way for take each other's quota for ever")
        return events

    def advance(self, now: float, until: float = inf) -> list[Event]:
        """Cycles up to the first one in which anything happens.

        Where workloads evict each other for ever, one that was evicted too often rests until somebody is submitted or
        ends; on a cluster each round takes its time.

        Args:
            now: the time in seconds.
            until: when something else happens; no cycle begins then or later.

        Returns:
            What happened in that cycle; nothing where nothing happens before `until`.

        """
        self._backoff.advance_to(now)
        self._delayed_requeue.advance_to(now)
        while (at := self._delayed_requeue.next) < until:
            if events := self._advance(at):
                return events
            self._backoff.advance_to(at)
            what = self._delayed_requeue.pop()
            if isinstance(what, str):
                self._requeue(what)
            else:
                what.requeue_inadmissible()
        return self._advance(until)

    def _advance(self, until: float) -> list[Event]:
        """Cycles up to the first one in which anything happens; nothing else does before `until`."""
        seen: set[tuple[object, ...]] = set()
        while self._delayed_requeue.counting or self._skip(until):
            if self._backoff.time >= until:
                return []
            heads = self._heads()
            freed = self._delayed_requeue.evicting
            if events := self._cycle(heads):
                return events
            stage = tuple(pending.stage for pending in self._pending.values())
            if stage in seen and not freed:
                # Strict queues, and who is kept from what it needs by others, come again and again. At which of their
                # flavors they are when something else happens is chance; here at the first one.
                self._backoff.skip(UNLIMITED, until)
                for head in heads:
                    head.item.tried = ()
                return []
            seen = set() if freed else seen | {stage}
            if not freed:
                self._skip_alike(heads, until)
        return []

    def waiting(self) -> tuple[Workload, ...]:
        """Who is not admitted: by queue, in the order in which they are tried; last those that are held."""
        queued = (workload for pending in self._pending.values() for workload in pending.waiting())
        return (*queued, *self._resting, *self._aside.values())

    def usage(self, cluster_queue: str) -> Usage:
        """What a queue uses."""
        return dict(self._snapshot.tree.queues[cluster_queue].usage)

    def _join(self, workload: Workload) -> None:
        pending = self._queue_of(workload)
        if pending is None:
            self._aside[workload.key] = workload
        else:
            pending.add(workload, self._numbers.setdefault(workload.key, len(self._numbers)))

    def _queue_of(self, workload: Workload) -> PendingQueue | None:
        """Where it waits; None where it would be refused whatever is free."""
        local = (self._model.local_queues or {}).get((workload.namespace, workload.queue))
        pending = self._pending.get(local.cluster_queue) if local is not None else None
        if pending is None:
            return None
        said = pending.cq.spec
        refusals = (
            pod_faults(workload),
            closed(self._model, workload, said),
            inactive(self._model, workload, said, self._snapshot),
        )
        return None if any(next(iter(each), None) for each in refusals) else pending

    def _rested(self) -> None:
        self._evictions.clear()
        rested, self._resting = self._resting, []
        for workload in rested:
            self._join(workload)

    def _skip(self, until: float) -> bool:
        """Pass over the cycles in which nobody could be admitted; False where no other one comes before `until`."""
        wanted: int | None = None
        for pending in self._pending.values():
            found = pending.distance(self._root_cohorts[pending.cq.spec.name].feasibility, wanted)
            wanted = wanted if found is None else found
        remaining = max((each.remaining for each in self._pending.values()), default=0) if wanted is None else wanted
        passed = self._backoff.skip(remaining, until)
        for pending in self._pending.values():
            pending.skip(passed)
        return wanted is not None and self._backoff.time < until

    def _skip_alike(self, heads: Sequence[Head], until: float) -> None:
        """Pass over the cycles in which nothing happens for the same reason as in this one."""
        stay = {id(head.pending) for head in heads if head.nominated}
        others = [pending for pending in self._pending.values() if id(pending) not in stay]
        cycles = min(self._skip_ahead.cycles(heads, others), max((each.remaining for each in others), default=0))
        for pending in others:
            found = pending.distance(self._root_cohorts[pending.cq.spec.name].feasibility, cycles)
            cycles = cycles if found is None else found
        passed = self._backoff.skip(cycles, until)
        for pending in others:
            pending.skip(passed)

    def _heads(self) -> list[Head]:
        """The heads with their attempts; of those without hope only where what they keep free may matter to others."""
        found, others = [], []
        for name, pending in self._pending.items():
            item = pending.head()
            if item is None:
                continue
            root_cohort = self._root_cohorts[name]
            if root_cohort.feasibility.may_admit(pending.cq, item.shape, item.shape.needs):
                found.append(root_cohort.tried(item, pending))
            else:
                others.append((item, pending, root_cohort))
        last: dict[int, tuple[int, float, float, int]] = {}
        for head in found:
            tree = id(self._root_cohorts[head.pending.cq.spec.name])
            last[tree] = max(last.get(tree, head.order), head.order)
        for item, pending, root_cohort in others:
            level = root_cohort.feasibility.reserves(pending.cq, item.shape.needs)
            after = last.get(id(root_cohort))
            if level is not None and after is not None and (level, *item.order) < after:
                found.append(root_cohort.tried(item, pending))
            else:
                pending.mark_inadmissible(item)
        return found

    def _cycle(self, heads: Sequence[Head]) -> list[Event]:
        """Serve the heads, and see to it what becomes of everybody."""
        served = process_heads(self._snapshot, heads)
        for head in heads:
            if head.goes_on:
                head.item.tried = head.made.assignment.tried
            elif not head.nominated:
                self._refuse(head)
        events = [event for head in served.evicting for event in self._evict(head)]
        events += map(self._admit, served.admitted)
        self._let_go()
        self._backoff.after(admitted=bool(served.admitted))
        return events

    def _refuse(self, head: Head) -> None:
        """Source: requeueAndUpdate, and RequeueIfNotPresent in pkg/cache/queue/cluster_queue.go."""
        if head.from_first_flavor:
            self._root_cohorts[head.pending.cq.spec.name].feasibility.reject(head.item.shape)
        head.pending.mark_inadmissible(head.item)

    def _admit(self, head: Head) -> Event:
        workload, assignment, name = head.item.workload, head.made.assignment, head.pending.cq.spec.name
        head.pending.take(head.item)
        admitted = Admitted(workload, name, dict(assignment.usage), reserved=self._stamp(self._backoff.time))
        self._running[workload.key] = admitted
        self._snapshot.add(admitted)
        self._changed(name, admitted.usage)
        return Event("admitted", workload.key, self._backoff.time, name, assigned(assignment), admitted.usage)

    def _stamp(self, now: float) -> float:
        """When a workload that is admitted now got its quota: a little later than all before it."""
        self._stamps += 1
        return now + self._stamps * 1e-6

    def _evict(self, head: Head) -> Iterable[Event]:
        """Tell those to go who stand in the way, and let the head wait for that in front of all others."""
        head.pending.make_sticky(head.item)
        for each in head.made.targets:
            key = each.workload.key
            if self._delayed_requeue.evict(key, self._backoff.time):
                self._running[key] = self._snapshot.cluster_queues[each.cluster_queue].admitted[key] = replace(
                    each, evicted=True
                )
                self._root_cohorts[each.cluster_queue].forget(each.cluster_queue, each.usage)
                by = head.item.workload.key
                yield Event("evicted", key, self._backoff.time, each.cluster_queue, usage=each.usage, by=by)

    def _let_go(self) -> None:
        """Take the quota of evicted workloads whose time is over, and queue them again."""
        for key in self._delayed_requeue.over():
            self._requeue(key)

    def _requeue(self, key: str) -> None:
        """Take the quota of an evicted workload, and queue it again."""
        workload = self._free(key)
        self._evictions[key] += 1
        if self._evictions[key] > MOST_EVICTIONS:
            self._resting.append(workload)
        else:
            self._join(workload)

    def _free(self, key: str) -> Workload:
        """Take a workload's quota, and let all in its tree be tried again."""
        gone = self._running.pop(key)
        self._delayed_requeue.forget(key)
        self._snapshot.remove(gone)
        self._changed(gone.cluster_queue, gone.usage)
        self._root_cohorts[gone.cluster_queue].requeue_inadmissible()
        return gone.workload

    def _changed(self, name: str, usage: Usage) -> None:
        """Quota of a queue has changed hands."""
        self._pending[name].generation += 1
        self._root_cohorts[name].forget(name, usage)
        self._skip_ahead.forget()
