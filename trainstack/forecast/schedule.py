"""The result of a simulation: when each run waits, runs and ends."""

from dataclasses import dataclass, field

from trainstack.forecast.tasks import Task
from trainstack.kueue.hold_up import HoldUp
from trainstack.kueue.model import Usage
from trainstack.kueue.verdict import PodSetAdmission


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a run holds its quota. All times are seconds from the start of the forecast."""

    admitted: float
    """The time of the admission; negative if the cluster admitted the run before the forecast."""
    started: float | None = None
    """The time at which its pods have nodes; None if they never have."""
    ended: float | None = None
    """None if unknown."""
    cluster_queue: str = ""
    assignments: tuple[PodSetAdmission, ...] = ()
    usage: Usage = field(default_factory=dict)
    evicted_by: str = ""
    """The preempting workload; empty if the run ended."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A task with its submission and its spans."""

    task: Task
    submitted: float | None
    """The time of the submission; None if a dependency has no known end."""
    spans: tuple[Span, ...] = ()
    """In the order of time; several if the run is evicted."""
    hold_up: HoldUp | None = None
    """What keeps a run from being admitted to the end of the forecast although its quota is available."""

    @property
    def start(self) -> float | None:
        """The first time at which the run has nodes; None if it never starts."""
        return next((span.started for span in self.spans if span.started is not None), None)

    @property
    def end(self) -> float | None:
        """The end of the last span; None if it is unknown or the run was evicted and not admitted again."""
        return self.spans[-1].ended if self.spans and not self.spans[-1].evicted_by else None

    @property
    def wait(self) -> float | None:
        """The seconds, from 0 on, in which the run is submitted and not running; None if it never starts."""
        if self.start is None or self.submitted is None:
            return None
        waited_seconds, waiting_since = 0.0, self.submitted
        for span in self.spans:
            if span.started is None:
                break
            waited_seconds += max(0.0, span.started - max(0.0, waiting_since))
            waiting_since = span.ended if span.ended is not None else span.started
        return waited_seconds

    @property
    def evictions(self) -> int:
        return sum(bool(span.evicted_by) for span in self.spans)


@dataclass(frozen=True, slots=True)
class Schedule:
    timelines: tuple[Timeline, ...]
    """In the order of the tasks."""

    @property
    def makespan(self) -> float:
        """The last known end in seconds; 0 without one."""
        return max((timeline.end for timeline in self.timelines if timeline.end is not None), default=0.0)

    @property
    def endless_timelines(self) -> tuple[Timeline, ...]:
        """Runs without a known end."""
        return tuple(timeline for timeline in self.timelines if timeline.end is None)
