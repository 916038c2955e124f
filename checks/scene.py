"""What the rules look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from checks.finding import Finding
from settings.model import Settings
from settings.paths import elements
from settings.workloads import Mount, PodOverrides, Resources, Workload
from workloads.pods import NODE


class Named(Protocol):
    """A thing of a list of named things."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Named)


@dataclass(frozen=True)
class Scene:
    """An environment and the project whose files it names."""

    settings: Settings
    root: Path

    @property
    def owns_platform(self) -> bool:
        """True when this stack declares queues and classes: then what it does not declare is not there."""
        environment = self.settings.environment
        return environment.profile == "owner" and "platform" in environment.halves

    def runs(self) -> Iterator[tuple[str, Workload]]:
        """Everything that is queued, with its path; see `queued`."""
        return queued(self.settings)


Rule = Callable[[Scene], Iterator[Finding]]


@dataclass(frozen=True)
class PodSet:
    """Pods of a run that are alike."""

    path: str
    name: str
    """The role, or the kind of a run without roles."""
    count: int
    """How many stand at once."""
    resources: Resources
    resources_path: str
    mounts: tuple[Mount, ...]
    mounts_path: str


def queued(settings: Settings) -> Iterator[tuple[str, Workload]]:
    """What Kueue sees, with its path: the runs, and of each sweep a trial, or of form `indexed` the Job of them all."""
    runs, sweeps = settings.workloads.runs, settings.sweeps.sweeps
    yield from each("workloads.runs", runs)
    for path, sweep in each("sweeps.sweeps", sweeps):
        indices = {
            "completions": len(sweep.expansion.sets) if sweep.expansion and sweep.expansion.sets else 1,
            "parallelism": sweep.parallelism,
        }
        yield f"{path}.run", sweep.run.model_copy(update=indices if sweep.form == "indexed" else {})


def each(path: str, things: Sequence[T]) -> Iterator[tuple[str, T]]:
    """The things of a list with their paths."""
    return zip(elements(path, [thing.name for thing in things]), things, strict=True)


def pod_sets(path: str, run: Workload) -> Iterator[PodSet]:
    """The pod sets of a run, the leading one (of rank 0) first."""
    if run.kind == "TrainJob":
        # To Kueue its nodes are one pod set, whatever roles they are declared as.
        name, role = min(run.roles.items())
        count = sum(each.replicas for each in run.roles.values())
        yield _overridden(f"{path}.roles.{name}", path, run, role, NODE, count)
    elif run.kind == "JobSet":
        for here, job in each(f"{path}.replicatedJobs", run.replicated_jobs):
            count = job.replicas * min(job.parallelism, job.completions or job.parallelism)
            yield _overridden(here, path, run, job, job.name, count)
    elif run.roles:
        for name, role in sorted(run.roles.items()):
            yield _overridden(f"{path}.roles.{name}", path, run, role, name, role.replicas)
    else:
        count = min(run.parallelism, run.completions)
        yield PodSet(path, run.kind, count, run.resources, f"{path}.resources", run.volumes, f"{path}.volumes")


def _overridden(here: str, path: str, run: Workload, own: PodOverrides, name: str, count: int) -> PodSet:
    """The pods of a role, at `here`, which says some things differently from its run, at `path`."""
    return PodSet(
        path=here,
        name=name,
        count=count,
        resources=own.resources or run.resources,
        resources_path=f"{here if own.resources else path}.resources",
        mounts=run.volumes if own.volumes is None else own.volumes,
        mounts_path=f"{path if own.volumes is None else here}.volumes",
    )
