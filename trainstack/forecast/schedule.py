"""What comes out of a simulation: when each run waits, runs and ends."""

from dataclasses import dataclass, field

from trainstack.forecast.tasks import Task
from trainstack.kueue.model import Usage
from trainstack.kueue.verdict import Assigned


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a run has its quota. All times are seconds from the plan's beginning."""

    admitted: float
    """Before 0 where a cluster held it already."""
    started: float | None
    """Its pods have nodes; None: none had room."""
    ended: float | None
    """None: no end is known."""
    cluster_queue: str = ""
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    evicted_by: str = ""
    """The workload that it gave way to; empty where it ran to its end."""


@dataclass(frozen=True, slots=True)
class Course:
    """What happens to a run."""

    task: Task
    submitted: float | None
    """None: what it depends on has no known end."""
    spans: tuple[Span, ...] = ()
    """More than one where it was evicted."""

    @property
    def start(self) -> float | None:
        """When it first runs; None: not within what is known."""
        return next((each.started for each in self.spans if each.started is not None), None)

    @property
    def end(self) -> float | None:
        """When it has ended; None: that is not known."""
        return self.spans[-1].ended if self.spans and not self.spans[-1].evicted_by else None

    @property
    def wait(self) -> float | None:
        """Seconds in which it was submitted and did not run; None until it starts. Before 0 nothing is counted."""
        if self.start is None or self.submitted is None:
            return None
        waited, since = 0.0, self.submitted
        for each in self.spans:
            if each.started is None:
                break
            waited += max(0.0, each.started - max(0.0, since))
            since = each.ended if each.ended is not None else each.started
        return waited

    @property
    def evictions(self) -> int:
        """How often it had to give way."""
        return sum(bool(each.evicted_by) for each in self.spans)


@dataclass(frozen=True, slots=True)
class Schedule:
    """All runs, in the order in which they were given."""

    courses: tuple[Course, ...]

    @property
    def makespan(self) -> float:
        """The last end that is known, in seconds from the beginning; 0 where nothing ends."""
        return max((each.end for each in self.courses if each.end is not None), default=0.0)

    @property
    def open(self) -> tuple[Course, ...]:
        """Runs of which no end is known."""
        return tuple(each for each in self.courses if each.end is None)
