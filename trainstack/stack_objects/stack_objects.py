"""The objects that an environment declares. Pure, except for `StackObjects.from_files`.

Components, `render`, guards, preflight, review and rights share one `StackObjects`, so each object is built once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Self

from trainstack.objects.labels import Manifest
from trainstack.platform import namespaces, networks, other_objects, queues, secrets, storage, teams
from trainstack.platform.operators.install import OperatorManifests, manifests_in_order, pin_images
from trainstack.platform.retained import RetainedObject, is_retained, list_retained_objects
from trainstack.runs.identity import PLACEHOLDER_FACTS, Facts, run_id
from trainstack.runs.launch import Launch
from trainstack.runs.ledgers import Ledger, wrapper_config_map, wrapper_reference
from trainstack.runs.manifests.build import companions, dispatched_launch, manifest, plan_launch
from trainstack.runs.manifests.kind import Body
from trainstack.runs.manifests.trainjob import is_countable
from trainstack.runs.manifests.trials import Trial
from trainstack.runs.manifests.trials import trials as trials_of
from trainstack.runs.manifests.user_manifest import first_image, images_of_manifest
from trainstack.runs.status.launch_kinds import optional_kinds
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME, Workload
from trainstack.stack_objects import operators
from trainstack.stack_objects.component import Component, DeclaredObject, component_from_stages
from trainstack.stack_objects.inputs import CACHE_FOLDER, Inputs, read_inputs
from trainstack.stack_objects.launch_groups import LaunchGroup, first_launches
from trainstack.sweeps.planned_sweep import PlannedSweep


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run with the launch that the current files result in, and its objects."""

    workload: Workload
    launch: Launch
    manifest: Manifest
    companions: tuple[Manifest, ...] = ()

    @property
    def ledger(self) -> Ledger:
        return Ledger(
            run_id=self.launch.run_id,
            workload=self.workload.name,
            namespace=self.workload.namespace,
            attempt=self.workload.attempt,
            launch_name=self.launch.name,
            launch=self.manifest,
            companions=self.companions,
        )


class StackObjects:
    """The objects of an environment by component, built when they are first read, and cached.

    Building raises OperatorError or WorkloadError if the settings contradict a release or a kind of workload. Without
    `inputs`, the parts that depend on releases, images, data or the wrapper raise AssertionError. `runtimes`: the
    ClusterTrainingRuntimes of the cluster by name, as far as they were read.
    """

    def __init__(
        self, settings: Settings, inputs: Inputs | None = None, runtimes: Mapping[str, Body] = MappingProxyType({})
    ) -> None:
        self.settings = settings
        self._inputs = inputs
        self._runtimes = runtimes
        self._planned_runs: dict[tuple[str, str], PlannedRun] = {}
        self._queued_objects: dict[tuple[str, str], tuple[Manifest, tuple[Manifest, ...]]] = {}

    @classmethod
    def from_files(cls, settings: Settings, root: Path, *, commit: str = "", use_cache: bool = True) -> Self:
        """Read the inputs of an environment of the project at `root`.

        `commit`: the commit that runs are recorded with. `use_cache`: whether parsed releases are stored below `root`.
        Raises InputsError and ReleasesError.
        """
        return cls(
            settings, read_inputs(settings, root, commit=commit, cache=root / CACHE_FOLDER if use_cache else None)
        )

    @property
    def has_inputs(self) -> bool:
        return self._inputs is not None

    @property
    def inputs(self) -> Inputs:
        if self._inputs is None:
            raise AssertionError("this part of an environment requires its inputs")
        return self._inputs

    @cached_property
    def namespaces(self) -> Component:
        """The namespaces, each followed by its NetworkPolicies."""
        retained_namespaces = {item.name for item in list_retained_objects(self.settings) if item.kind == "Namespace"}
        objects: list[DeclaredObject] = []
        for namespace in self.settings.environment.namespaces:
            retain = namespace.name in retained_namespaces
            manifest = namespaces.namespace(namespace, self.settings.stack, retain=retain)
            objects.append(DeclaredObject(manifest, retain=retain))
            objects += [
                DeclaredObject(policy, (manifest,))
                for policy in networks.network_policies(namespace, self.settings.stack)
            ]
        return Component(tuple(objects))

    @cached_property
    def tenants(self) -> Component:
        optional_launch_kinds = optional_kinds(self.settings)
        return component_from_stages(
            manifest
            for team in self.settings.tenants.teams
            for manifest in teams.team_manifests(team, self.settings.stack, optional_launch_kinds)
        )

    @cached_property
    def storage_classes(self) -> Component:
        """The storage classes, followed by the persistent volumes."""
        storage_settings, stack = self.settings.storage, self.settings.stack
        return component_from_stages(
            (storage.storage_class(storage_class, stack) for storage_class in storage_settings.classes),
            (storage.persistent_volume(volume, stack) for volume in storage_settings.persistent_volumes),
            retained_kinds=("PersistentVolume",),
        )

    @cached_property
    def secrets(self) -> Component:
        return component_from_stages(
            secrets.secret(secret, self.settings.stack) for secret in self.settings.secrets.secrets
        )

    @cached_property
    def other_manifests(self) -> tuple[Manifest, ...]:
        """The objects of section `objects` in the order of the settings."""
        return other_objects.manifests(self.settings)

    @cached_property
    def other_objects(self) -> Component:
        """The objects of section `objects`; those that others may use come first."""
        used = tuple(manifest for manifest in self.other_manifests if not other_objects.uses_others(manifest))
        using = tuple(manifest for manifest in self.other_manifests if other_objects.uses_others(manifest))
        return Component(
            tuple(
                DeclaredObject(manifest, dependencies, retain=is_retained(manifest["kind"], manifest["metadata"]))
                for stage, dependencies in ((used, ()), (using, used))
                for manifest in stage
            )
        )

    @cached_property
    def unpinned_operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with the images of the settings."""
        return operators.operator_manifests(self.settings, self.inputs.releases)

    @cached_property
    def operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with pinned images."""
        pin = self.settings.pinned_reference
        return {name: pin_images(manifests, pin) for name, manifests in self.unpinned_operators.items()}

    @cached_property
    def definitions(self) -> Component:
        return operators.definitions_component(self.operators)

    @cached_property
    def installs(self) -> Mapping[str, Component]:
        """The objects of each operator except its CRDs, in the order of their installation."""
        retained_namespaces = {item.name for item in self.retained_objects if item.kind == "Namespace"}
        return {
            name: operators.operator_component(manifests, retained_namespaces)
            for name, manifests in self.operators.items()
        }

    @cached_property
    def retained_objects(self) -> tuple[RetainedObject, ...]:
        return tuple(list_retained_objects(self.settings, manifests_in_order(self.operators.values())))

    @cached_property
    def queues(self) -> Component:
        """Kueue's objects, referenced ones first. Each queue depends only on the objects that it refers to."""
        queue_settings, stack = self.settings.queues, self.settings.stack
        priority_classes = (queues.priority_class(priority, stack) for priority in queue_settings.priority_classes)
        cohorts = [queues.cohort(cohort, stack) for cohort in queue_settings.cohorts]
        flavors = [queues.resource_flavor(flavor, stack) for flavor in queue_settings.flavors]
        topologies = [queues.topology(topology, stack) for topology in queue_settings.topologies]
        configs = queue_settings.provisioning_request_configs
        parameters = [
            *(queues.provisioning_request_config(config, stack) for config in configs),
            *(queues.multi_kueue_cluster(cluster, stack) for cluster in queue_settings.multi_kueue_clusters),
            *(queues.multi_kueue_config(config, stack) for config in queue_settings.multi_kueue_configs),
        ]
        checks = [queues.admission_check(check, stack) for check in queue_settings.admission_checks]
        cluster_queues = [queues.cluster_queue(queue, stack) for queue in queue_settings.cluster_queues]
        local_queues = [queues.local_queue(queue, stack) for queue in queue_settings.local_queues]
        prerequisites = component_from_stages([*topologies, *parameters], [*cohorts, *flavors, *checks])
        # In stages, each queue would depend on all objects before it, and wait for unrelated ones.
        manifests_by_key = {
            (item["kind"], item["metadata"]["name"]): item for item in (*prerequisites.manifests, *cluster_queues)
        }
        queue_objects = (
            DeclaredObject(
                queue,
                tuple(
                    manifests_by_key[reference]
                    for reference in queues.references(queue)
                    if reference in manifests_by_key
                ),
            )
            for queue in (*cluster_queues, *local_queues)
        )
        return Component((*map(DeclaredObject, priority_classes), *prerequisites.objects, *queue_objects))

    @cached_property
    def volumes(self) -> Component:
        claims = (
            DeclaredObject(storage.claim(volume, self.settings.stack), retain=volume.retain, protect=volume.protect)
            for volume in self.settings.storage.volumes
        )
        return Component(tuple(claims))

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """The runs with the launches that the current files result in."""
        return tuple(map(self._plan_run, self.settings.workloads.runs))

    @cached_property
    def trials(self) -> Mapping[str, Mapping[str, Trial]]:
        """The trials of each sweep by run id, in the order of their numbers."""
        trials_by_sweep = {}
        for sweep in self.settings.sweeps.sweeps:
            shared_facts = self.facts(sweep.run)
            trials_by_sweep[sweep.name] = {
                run_id(trial.workload, trial.facts(shared_facts)): trial for trial in trials_of(sweep)
            }
        return trials_by_sweep

    @cached_property
    def sweeps(self) -> tuple[PlannedSweep, ...]:
        """The sweeps with the launches that the current files result in."""
        return tuple(
            PlannedSweep(
                sweep,
                self.settings.stack,
                self.facts(sweep.run),
                self.trials[sweep.name],
                dispatches=self.settings.queues.is_dispatched(sweep.run.namespace, sweep.run.queue),
            )
            for sweep in self.settings.sweeps.sweeps
        )

    @cached_property
    def launches(self) -> tuple[LaunchGroup, ...]:
        """The launches of a cluster that has none yet: those of the runs, then those of each sweep."""
        stack, ledgers = self.settings.stack, tuple(run.ledger for run in self.runs)
        wrapper_namespaces = {workload.namespace for _, workload in self.settings.runs_and_trials() if workload.managed}
        wrapper_namespaces |= {*self.settings.workloads.receives}
        wrappers = tuple(
            wrapper_config_map(namespace, stack, self.inputs.wrapper) for namespace in sorted(wrapper_namespaces)
        )
        runs = LaunchGroup(stack=stack, files=wrappers, launches=ledgers, ledgers=ledgers)
        return (runs, *map(first_launches, self.sweeps))

    @property
    def platform(self) -> tuple[Component, ...]:
        """The components of the platform in the order of creation; empty if another stack declares the platform."""
        if "platform" not in self.settings.environment.layers:
            return ()
        return (
            self.namespaces,
            self.tenants,
            self.storage_classes,
            self.secrets,
            self.definitions,
            *self.installs.values(),
            self.queues,
        )

    @property
    def components_before_launches(self) -> tuple[Component, ...]:
        layers = self.settings.environment.layers
        secret_components = () if "platform" in layers else (self.secrets,)
        return (
            *self.platform,
            *secret_components,
            self.other_objects,
            *((self.volumes,) if "training" in layers else ()),
        )

    def manifests(self, launches: Sequence[LaunchGroup] | None = None) -> list[Manifest]:
        """Return all objects of the stack in the order of creation. `launches`: by default, those of a new cluster."""
        if launches is None:
            launches = self.launches if "training" in self.settings.environment.layers else ()
        return [
            *(manifest for component in self.components_before_launches for manifest in component.manifests),
            *(manifest for group in launches for manifest in group.manifests),
        ]

    def queued_objects(self, workload: Workload) -> tuple[Manifest, tuple[Body, ...]]:
        """Return the object that Kueue admits for a run or a trial, and the objects that it refers to.

        Admission does not depend on the inputs, so they are optional here. A ClusterTrainingRuntime that was not read
        is left out. Raises WorkloadError.
        """
        key = workload.namespace, workload.name
        if key not in self._queued_objects:
            # A run's own launch is built anyway. A trial, or a run without inputs, gets a launch with unknown facts.
            if self._inputs is not None and any(run is workload for run in self.settings.workloads.runs):
                run = self._plan_run(workload)
                self._queued_objects[key] = run.manifest, run.companions
            else:
                launch = Launch(run_id=workload.name, name=workload.name, facts=PLACEHOLDER_FACTS)
                stack = self.settings.stack
                self._queued_objects[key] = manifest(workload, stack, launch), companions(workload, stack, launch)
        launch_object, own_companions = self._queued_objects[key]
        runtime = self._runtime_of(workload)
        return launch_object, own_companions if runtime is None else (runtime,)

    def _runtime_of(self, workload: Workload) -> Body | None:
        """Return the runtime that a TrainJob refers to: one of the cluster that was read, or one under `objects`."""
        reference = workload.runtime_reference
        if reference is None:
            return None
        if reference.kind == CLUSTER_RUNTIME:
            return self._runtimes.get(reference.name)
        identity = (reference.kind, workload.namespace, reference.name)
        return next(
            (
                body
                for body in self.other_manifests
                if (body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"]) == identity
                and is_countable(body)
            ),
            None,
        )

    def facts(self, workload: Workload) -> Facts:
        """Return the facts that a workload's launch depends on in addition to its settings, with pinned images."""
        settings, inputs = self.settings, self.inputs
        return Facts(
            image=settings.pinned_reference(self.image_reference(workload)),
            data_digest=None if workload.data is None else inputs.data_digests[workload.data.manifest],
            wrapper=wrapper_reference(inputs.wrapper),
            commit=inputs.commit,
            pinned_images=self._pinned_images(workload),
            git_image=None if workload.code is None else settings.pinned_reference(settings.cluster.git_image),
        )

    def image_reference(self, workload: Workload) -> str:
        """Return the reference of a workload's image: its name, or the tag for the content of the folder to build."""
        if workload.manifest is not None:
            return first_image(workload)
        return workload.image.name or self.inputs.images[workload.image.build or ""]

    def _pinned_images(self, workload: Workload) -> dict[str, str]:
        """Return the pinned references of the images of a workload's manifest."""
        images = {image.reference for image in images_of_manifest("", workload)}
        references = {image: self.settings.pinned_reference(image) for image in images}
        return {image: reference for image, reference in references.items() if reference != image}

    def _plan_run(self, workload: Workload) -> PlannedRun:
        key, stack = (workload.namespace, workload.name), self.settings.stack
        if key not in self._planned_runs:
            launch = plan_launch(workload, stack, self.facts(workload))
            launch_manifest = manifest(workload, stack, launch)
            if self.settings.queues.is_dispatched(workload.namespace, workload.queue):
                launch_manifest = dispatched_launch(workload, launch_manifest)
            self._planned_runs[key] = PlannedRun(
                workload=workload,
                launch=launch,
                manifest=launch_manifest,
                companions=companions(workload, stack, launch),
            )
        return self._planned_runs[key]
