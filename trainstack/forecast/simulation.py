"""A discrete-event simulation in which runs are submitted, admitted, evicted and finished.

The scheduler (`kueue.scheduler`) decides on admission; this module adds durations and nodes. The second or so from an
admission to running pods is left out.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf

from trainstack.forecast.node_pool import NodePool
from trainstack.forecast.schedule import Schedule, Span, Timeline
from trainstack.forecast.tasks import Task
from trainstack.kueue.model import AdmittedWorkload, Model
from trainstack.kueue.scheduler import Event, Scheduler
from trainstack.kueue.verdict import PodSetAdmission

_SUBMISSION = -1
_EARLIER_PREEMPTOR = "Kueue (before the plan began)"
"""The preemptor that is reported for a workload whose eviction began before the forecast."""


@dataclass(slots=True)
class _RunState:
    """A task with its progress in the simulation."""

    task: Task
    remaining_seconds: float | None
    """None if the task has no known end."""
    open_dependencies: int
    """The number of tasks that must end before this one is submitted."""
    submitted: float | None = None
    ended_spans: list[Span] = field(default_factory=list)
    """The spans that have ended, in their order."""
    span: Span | None = None
    """The current span; None if the run is not admitted."""
    admissions: int = 0


def simulate(
    tasks: Sequence[Task], model: Model, admitted: Iterable[AdmittedWorkload] = (), nodes: NodePool | None = None
) -> Schedule:
    """Simulate the tasks, in the order of submission, until no event is left.

    `admitted`: the workloads with reserved quota, each of a task with `elapsed`. `nodes`: the pool without pods; if
    None, quota alone decides.
    """
    return _Simulation(tasks, model, tuple(admitted), nodes).run()


class _Simulation:
    def __init__(
        self, tasks: Sequence[Task], model: Model, admissions: Sequence[AdmittedWorkload], nodes: NodePool | None
    ) -> None:
        self._scheduler = Scheduler(model, admissions, paced=True)
        self._nodes = nodes
        task_keys = {task.key for task in tasks}
        self._runs = {
            task.key: _RunState(task, task.duration.seconds, len({*task.dependencies} & task_keys)) for task in tasks
        }
        self._dependents_by_task: dict[str, list[str]] = defaultdict(list)
        for task in tasks:
            for dependency in {*task.dependencies} & task_keys:
                self._dependents_by_task[dependency].append(task.key)
        self._waiting_for_slot: dict[str, deque[str]] = defaultdict(deque)
        """The keys of the trials without a slot, by sweep."""
        self._used_slots: Counter[str] = Counter()
        self._ends: list[tuple[float, int, str, int]] = []
        """A heap of (time, order, task key, number of the admission).

        An entry is obsolete if its admission is no longer the current one, because the run was evicted. The number
        _SUBMISSION marks the time at which a task is submitted.
        """
        self._order = count()
        self._unplaced: dict[str, None] = {}
        """Admitted tasks whose pods have no nodes, in the order of admission."""
        for admission in admissions:
            self._continue_admitted(admission)

    def run(self) -> Schedule:
        """Process all events in the order of time and return the schedule."""
        now = 0.0
        self._settle_pending(now)
        for key, run in self._runs.items():
            if run.task.earliest_start > now:
                heapq.heappush(self._ends, (run.task.earliest_start, next(self._order), key, _SUBMISSION))
            elif run.open_dependencies == 0 and run.submitted is None and not run.task.is_pending:
                self._submit(key, now)
        while True:
            self._start_placeable(now)
            next_end = self._ends[0][0] if self._ends else inf
            # The scheduler may decide before the next end: its events come first, since they change the ends.
            events = self._scheduler.advance(now, next_end)
            if events:
                now = events[0].time
                for event in events:
                    self._apply_event(event, now)
            elif self._ends:
                now = next_end
                while self._ends and self._ends[0][0] == now:
                    self._process_next_end(now)
            else:
                break
        return Schedule(tuple(map(self._timeline, self._runs.values())))

    def _settle_pending(self, now: float) -> None:
        """Submit what waits in the cluster, where it has been tried before the forecast submits anything."""
        for key, run in self._runs.items():
            if run.task.is_pending and run.task.earliest_start <= now and run.submitted is None:
                self._submit(key, now)
        for event in self._scheduler.settle_present(now):
            self._apply_event(event, now)

    def _process_next_end(self, now: float) -> None:
        """Process the first entry of `_ends`: submit or finish its task, or drop an obsolete entry."""
        _, _, key, admissions = heapq.heappop(self._ends)
        span = self._runs[key].span
        if admissions == _SUBMISSION:
            self._submit(key, now)
        elif self._runs[key].admissions == admissions and span is not None and span.started is not None:
            self._finish(key, now)

    def _submit(self, key: str, now: float) -> None:
        run = self._runs[key]
        sweep, slots = run.task.sweep, run.task.slots
        if slots is not None and self._used_slots[sweep] >= slots:
            self._waiting_for_slot[sweep].append(key)
            return
        self._used_slots[sweep] += 1
        run.submitted = now
        if run.task.is_queued:
            self._scheduler.submit(run.task.workload)
        else:
            pod_sets = run.task.workload.pod_sets
            self._admit(
                run, Span(now, assignments=tuple(PodSetAdmission(pods.name, pods.count, {}) for pods in pod_sets))
            )

    def _continue_admitted(self, admission: AdmittedWorkload) -> None:
        """Continue a workload that the cluster has admitted: it runs, even if its nodes are unknown, or is evicted."""
        run = self._runs[admission.workload.key]
        self._used_slots[run.task.sweep] += 1
        elapsed = run.task.elapsed or 0.0
        run.submitted = -elapsed
        run.span = Span(
            -elapsed, -elapsed, None, admission.cluster_queue, _live_assignments(admission), admission.usage
        )
        if admission.is_evicted:
            if run.task.is_resumable and run.remaining_seconds is not None:
                run.remaining_seconds = max(0.0, run.remaining_seconds - elapsed)
            self._release(run, 0.0, _EARLIER_PREEMPTOR)
            return
        if run.remaining_seconds is not None:
            self._end_at(run, max(0.0, run.remaining_seconds - elapsed))
        if self._nodes is not None:
            self._nodes.place(admission.workload, run.span.assignments)

    def _apply_event(self, event: Event, now: float) -> None:
        run = self._runs[event.key]
        if event.kind == "admitted":
            self._admit(run, Span(now, None, None, event.cluster_queue, event.assigned, event.usage))
            return
        started = run.span.started if run.span is not None else None
        if run.task.is_resumable and run.remaining_seconds is not None and started is not None:
            run.remaining_seconds = max(0.0, run.remaining_seconds - (now - started))
        self._release(run, now, event.preemptor)

    def _admit(self, run: _RunState, span: Span) -> None:
        run.span = span
        run.admissions += 1
        self._unplaced[run.task.key] = None

    def _start_placeable(self, now: float) -> None:
        """Start the admitted runs whose pods fit on the nodes."""
        for key in list(self._unplaced):
            run = self._runs[key]
            if any(pods.pod_refusals for pods in run.task.workload.pod_sets):
                continue
            if run.span is not None and (
                self._nodes is None or self._nodes.place(run.task.workload, run.span.assignments)
            ):
                del self._unplaced[key]
                run.span = replace(run.span, started=now)
                if run.remaining_seconds is not None:
                    self._end_at(run, now + run.remaining_seconds)

    def _timeline(self, run: _RunState) -> Timeline:
        spans = (*run.ended_spans, *([] if run.span is None else [run.span]))
        is_waiting = run.task.is_queued and run.submitted is not None and not spans
        hold_up = self._scheduler.find_hold_up(run.task.workload) if is_waiting else None
        return Timeline(run.task, run.submitted, spans, hold_up)

    def _end_at(self, run: _RunState, end: float) -> None:
        heapq.heappush(self._ends, (end, next(self._order), run.task.key, run.admissions))

    def _finish(self, key: str, now: float) -> None:
        run = self._runs[key]
        self._release(run, now, "")
        if run.task.is_queued:
            self._scheduler.finish(key)
        self._used_slots[run.task.sweep] -= 1
        if self._waiting_for_slot[run.task.sweep]:
            self._submit(self._waiting_for_slot[run.task.sweep].popleft(), now)
        for dependent in self._dependents_by_task.pop(key, ()):
            self._runs[dependent].open_dependencies -= 1
            if self._runs[dependent].open_dependencies == 0:
                self._submit(dependent, now)

    def _release(self, run: _RunState, now: float, preemptor: str) -> None:
        self._unplaced.pop(run.task.key, None)
        if self._nodes is not None:
            self._nodes.remove(run.task.key)
        if run.span is not None:
            run.ended_spans.append(replace(run.span, ended=now, evicted_by=preemptor))
        run.span = None


def _live_assignments(admission: AdmittedWorkload) -> tuple[PodSetAdmission, ...]:
    """Return the assignment of a live admission: all pods, on the flavors of its usage."""
    flavors: dict[str, str] = {resource: flavor for flavor, resource in admission.usage}
    return tuple(
        PodSetAdmission(pods.name, pods.count, {name: flavors[name] for name in pods.requests if name in flavors})
        for pods in admission.workload.pod_sets
    )
