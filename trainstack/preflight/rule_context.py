"""Contexts that the rules examine: an environment, and an environment with its project's files."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol, TypeVar

from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import Model
from trainstack.kueue.model import Workload as Submission
from trainstack.kueue.resource_node import CohortTree
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.verdicts import idle_verdicts
from trainstack.kueue.workloads import run_workloads
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import LaunchedPods, RunPodSet
from trainstack.runs.status.queued_workloads import launched_pod_sets, pod_sets, pod_sets_by_setting, queued_workloads
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import ExistingVolume
from trainstack.settings.sections.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from trainstack.settings.sections.storage import Volume
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import Mount, Workload
from trainstack.settings.values.paths import named_element_paths
from trainstack.stack_objects.stack_objects import StackObjects

AccessModesByVolume = Mapping[tuple[str, str], Collection[str]]
"""Access modes by the namespace and the name of the volume."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def with_paths(path: str, items: Sequence[T]) -> Iterator[tuple[str, T]]:
    """Yield the elements of a list of settings, with their paths."""
    return zip(named_element_paths(path, [item.name for item in items]), items, strict=True)


@dataclass(frozen=True)
class EnvironmentContext:
    """An environment. Its methods yield parts of the settings, with their paths."""

    stack_objects: StackObjects

    @property
    def settings(self) -> Settings:
        return self.stack_objects.settings

    def runs(self) -> Iterator[tuple[str, Workload]]:
        """Yield the runs, and for each sweep one trial or its Indexed Job."""
        return queued_workloads(self.settings)

    def pod_sets(self) -> Iterator[tuple[str, Workload, RunPodSet]]:
        """Yield the pod sets of all runs, with the path of the run."""
        for path, run in self.runs():
            for pods in pod_sets(path, run):
                yield path, run, pods

    def pods_by_setting(self, field: str) -> Iterator[tuple[str, Workload, RunPodSet]]:
        """Yield the paths at which a setting of pods applies, each with its run and its first pod set."""
        for run_path, run in self.runs():
            for path, pods in pod_sets_by_setting(run_path, run, field).items():
                yield path, run, pods

    def mounts(self) -> Iterator[tuple[Callable[[str], str], Workload, Mount]]:
        """Yield the mounts of all pods, each with its run and a function from a field of it to the field's path."""
        for _, run, pods in self.pod_sets():
            for index, mount in enumerate(pods.mounts):
                yield partial(pods.mount_path, index), run, mount

    def scratch_classes(self) -> Iterator[tuple[str, str]]:
        """Yield the StorageClasses that scratch volumes name, with the path of the setting."""
        for path, _, pods in self.pods_by_setting("scratch"):
            for volume_path, volume in with_paths(path, pods.settings.scratch):
                if volume.storage_class is not None:
                    yield f"{volume_path}.storageClass", volume.storage_class

    def sweeps(self) -> Iterator[tuple[str, Sweep]]:
        return with_paths("sweeps.sweeps", self.settings.sweeps.sweeps)

    def volumes(self) -> Iterator[tuple[str, Volume]]:
        return with_paths("storage.volumes", self.settings.storage.volumes)

    def existing_volumes(self) -> Iterator[tuple[str, ExistingVolume]]:
        return with_paths("environment.existing.volumes", self.settings.environment.existing.volumes)

    @property
    def access_modes(self) -> AccessModesByVolume:
        """The access modes of the volumes that runs can mount; () if the files do not show them."""
        return {
            (volume.namespace, volume.name): volume.access_modes or () for volume in self.settings.mountable_volumes
        }

    def local_queues(self) -> Iterator[tuple[str, LocalQueue]]:
        return with_paths("queues.localQueues", self.settings.queues.local_queues)

    def flavors(self) -> Iterator[tuple[str, ResourceFlavor]]:
        return with_paths("queues.flavors", self.settings.queues.flavors)

    def cluster_queues(self) -> Iterator[tuple[str, ClusterQueue]]:
        return with_paths("queues.clusterQueues", self.settings.queues.cluster_queues)

    def quota_holders(self) -> Iterator[tuple[str, ClusterQueue | Cohort]]:
        yield from self.cluster_queues()
        yield from with_paths("queues.cohorts", self.settings.queues.cohorts)

    def flavor_quotas(self) -> Iterator[tuple[str, ClusterQueue | Cohort, ResourceGroup, FlavorQuotas]]:
        for path, holder in self.quota_holders():
            for index, group in enumerate(holder.resource_groups):
                for flavor_path, flavor in with_paths(f"{path}.resourceGroups[{index}].flavors", group.flavors):
                    yield flavor_path, holder, group, flavor

    def quotas(self) -> Iterator[tuple[str, ClusterQueue | Cohort, FlavorQuotas, ResourceQuota]]:
        for flavor_path, holder, _, flavor in self.flavor_quotas():
            for path, quota in with_paths(f"{flavor_path}.resources", flavor.resources):
                yield path, holder, flavor, quota


def built_pod_sets(context: EnvironmentContext, path: str, run: Workload) -> Iterator[tuple[RunPodSet, LaunchedPods]]:
    """Yield the pod sets of a run with the pods of its manifest; none if the manifest cannot be built."""
    try:
        launch, companions = context.stack_objects.queued_objects(run)
    except WorkloadError:
        return  # Other rules report it.
    yield from launched_pod_sets(path, run, launch, companions)


@dataclass(frozen=True)
class RuleContext(EnvironmentContext):
    """An environment, and the project folder to which its paths are relative."""

    root: Path

    @property
    def owns_platform(self) -> bool:
        """Whether this stack declares all queues and classes, so that an undeclared name does not exist."""
        environment = self.settings.environment
        return environment.profile == "owner" and "platform" in environment.layers

    @cached_property
    def model(self) -> Model:
        """Kueue's queues, flavors and other inputs of admission, as far as the files declare them."""
        return stack_model(self.stack_objects)

    @cached_property
    def submissions(self) -> tuple[Submission, ...]:
        """The queued runs as Kueue counts them, without those whose manifests cannot be built."""
        return run_workloads(self.stack_objects, self.model)

    @cached_property
    def cohort_tree(self) -> CohortTree:
        """The quotas of the declared queues and cohorts."""
        return CohortTree(self.model)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """A verdict per queued run: whether Kueue would admit it on an idle cluster."""
        return idle_verdicts(self.stack_objects, self.model, self.submissions)
