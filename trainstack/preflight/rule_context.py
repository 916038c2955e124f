"""What the rules look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

from trainstack.declared.declared import Declared
from trainstack.kueue.admission_simulator import declared_verdicts
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.resource_node import CohortTree
from trainstack.kueue.verdict import Verdict
from trainstack.runs.status.run_pods import queued
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import ClusterQueue, FlavorQuotas, ResourceGroup, ResourceQuota
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import elements


class Named(Protocol):
    """A thing of a list of named things."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Named)


@dataclass(frozen=True)
class Scene:
    """An environment and the project whose files it names."""

    declared: Declared
    root: Path

    @property
    def settings(self) -> Settings:
        """The environment."""
        return self.declared.settings

    @property
    def owns_platform(self) -> bool:
        """True when this stack declares queues and classes: then what it does not declare is not there."""
        environment = self.settings.environment
        return environment.profile == "owner" and "platform" in environment.halves

    def runs(self) -> Iterator[tuple[str, Workload]]:
        """Everything that is queued, with its path; see `queued`."""
        return queued(self.settings)

    @cached_property
    def tree(self) -> CohortTree:
        """What the declared queues and cohorts have."""
        return CohortTree(declared_model(self.declared))

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Whether each run that Kueue holds would be admitted, on an idle cluster."""
        return declared_verdicts(self.declared)


def each(path: str, things: Sequence[T]) -> Iterator[tuple[str, T]]:
    """The things of a list with their paths."""
    return zip(elements(path, [thing.name for thing in things]), things, strict=True)


def flavors(path: str, queue: ClusterQueue) -> Iterator[tuple[str, ResourceGroup, FlavorQuotas]]:
    """The flavors of a queue's groups: the path of each, its group, and the flavor."""
    for index, group in enumerate(queue.resource_groups):
        for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
            yield where, group, flavor


def quotas(path: str, queue: ClusterQueue) -> Iterator[tuple[str, FlavorQuotas, ResourceQuota]]:
    """The quotas of a queue: the path of each, its flavor, and the quota."""
    for where, _, flavor in flavors(path, queue):
        for place, quota in each(f"{where}.resources", flavor.resources):
            yield place, flavor, quota
