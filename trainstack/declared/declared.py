"""The objects that an environment declares. Pure, except for `StackObjects.from_files`.

Components, `render`, guards, preflight, review and rights share one `StackObjects`, so each object is built once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from trainstack.declared import operators
from trainstack.declared.component import Component, DeclaredObject, staged
from trainstack.declared.inputs import CACHE, Inputs, read_inputs
from trainstack.declared.launches import LaunchGroup, first_launches
from trainstack.objects.labels import Manifest
from trainstack.platform import namespaces, networks, queues, secrets, storage, tenants
from trainstack.platform.operators.install import OperatorManifests, in_order, pinned
from trainstack.platform.retained import Retained, retained
from trainstack.runs.identity import UNKNOWN_FACTS, Facts, run_id
from trainstack.runs.launch import Launch
from trainstack.runs.ledgers import Ledger, wrapper_config_map, wrapper_reference
from trainstack.runs.manifests.build import companions, dispatched, manifest, plan
from trainstack.runs.manifests.trial_names import Trial
from trainstack.runs.manifests.trial_names import trials as trials_of
from trainstack.runs.status.kinds import optional_kinds
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.sweeps.launches import PlannedSweep


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


class Declared:
    """The objects of an environment by component, built when they are first read, and cached.

    Building raises OperatorError or WorkloadError if the settings contradict a release or a kind of workload. Without
    `inputs`, the parts that depend on releases, images, data or the wrapper raise AssertionError.
    """

    def __init__(self, settings: Settings, inputs: Inputs | None = None) -> None:
        self.settings = settings
        self._inputs = inputs
        self._planned: dict[tuple[str, str], PlannedRun] = {}
        self._queued: dict[tuple[str, str], tuple[Manifest, tuple[Manifest, ...]]] = {}

    @classmethod
    def from_files(cls, settings: Settings, root: Path, *, commit: str = "", cached: bool = True) -> Self:
        """Read the inputs of an environment of the project at `root`.

        `commit`: the commit that runs are recorded with. `use_cache`: whether parsed releases are stored below `root`.
        Raises InputsError and ReleasesError.
        """
        return cls(settings, read_inputs(settings, root, commit=commit, cache=root / CACHE if cached else None))

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
        kept = {item.name for item in retained(self.settings) if item.kind == "Namespace"}
        objects: list[DeclaredObject] = []
        for declared in self.settings.environment.namespaces:
            retain = declared.name in kept
            manifest = namespaces.namespace(declared, self.settings.stack, retain=retain)
            objects.append(DeclaredObject(manifest, retain=retain))
            objects += [
                DeclaredObject(policy, (manifest,)) for policy in networks.policies(declared, self.settings.stack)
            ]
        return Component(tuple(objects))

    @cached_property
    def tenants(self) -> Component:
        teams, optional = self.settings.tenants.teams, optional_kinds(self.settings)
        return staged(manifest for team in teams for manifest in tenants.rights(team, self.settings.stack, optional))

    @cached_property
    def storage_classes(self) -> Component:
        """The storage classes, followed by the persistent volumes."""
        declared, stack = self.settings.storage, self.settings.stack
        return staged(
            (storage.storage_class(storage_class, stack) for storage_class in declared.classes),
            (storage.persistent_volume(volume, stack) for volume in declared.persistent_volumes),
            retained=("PersistentVolume",),
        )

    @cached_property
    def secrets(self) -> Component:
        return staged(secrets.secret(declared, self.settings.stack) for declared in self.settings.secrets.secrets)

    @cached_property
    def unpinned_operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with the images of the settings."""
        return operators.operators(self.settings, self.inputs.releases)

    @cached_property
    def operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with pinned images."""
        pin = self.settings.pinned
        return {name: pinned(manifests, pin) for name, manifests in self.unpinned_operators.items()}

    @cached_property
    def definitions(self) -> Component:
        return operators.definitions(self.operators)

    @cached_property
    def installs(self) -> Mapping[str, Component]:
        """The objects of each operator except its CRDs, in the order of their installation."""
        kept = {item.name for item in self.retained if item.kind == "Namespace"}
        return {name: operators.operator(manifests, kept) for name, manifests in self.operators.items()}

    @cached_property
    def retained(self) -> tuple[Retained, ...]:
        return tuple(retained(self.settings, in_order(self.operators.values())))

    @cached_property
    def queues(self) -> Component:
        """Kueue's objects, referenced ones first. Each queue depends only on the objects that it refers to."""
        declared, stack = self.settings.queues, self.settings.stack
        priority_classes = (queues.priority_class(priority, stack) for priority in declared.priority_classes)
        cohorts = [queues.cohort(cohort, stack) for cohort in declared.cohorts]
        flavors = [queues.resource_flavor(flavor, stack) for flavor in declared.flavors]
        topologies = [queues.topology(topology, stack) for topology in declared.topologies]
        configs = declared.provisioning_request_configs
        parameters = [
            *(queues.provisioning_request_config(config, stack) for config in configs),
            *(queues.multi_kueue_cluster(cluster, stack) for cluster in declared.multi_kueue_clusters),
            *(queues.multi_kueue_config(config, stack) for config in declared.multi_kueue_configs),
        ]
        checks = [queues.admission_check(check, stack) for check in declared.admission_checks]
        cluster_queues = [queues.cluster_queue(queue, stack) for queue in declared.cluster_queues]
        local_queues = [queues.local_queue(queue, stack) for queue in declared.local_queues]
        first = staged([*topologies, *parameters], [*cohorts, *flavors, *checks])
        # In stages, each queue would depend on all objects before it, and wait for unrelated ones.
        known = {(item["kind"], item["metadata"]["name"]): item for item in (*first.manifests, *cluster_queues)}
        referring = (
            DeclaredObject(queue, tuple(known[other] for other in queues.references(queue) if other in known))
            for queue in (*cluster_queues, *local_queues)
        )
        return Component((*map(DeclaredObject, priority_classes), *first.objects, *referring))

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
        return tuple(map(self._plan, self.settings.workloads.runs))

    @cached_property
    def trials(self) -> Mapping[str, Mapping[str, Trial]]:
        """The trials of each sweep by run id, in the order of their numbers."""
        result = {}
        for sweep in self.settings.sweeps.sweeps:
            shared = self.facts(sweep.run)
            result[sweep.name] = {run_id(trial.workload, trial.facts(shared)): trial for trial in trials_of(sweep)}
        return result

    @cached_property
    def sweeps(self) -> tuple[PlannedSweep, ...]:
        """The sweeps with the launches that the current files result in."""
        return tuple(
            PlannedSweep(
                sweep,
                self.settings.stack,
                self.facts(sweep.run),
                self.trials[sweep.name],
                dispatches=self.settings.queues.dispatches(sweep.run.namespace, sweep.run.queue),
            )
            for sweep in self.settings.sweeps.sweeps
        )

    @cached_property
    def launches(self) -> tuple[LaunchGroup, ...]:
        """The launches of a cluster that has none yet: those of the runs, then those of each sweep."""
        stack, ledgers = self.settings.stack, tuple(run.ledger for run in self.runs)
        used = {workload.namespace for _, workload in self.settings.trained() if workload.managed}
        used |= {*self.settings.workloads.receives}
        wrappers = tuple(wrapper_config_map(namespace, stack, self.inputs.wrapper) for namespace in sorted(used))
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
    def before_launches(self) -> tuple[Component, ...]:
        layers = self.settings.environment.layers
        own_secrets = () if "platform" in layers else (self.secrets,)
        return (*self.platform, *own_secrets, *((self.volumes,) if "training" in layers else ()))

    def manifests(self, launches: Sequence[LaunchGroup] | None = None) -> list[Manifest]:
        """Return all objects of the stack in the order of creation. `launches`: by default, those of a new cluster."""
        if launches is None:
            launches = self.launches if "training" in self.settings.environment.layers else ()
        return [
            *(manifest for component in self.before_launches for manifest in component.manifests),
            *(manifest for group in launches for manifest in group.manifests),
        ]

    def queued(self, workload: Workload) -> tuple[Manifest, tuple[Manifest, ...]]:
        """Return the object that Kueue admits for a run or a trial, and the objects that it refers to.

        Admission does not depend on the inputs, so they are optional here. Raises WorkloadError.
        """
        key = workload.namespace, workload.name
        if key not in self._queued:
            # A run's own launch is built anyway. A trial, or a run without inputs, gets a launch with unknown facts.
            if self._inputs is not None and any(run is workload for run in self.settings.workloads.runs):
                run = self._plan(workload)
                self._queued[key] = run.manifest, run.companions
            else:
                launch = Launch(run_id=workload.name, name=workload.name, facts=UNKNOWN_FACTS)
                stack = self.settings.stack
                self._queued[key] = manifest(workload, stack, launch), companions(workload, stack, launch)
        return self._queued[key]

    def facts(self, workload: Workload) -> Facts:
        """Return the facts that a workload's launch depends on in addition to its settings, with pinned images."""
        settings, inputs = self.settings, self.inputs
        return Facts(
            image=settings.pinned(self.image(workload)),
            data_digest=None if workload.data is None else inputs.data_digests[workload.data.manifest],
            wrapper=wrapper_reference(inputs.wrapper),
            commit=inputs.commit,
            git_image=None if workload.code is None else settings.pinned(settings.cluster.git_image),
        )

    def image(self, workload: Workload) -> str:
        """Return the reference of a workload's image: its name, or the tag for the content of the folder to build."""
        return workload.image.name or self.inputs.images[workload.image.build or ""]

    def _plan(self, workload: Workload) -> PlannedRun:
        key, stack = (workload.namespace, workload.name), self.settings.stack
        if key not in self._planned:
            launch = plan(workload, stack, self.facts(workload))
            launched = manifest(workload, stack, launch)
            if self.settings.queues.dispatches(workload.namespace, workload.queue):
                launched = dispatched(workload, launched)
            self._planned[key] = PlannedRun(
                workload=workload,
                launch=launch,
                manifest=launched,
                companions=companions(workload, stack, launch),
            )
        return self._planned[key]
