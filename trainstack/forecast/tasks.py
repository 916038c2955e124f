"""The runs of a plan, with their workloads and durations."""

from dataclasses import dataclass
from typing import Literal

from trainstack.kueue.model import Workload
from trainstack.settings.sections.workloads import Workload as Run

DurationSource = Literal["declared", "measured", "deadline", "unbounded"]
"""Of a duration: `expectedDurationSeconds`, earlier runs, `activeDeadlineSeconds` (an upper bound), or none."""


@dataclass(frozen=True, slots=True)
class Duration:
    """The time from a run's start to its end."""

    seconds: float | None
    """None: unknown."""
    source: DurationSource


UNBOUNDED = Duration(None, "unbounded")
Owner = tuple[str, str, str]
"""Kind, namespace and name of the object that owns a Workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    workload: Workload
    duration: Duration = UNBOUNDED
    is_resumable: bool = False
    """Whether the run resumes after an eviction; otherwise it starts again."""
    dependencies: tuple[str, ...] = ()
    """Keys of the tasks that must end before this one is submitted."""
    sweep: str = ""
    """The sweep of a trial."""
    earliest_start: float = 0.0
    """Seconds from the start of the plan before which the task is not submitted: the backoff of an evicted one."""
    slots: int | None = None
    """How many trials of the sweep may be submitted at once; None: all."""
    elapsed: float | None = None
    """Seconds since the admission on the cluster; None: not admitted."""
    is_declared: bool = True
    """Whether the environment declares the run; otherwise only the cluster has it."""

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def is_queued(self) -> bool:
        return bool(self.workload.queue)


def run_duration(run: Run, measured_seconds: float | None = None) -> Duration:
    """Return the duration of a declared run: the expected one, else the measured one, at most its deadline.

    `measured_seconds`: seconds that earlier runs took.
    """
    deadline, expected = run.active_deadline_seconds, run.expected_duration_seconds
    seconds = measured_seconds if expected is None else float(expected)
    if run.restarts_always:
        seconds = None
    if deadline is not None and (seconds is None or seconds > deadline):
        return Duration(float(deadline), "deadline")
    if seconds is None:
        return UNBOUNDED
    return Duration(seconds, "measured" if expected is None else "declared")


def build_task(run: Run, workload: Workload, measured_seconds: float | None = None) -> Task:
    """Return the task of a declared run. `measured_seconds`: seconds that earlier runs took."""
    dependencies = tuple(f"{workload.namespace}/{name}" for name in run.depends_on)
    return Task(
        workload=workload,
        duration=run_duration(run, measured_seconds),
        is_resumable=run.managed,
        dependencies=dependencies,
    )
