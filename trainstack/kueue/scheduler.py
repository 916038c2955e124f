"""The scheduler: which workloads are admitted and preempted, in which order.

Cycles follow pkg/scheduler/scheduler.go of Kueue v0.15.2. Cycles in which no head could be admitted are skipped.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import Literal

from trainstack.kueue.backoff import UNLIMITED, Backoff
from trainstack.kueue.cycle import QueueHead, cohort_order, find_blocking_head, process_heads
from trainstack.kueue.delayed_requeue import DelayedRequeue
from trainstack.kueue.diagnosis import inadmissibility_reasons
from trainstack.kueue.hold_up import HoldUp
from trainstack.kueue.model import AdmittedWorkload, Model, Usage, Workload
from trainstack.kueue.pending_queue import PendingQueue
from trainstack.kueue.root_cohort import root_cohorts_of
from trainstack.kueue.skip_ahead import SkipAhead
from trainstack.kueue.snapshot import Snapshot
from trainstack.kueue.verdict import Cause, PodSetAdmission, pod_set_admissions

_NEVER_HEAD_CAUSES: Collection[Cause] = (
    "backoff",
    "queue-closed",
    "queue-stopped",
    "namespace-unmanaged",
    "pod-sets",
)
"""Causes for which Kueue does not keep a workload at the head of a StrictFIFO queue."""
MAX_EVICTIONS = 2
"""Evictions of one workload between two submissions or ends; after more it is not requeued before the next one."""


class UnsettledError(Exception):
    """Workloads preempt each other in a cycle, as they would in Kueue."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["admitted", "evicted"]
    key: str
    """The workload's `<namespace>/<name>`."""
    time: float
    """Seconds."""
    cluster_queue: str
    assigned: tuple[PodSetAdmission, ...] = ()
    usage: Usage = field(default_factory=dict)
    preemptor: str = ""
    """The preempting workload."""


class Scheduler:
    def __init__(
        self,
        model: Model,
        admitted: Iterable[AdmittedWorkload] = (),
        *,
        eviction_cycles: int = 0,
        paced: bool = False,
        refused_keys: Iterable[str] = (),
    ) -> None:
        """Start with empty queues.

        `paced`: cycles take the time that `kueue.backoff` calculates; otherwise everything happens at one instant, and
        an evicted workload holds its quota for `eviction_cycles` cycles. `refused_keys`: workloads that are never
        admitted, whatever quota is available.
        """
        self._model = model
        self._snapshot = Snapshot(model, admitted)
        self._pending_queues = {name: PendingQueue(cq) for name, cq in self._snapshot.cluster_queues.items()}
        self._root_cohorts = root_cohorts_of(self._snapshot, self._pending_queues)
        self._admitted_workloads = {
            key: admitted_workload
            for cq in self._snapshot.cluster_queues.values()
            for key, admitted_workload in cq.admitted.items()
        }
        self._unqueued_workloads: dict[str, Workload] = {}
        """Workloads that are inadmissible whatever quota is available."""
        self._refused_keys = frozenset(refused_keys)
        self._submission_numbers: dict[str, int] = {}
        """The order of submission."""
        self._delayed_requeue = DelayedRequeue(cycles=None if paced else eviction_cycles)
        for key, admitted_workload in self._admitted_workloads.items():
            if admitted_workload.is_evicted:
                self._delayed_requeue.evict(key, 0.0)
        self._preemptor_uids = {
            admitted_workload.preemptor_uid
            for admitted_workload in self._admitted_workloads.values()
            if admitted_workload.is_evicted
        } - {""}
        self._evictions: Counter[str] = Counter()
        self._parked_workloads: list[Workload] = []
        """Workloads that were evicted more than MOST_EVICTIONS times."""
        self._backoff = Backoff(instant=not paced)
        self._reservation_numbers = count(1)
        self._skip_ahead = SkipAhead(self._snapshot)

    def submit(self, workload: Workload) -> None:
        self._enqueue(workload)
        self._unpark()

    def finish(self, key: str) -> None:
        """Release the quota of an admitted workload, or delete a pending one."""
        if key in self._admitted_workloads:
            self._delayed_requeue.record_finish(self._root_cohorts[self._admitted_workloads[key].cluster_queue])
            self._release(key)
        elif self._unqueued_workloads.pop(key, None) is None:
            self._parked_workloads = [workload for workload in self._parked_workloads if workload.key != key]
            for pending_queue in self._pending_queues.values():
                pending_queue.delete_workload(key)
        self._unpark()

    def settle_present(self, now: float = 0.0) -> list[Event]:
        """Run cycles at one instant until nothing more happens before an eviction ends or something is submitted."""
        self._backoff.advance_to(now)
        pace, self._backoff = self._backoff, Backoff(instant=True)
        self._backoff.advance_to(now)
        events: list[Event] = []
        while new_events := self._advance(inf):
            events += new_events
        self._backoff = pace
        return events

    def find_hold_up(self, workload: Workload) -> HoldUp | None:
        """Return what holds up a waiting workload after `settle_present`; None if its own attempts fail."""
        pending_queue = self._queue_of(workload)
        head = None if pending_queue is None else pending_queue.head()
        if pending_queue is None or head is None:
            return None
        heads = {queue_head.pending_queue: queue_head for queue_head in self._heads()}
        blocking_head = heads.get(pending_queue)
        blocking_workload, blocking_queue = head.workload, pending_queue
        if head.workload.key == workload.key:
            if blocking_head is None or not blocking_head.attempt.succeeds:
                return None
            root = pending_queue.cq.node.root
            related_heads = [other for other in heads.values() if other.pending_queue.cq.node.root is root]
            blocking_head = find_blocking_head(self._snapshot, related_heads, blocking_head)
            if blocking_head is None:
                return None
            blocking_workload, blocking_queue = blocking_head.entry.workload, blocking_head.pending_queue
        targets = blocking_head.attempt.targets if blocking_head is not None and blocking_head.attempt.succeeds else ()
        return HoldUp(
            blocking_workload,
            blocking_queue.cq.spec.name,
            is_own_queue=blocking_queue is pending_queue,
            is_strict=blocking_queue.cq.spec.is_strict_fifo,
            preempts=tuple(target.workload.key for target in targets),
        )

    @property
    def snapshot(self) -> Snapshot:
        """The usage of quota at this moment."""
        return self._snapshot

    def settle(self, now: float) -> list[Event]:
        """Run cycles until nothing more happens; raise UnsettledError if workloads preempt each other endlessly."""
        events: list[Event] = []
        while new_events := self.advance(now):
            events += new_events
        if self._parked_workloads:
            names = ", ".join(sorted(workload.key for workload in self._parked_workloads))
            raise UnsettledError(f"{names} and the workloads that preempt them take each other's quota endlessly")
        return events

    def advance(self, now: float, until: float = inf) -> list[Event]:
        """Run cycles up to the first one with an event, and return its events; none if nothing happens before `until`.

        If workloads preempt each other endlessly, one that is evicted more than MOST_EVICTIONS times is parked until
        a workload is submitted or finishes; on a cluster every round takes time.
        """
        self._backoff.advance_to(now)
        self._delayed_requeue.advance_to(now)
        while (time := self._delayed_requeue.next_time) < until:
            if events := self._advance(time):
                return events
            self._backoff.advance_to(time)
            effect = self._delayed_requeue.pop()
            if isinstance(effect, str):
                self._requeue(effect)
            else:
                effect.requeue_inadmissible()
        return self._advance(until)

    def _advance(self, until: float) -> list[Event]:
        earlier_progress: set[tuple[object, ...]] = set()
        while self._delayed_requeue.counts_cycles or self._skip_infeasible_cycles(until):
            if self._backoff.time >= until:
                return []
            heads = self._heads()
            # The quota of evicted workloads may be released after the next cycle.
            is_evicting = self._delayed_requeue.counts_cycles
            if events := self._cycle(heads):
                return events
            progress = tuple(pending_queue.progress for pending_queue in self._pending_queues.values())
            if progress in earlier_progress and not is_evicting:
                # Heads of StrictFIFO queues, blocked heads, and heads whose attempts repeat are tried endlessly. Which
                # flavor is next when something else happens is chance; here it is the first one.
                self._backoff.skip(UNLIMITED, until)
                for head in heads:
                    head.entry.tried_flavors = ()
                return []
            earlier_progress = set() if is_evicting else earlier_progress | {progress}
            if not is_evicting:
                self._skip_repetitions(heads, until)
        return []

    def waiting_workloads(self) -> tuple[Workload, ...]:
        """Return the workloads that are not admitted: by queue in order, then the parked and inadmissible ones."""
        queued_workloads = (
            workload for pending_queue in self._pending_queues.values() for workload in pending_queue.workloads()
        )
        return (*queued_workloads, *self._parked_workloads, *self._unqueued_workloads.values())

    def _enqueue(self, workload: Workload) -> None:
        pending_queue = self._queue_of(workload)
        if pending_queue is None:
            self._unqueued_workloads[workload.key] = workload
            return
        reasons = inadmissibility_reasons(self._model, workload, pending_queue.cq.spec, self._snapshot)
        causes = {reason.cause for reason in reasons}
        is_head_of_strict_queue = pending_queue.cq.spec.is_strict_fifo and causes.isdisjoint(_NEVER_HEAD_CAUSES)
        if causes and not is_head_of_strict_queue:
            self._unqueued_workloads[workload.key] = workload
            return
        number = self._submission_numbers.setdefault(workload.key, len(self._submission_numbers))
        entry = pending_queue.add(workload, number, is_refused=bool(causes) or workload.key in self._refused_keys)
        if workload.uid in self._preemptor_uids:
            pending_queue.make_sticky(entry)

    def _queue_of(self, workload: Workload) -> PendingQueue | None:
        local_queue = (self._model.local_queues or {}).get((workload.namespace, workload.queue))
        return self._pending_queues.get(local_queue.cluster_queue) if local_queue is not None else None

    def _unpark(self) -> None:
        self._evictions.clear()
        parked_workloads, self._parked_workloads = self._parked_workloads, []
        for workload in parked_workloads:
            self._enqueue(workload)

    def _skip_infeasible_cycles(self, until: float) -> bool:
        """Skip the cycles in which no head could be admitted; return False if no other one begins before `until`."""
        nearest_distance: int | None = None
        for name, pending_queue in self._pending_queues.items():
            distance = pending_queue.cycles_to_feasible(self._root_cohorts[name].feasibility, nearest_distance)
            nearest_distance = nearest_distance if distance is None else distance
        cycles = max((pending_queue.remaining_cycles for pending_queue in self._pending_queues.values()), default=0)
        skipped = self._backoff.skip(cycles if nearest_distance is None else nearest_distance, until)
        for pending_queue in self._pending_queues.values():
            pending_queue.skip(skipped)
        return nearest_distance is not None and self._backoff.time < until

    def _skip_repetitions(self, heads: Sequence[QueueHead], until: float) -> None:
        """Skip the cycles that repeat this one."""
        if any(head.continues for head in heads):
            return
        skipped_heads = {id(head.pending_queue) for head in heads if head.is_nominated}
        advancing_queues = {
            name: pending_queue
            for name, pending_queue in self._pending_queues.items()
            if id(pending_queue) not in skipped_heads
        }
        remaining = max((pending_queue.remaining_cycles for pending_queue in advancing_queues.values()), default=0)
        cycles = min(self._skip_ahead.count_repetitions(heads, advancing_queues.values()), remaining)
        for name, pending_queue in advancing_queues.items():
            distance = pending_queue.cycles_to_feasible(self._root_cohorts[name].feasibility, cycles)
            cycles = cycles if distance is None else distance
        skipped = self._backoff.skip(cycles, until)
        for pending_queue in advancing_queues.values():
            pending_queue.skip(skipped)

    def _heads(self) -> list[QueueHead]:
        """Nominate the heads; infeasible ones only if the quota that they reserve may matter to others."""
        heads, infeasible_entries = [], []
        last_order_by_root: dict[int, tuple[int, float, float, int]] = {}
        for name, pending_queue in self._pending_queues.items():
            entry = pending_queue.head()
            if entry is None:
                continue
            root_cohort = self._root_cohorts[name]
            # A nomination searches flavors and preemption targets, so heads that cannot be admitted are left out here.
            if root_cohort.feasibility.may_admit(pending_queue.cq, entry.shape, entry.shape.needs):
                head = root_cohort.nominate(entry, pending_queue)
                heads.append(head)
                last_order_by_root[id(root_cohort)] = max(
                    last_order_by_root.get(id(root_cohort), head.order), head.order
                )
            else:
                infeasible_entries.append((entry, pending_queue, root_cohort))
        # Such a head may still reserve quota that feasible heads after it in the order then lack.
        for entry, pending_queue, root_cohort in infeasible_entries:
            level = root_cohort.feasibility.reserving_level(pending_queue.cq, entry.shape.needs)
            last_order = last_order_by_root.get(id(root_cohort))
            if (
                level is not None
                and last_order is not None
                # Fair sharing has another order, which depends on the whole usage.
                and (self._model.fair_sharing or cohort_order(pending_queue, entry, level) < last_order)
            ):
                heads.append(root_cohort.nominate(entry, pending_queue))
            else:
                pending_queue.mark_inadmissible(entry)
        return heads

    def _cycle(self, heads: Sequence[QueueHead]) -> list[Event]:
        cycle_result = process_heads(self._snapshot, heads)
        for head in heads:
            if head.continues:
                head.entry.tried_flavors = head.attempt.assignment.tried_flavors
            elif not head.is_nominated:
                self._requeue_failed(head)
        events = [event for head in cycle_result.preempting_heads for event in self._preempt(head)]
        events += map(self._admit, cycle_result.admitted_heads)
        for key in self._delayed_requeue.end_cycle():
            self._requeue(key)
        self._backoff.record_cycle(admitted=bool(cycle_result.admitted_heads))
        return events

    def _requeue_failed(self, head: QueueHead) -> None:
        """Source: requeueAndUpdate, and RequeueIfNotPresent in pkg/cache/queue/cluster_queue.go."""
        if head.from_first_flavor:
            self._root_cohorts[head.pending_queue.cq.spec.name].feasibility.reject(head.entry.shape)
        head.pending_queue.mark_inadmissible(head.entry)

    def _admit(self, head: QueueHead) -> Event:
        workload, assignment, name = head.entry.workload, head.attempt.assignment, head.pending_queue.cq.spec.name
        head.pending_queue.delete(head.entry)
        admitted = AdmittedWorkload(
            workload, name, dict(assignment.usage), reserved_at=self._reservation_time(self._backoff.time)
        )
        self._admitted_workloads[workload.key] = admitted
        self._snapshot.add(admitted)
        self._record_usage_change(name, admitted.usage)
        return Event("admitted", workload.key, self._backoff.time, name, pod_set_admissions(assignment), admitted.usage)

    def _reservation_time(self, now: float) -> float:
        """Return the time of a reservation, slightly later than all before it."""
        return now + next(self._reservation_numbers) * 1e-6

    def _preempt(self, head: QueueHead) -> Iterator[Event]:
        """Begin the eviction of a head's targets."""
        head.pending_queue.make_sticky(head.entry)
        time, preemptor = self._backoff.time, head.entry.workload.key
        for target in head.attempt.targets:
            key, queue = target.workload.key, target.cluster_queue
            if self._delayed_requeue.evict(key, time):
                self._admitted_workloads[key] = replace(target, is_evicted=True)
                self._snapshot.cluster_queues[queue].admitted[key] = self._admitted_workloads[key]
                self._root_cohorts[queue].invalidate(queue, target.usage)
                yield Event("evicted", key, time, queue, usage=target.usage, preemptor=preemptor)

    def _requeue(self, key: str) -> None:
        """Release the quota of an evicted workload and requeue it."""
        workload = self._release(key)
        self._evictions[key] += 1
        if self._evictions[key] > MAX_EVICTIONS:
            self._parked_workloads.append(workload)
        else:
            self._enqueue(workload)

    def _release(self, key: str) -> Workload:
        """Release the quota of a workload and requeue the inadmissible workloads of its cohort tree."""
        released_workload = self._admitted_workloads.pop(key)
        self._delayed_requeue.forget(key)
        self._snapshot.remove(released_workload)
        self._record_usage_change(released_workload.cluster_queue, released_workload.usage)
        self._root_cohorts[released_workload.cluster_queue].requeue_inadmissible()
        return released_workload.workload

    def _record_usage_change(self, queue: str, usage: Usage) -> None:
        self._pending_queues[queue].generation += 1
        self._root_cohorts[queue].invalidate(queue, usage)
        self._skip_ahead.invalidate()
