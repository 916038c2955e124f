"""What a plan is made of: runs with their workloads and durations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainstack.kueue.model import Workload
from trainstack.settings.sections.workloads import Workload as Run

Source = Literal["declared", "measured", "deadline", "unbounded"]
"""What a duration comes from: `expectedDurationSeconds`; earlier runs; `activeDeadlineSeconds`, so that it is the most;
nothing, so that no end is known."""


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a run takes from its start to its end, with all its quota."""

    seconds: float | None
    """None: no end is known."""
    source: Source


UNBOUNDED = Duration(None, "unbounded")
Owner = tuple[str, str, str]
"""Kind, namespace and name of the object whose pods a Workload stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run as the simulation sees it."""

    workload: Workload
    duration: Duration = UNBOUNDED
    keeps: bool = False
    """Evicted, it goes on later where it stopped; else it begins anew."""
    after: tuple[str, ...] = ()
    """Keys of the tasks that must have ended before it is submitted."""
    line: str = ""
    """Tasks of one line join their queue one after the other, as its places get free: the trials of a sweep."""
    places: int | None = None
    """How many of the line may be on their way at once; None: all."""
    elapsed: float | None = None
    """Seconds since it was admitted, of a run that runs already; None: it waits, or is not submitted yet."""
    declared: bool = True
    """A run of this environment; else somebody else's that a cluster holds."""

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return self.workload.key

    @property
    def queued(self) -> bool:
        """Whether Kueue holds it; else it starts at once."""
        return bool(self.workload.queue)


def duration(run: Run, measured: float | None = None) -> Duration:
    """How long a declared run takes: as it says, else as earlier ones took, never longer than its deadline.

    Args:
        run: its settings.
        measured: seconds that earlier runs of it took; None: there are none.

    """
    deadline, expected = run.active_deadline_seconds, run.expected_duration_seconds
    known = measured if expected is None else float(expected)
    if run.restarts_always:
        known = None
    if deadline is not None and (known is None or known > deadline):
        return Duration(float(deadline), "deadline")
    if known is None:
        return UNBOUNDED
    return Duration(known, "measured" if expected is None else "declared")


def tasks(
    workloads: Mapping[str, Workload], runs: Mapping[str, Run], measured: Mapping[str, float]
) -> tuple[Task, ...]:
    """The declared runs as tasks, in their order; those of one moment are served in this order.

    Args:
        workloads: by key.
        runs: their settings, by the same keys.
        measured: seconds that earlier runs took, by key.

    """
    return tuple(
        Task(
            workload=workload,
            duration=duration(runs[key], measured.get(key)),
            keeps=runs[key].managed,
            after=tuple(f"{workload.namespace}/{name}" for name in runs[key].depends_on),
        )
        for key, workload in workloads.items()
    )
