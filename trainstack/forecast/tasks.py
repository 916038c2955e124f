"""The tasks of a forecast: runs and trials with their Workloads and durations."""

from dataclasses import dataclass
from typing import Literal

from trainstack.kueue.model import Workload
from trainstack.settings.sections.workloads import Workload as Run

DurationSource = Literal["declared", "measured", "deadline", "unbounded"]
"""The source of a duration: `expectedDurationSeconds`, earlier runs, `activeDeadlineSeconds` (upper bound), or none."""


@dataclass(frozen=True, slots=True)
class Duration:
    """The time from a run's start to its end."""

    seconds: float | None
    """None if unknown."""
    source: DurationSource


UNBOUNDED = Duration(None, "unbounded")
Owner = tuple[str, str, str]
"""Kind, namespace and name of the object that owns a Workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run or a trial, or the indexed Job of several trials."""

    workload: Workload
    duration: Duration = UNBOUNDED
    is_resumable: bool = False
    """Whether the run resumes after an eviction; otherwise it starts again."""
    dependencies: tuple[str, ...] = ()
    """Keys of the tasks that must end before this one is submitted."""
    sweep: str = ""
    """The sweep of a trial; empty for a run."""
    earliest_start: float = 0.0
    """Seconds from the start of the forecast before which the task is not submitted: an evicted Workload's backoff."""
    slots: int | None = None
    """The maximum number of the sweep's trials that are submitted at once; None for all."""
    elapsed: float | None = None
    """Seconds since the cluster admitted the task; None if it is not admitted."""
    is_pending: bool = False
    """Whether the task waits in the cluster; otherwise, if it is not admitted, the forecast submits it."""
    is_declared: bool = True
    """Whether the environment declares the run; False for a Workload that exists only in the cluster."""

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def is_queued(self) -> bool:
        return bool(self.workload.queue)


def run_duration(run: Run, measured_seconds: float | None = None) -> Duration:
    """Return the duration of a declared run: the expected one, else the measured one, limited by its deadline.

    `measured_seconds`: the seconds that earlier runs took. A run that always restarts ends at its deadline, if any.
    """
    deadline, expected = run.deadline_seconds, run.expected_duration_seconds
    seconds = measured_seconds if expected is None else float(expected)
    if run.restarts_always:
        seconds = None
    if deadline is not None and (seconds is None or seconds > deadline):
        return Duration(float(deadline), "deadline")
    if seconds is None:
        return UNBOUNDED
    return Duration(seconds, "measured" if expected is None else "declared")


def build_task(run: Run, workload: Workload, measured_seconds: float | None = None) -> Task:
    """Return the task of a declared run. `measured_seconds`: the seconds that earlier runs took."""
    dependencies = tuple(f"{workload.namespace}/{name}" for name in run.depends_on)
    return Task(
        workload=workload,
        duration=run_duration(run, measured_seconds),
        is_resumable=run.managed,
        dependencies=dependencies,
    )
