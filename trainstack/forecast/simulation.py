"""The clock: runs are submitted, admitted, evicted and end, one event after the other.

Who is admitted when is the scheduler's answer (`kueue.scheduler`); this adds how long they run, and that they
need nodes. What an admission takes on a cluster, a second or so until pods run, is not in it.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from trainstack.forecast.nodes import Room
from trainstack.forecast.schedule import Course, Schedule, Span
from trainstack.forecast.tasks import Task
from trainstack.kueue.event import Event
from trainstack.kueue.model import Admitted, Model, Usage
from trainstack.kueue.scheduler import Scheduler
from trainstack.kueue.verdict import Assigned


@dataclass(slots=True)
class _Going:
    """A task on its way."""

    task: Task
    left: float | None
    """Seconds that it still has to run; None: no end is known."""
    before: int
    """Tasks that must end before it is submitted."""
    submitted: float | None = None
    spans: list[Span] = field(default_factory=list)
    admitted: float | None = None
    started: float | None = None
    """Both None while it waits."""
    cluster_queue: str = ""
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    launch: int = 0
    """Counts admissions, so that the end of one that was evicted is none."""


def simulate(
    tasks: Sequence[Task], model: Model, admitted: Iterable[Admitted] = (), room: Room | None = None
) -> Schedule:
    """What happens to the tasks from now on, until nothing more does.

    Args:
        tasks: those that are to be submitted, in order, and those that hold quota already (`elapsed`).
        model: queues and quotas.
        admitted: who holds quota now; each is one of the tasks.
        room: the nodes, empty; None: quota alone decides.

    """
    return _Simulation(tasks, model, tuple(admitted), room).run()


class _Simulation:
    def __init__(self, tasks: Sequence[Task], model: Model, admitted: Sequence[Admitted], room: Room | None) -> None:
        self._scheduler = Scheduler(model, admitted, paced=True)
        self._room = room
        known = {task.key for task in tasks}
        self._going = {task.key: _Going(task, task.duration.seconds, len({*task.after} & known)) for task in tasks}
        self._followers: dict[str, list[str]] = defaultdict(list)
        for task in tasks:
            for before in {*task.after} & known:
                self._followers[before].append(task.key)
        self._lines: dict[str, deque[str]] = defaultdict(deque)
        """Who waits for a place."""
        self._on_way: Counter[str] = Counter()
        """Places that are taken, by line."""
        self._ends: list[tuple[float, int, str, int]] = []
        self._count = 0
        self._homeless: dict[str, None] = {}
        """Admitted, and no node has room; in the order of their admission."""
        for each in admitted:
            self._hold(each)

    def run(self) -> Schedule:
        """All events, one instant after the other."""
        now = 0.0
        for key, going in self._going.items():
            if going.before == 0 and going.admitted is None:
                self._submit(key, now)
        while True:
            self._settle_in(now)
            until = self._ends[0][0] if self._ends else inf
            events = self._scheduler.advance(now, until)
            if events:
                now = events[0].at
                for event in events:
                    self._follow(event, now)
            elif self._ends:
                now = until
                while self._ends and self._ends[0][0] == now:
                    self._end(*heapq.heappop(self._ends)[2:], now=now)
            else:
                break
        return Schedule(tuple(self._course(going) for going in self._going.values()))

    def _end(self, key: str, launch: int, *, now: float) -> None:
        """The end of an admission; of one that was evicted meanwhile it is none."""
        going = self._going[key]
        if going.launch == launch and going.started is not None:
            self._finish(key, now)

    def _submit(self, key: str, now: float) -> None:
        going = self._going[key]
        line, places = going.task.line, going.task.places
        if places is not None and self._on_way[line] >= places:
            self._lines[line].append(key)
            return
        self._on_way[line] += 1
        going.submitted = now
        if going.task.queued:
            self._scheduler.submit(going.task.workload)
        else:
            # Kueue does not hold it: its pods are made at once.
            going.assigned = tuple(Assigned(pods.name, pods.count, {}) for pods in going.task.workload.pod_sets)
            self._admit(going, now)

    def _hold(self, admitted: Admitted) -> None:
        """Who has its quota at the beginning runs, whatever the nodes look like."""
        going = self._going[admitted.workload.key]
        self._on_way[going.task.line] += 1
        elapsed = going.task.elapsed or 0.0
        going.submitted = going.admitted = going.started = -elapsed
        going.cluster_queue, going.usage = admitted.cluster_queue, admitted.usage
        going.assigned = _assigned(admitted)
        if going.left is not None:
            self._end_at(going, max(0.0, going.left - elapsed))
        if self._room is not None:
            self._room.place(admitted.workload, going.assigned)

    def _follow(self, event: Event, now: float) -> None:
        going = self._going[event.key]
        if event.kind == "admitted":
            going.cluster_queue, going.assigned, going.usage = event.cluster_queue, event.assigned, event.usage
            self._admit(going, now)
        else:
            self._evict(going, event.by, now)

    def _admit(self, going: _Going, now: float) -> None:
        going.admitted, going.started = now, None
        going.launch += 1
        self._homeless[going.task.key] = None

    def _settle_in(self, now: float) -> None:
        """Start what is admitted and finds nodes, those first that were admitted first."""
        for key in list(self._homeless):
            going = self._going[key]
            if self._room is None or self._room.place(going.task.workload, going.assigned):
                del self._homeless[key]
                going.started = now
                if going.left is not None:
                    self._end_at(going, now + going.left)

    def _end_at(self, going: _Going, at: float) -> None:
        self._count += 1
        heapq.heappush(self._ends, (at, self._count, going.task.key, going.launch))

    def _evict(self, going: _Going, by: str, now: float) -> None:
        if going.task.keeps and going.left is not None and going.started is not None:
            going.left = max(0.0, going.left - (now - going.started))
        self._leave(going, now, by)

    def _finish(self, key: str, now: float) -> None:
        going = self._going[key]
        self._leave(going, now, "")
        if going.task.queued:
            self._scheduler.finish(key)
        self._on_way[going.task.line] -= 1
        if self._lines[going.task.line]:
            self._submit(self._lines[going.task.line].popleft(), now)
        for follower in self._followers.pop(key, ()):
            self._going[follower].before -= 1
            if self._going[follower].before == 0:
                self._submit(follower, now)

    def _leave(self, going: _Going, now: float, by: str) -> None:
        """It has its quota no longer."""
        self._homeless.pop(going.task.key, None)
        if self._room is not None:
            self._room.leave(going.task.key)
        going.spans.append(self._span(going, now, by))
        going.admitted = going.started = None

    def _span(self, going: _Going, ended: float | None, by: str) -> Span:
        return Span(
            admitted=going.admitted or 0.0,
            started=going.started,
            ended=ended,
            cluster_queue=going.cluster_queue,
            assigned=going.assigned,
            usage=going.usage,
            evicted_by=by,
        )

    def _course(self, going: _Going) -> Course:
        now = [] if going.admitted is None else [self._span(going, None, "")]
        return Course(going.task, going.submitted, (*going.spans, *now))


def _assigned(admitted: Admitted) -> tuple[Assigned, ...]:
    """What an admission that a cluster has gave: all pods, on the flavors of its usage."""
    flavors: dict[str, str] = {resource: flavor for flavor, resource in admitted.usage}
    return tuple(
        Assigned(pods.name, pods.count, {name: flavors[name] for name in pods.requests if name in flavors})
        for pods in admitted.workload.pod_sets
    )
