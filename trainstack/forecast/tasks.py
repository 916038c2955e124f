"""The runs of a plan, with their workloads and durations."""

from dataclasses import dataclass
from typing import Literal

from trainstack.kueue.model import Workload
from trainstack.settings.sections.workloads import Workload as Run

Source = Literal["declared", "measured", "deadline", "unbounded"]
"""Of a duration: `expectedDurationSeconds`, earlier runs, `activeDeadlineSeconds` (an upper bound), or none."""


@dataclass(frozen=True, slots=True)
class Duration:
    """The time from a run's start to its end."""

    seconds: float | None
    """None: unknown."""
    source: Source


UNBOUNDED = Duration(None, "unbounded")
Owner = tuple[str, str, str]
"""Kind, namespace and name of the object that owns a Workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    workload: Workload
    duration: Duration = UNBOUNDED
    resumes: bool = False
    """Whether the run resumes after an eviction; otherwise it starts again."""
    after: tuple[str, ...] = ()
    """Keys of the tasks that must end before this one is submitted."""
    sweep: str = ""
    """The sweep of a trial."""
    starts: float = 0.0
    """Seconds from the start of the plan before which the task is not submitted: the backoff of an evicted one."""
    slots: int | None = None
    """How many trials of the sweep may be submitted at once; None: all."""
    elapsed: float | None = None
    """Seconds since the admission on the cluster; None: not admitted."""
    declared: bool = True
    """Whether the environment declares the run; otherwise only the cluster has it."""

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def queued(self) -> bool:
        return bool(self.workload.queue)


def duration(run: Run, measured: float | None = None) -> Duration:
    """Return the duration of a declared run: the expected one, else the measured one, at most its deadline.

    `measured_seconds`: seconds that earlier runs took.
    """
    deadline, expected = run.active_deadline_seconds, run.expected_duration_seconds
    seconds = measured if expected is None else float(expected)
    if run.restarts_always:
        seconds = None
    if deadline is not None and (seconds is None or seconds > deadline):
        return Duration(float(deadline), "deadline")
    if seconds is None:
        return UNBOUNDED
    return Duration(seconds, "measured" if expected is None else "declared")


def task_of(run: Run, workload: Workload, measured: float | None = None) -> Task:
    """Return the task of a declared run. `measured_seconds`: seconds that earlier runs took."""
    dependencies = tuple(f"{workload.namespace}/{name}" for name in run.depends_on)
    return Task(workload=workload, duration=duration(run, measured), resumes=run.managed, after=dependencies)
