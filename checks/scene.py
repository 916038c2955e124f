"""What the rules look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from checks.finding import Finding
from settings.model import Settings
from settings.paths import elements
from settings.workloads import Mount, Resources, Workload


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
        """The runs with their paths."""
        return each("workloads.runs", self.settings.workloads.runs)


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


def each(path: str, things: Sequence[T]) -> Iterator[tuple[str, T]]:
    """The things of a list with their paths."""
    return zip(elements(path, [thing.name for thing in things]), things, strict=True)


def pod_sets(path: str, run: Workload) -> Iterator[PodSet]:
    """The pod sets of a run, the leading one (of rank 0) first."""
    resources, mounts = f"{path}.resources", f"{path}.volumes"
    if not run.roles:
        yield PodSet(
            path, run.kind, min(run.parallelism, run.completions), run.resources, resources, run.volumes, mounts
        )
    for name, role in sorted(run.roles.items()):
        here = f"{path}.roles.{name}"
        yield PodSet(
            path=here,
            name=name,
            count=role.replicas,
            resources=role.resources or run.resources,
            resources_path=f"{here}.resources" if role.resources else resources,
            mounts=run.volumes if role.volumes is None else role.volumes,
            mounts_path=mounts if role.volumes is None else f"{here}.volumes",
        )
