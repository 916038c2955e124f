"""The objects that an environment declares. Pure, except for `Declared.from_files`.

Components, `render`, guards, preflight, review and rights share one `Declared`, so that each object is built once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from trainstack.declared import platform
from trainstack.declared.component import Component
from trainstack.declared.inputs import CACHE, Inputs, read_inputs
from trainstack.declared.launches import LaunchGroup, first_launches
from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import OperatorManifests, in_order, pinned
from trainstack.platform.retained import Retained, retained
from trainstack.runs.identity import UNKNOWN_FACTS, Facts, run_id
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import companions, manifest, plan
from trainstack.runs.manifests.trial_names import PlannedTrial
from trainstack.runs.manifests.trial_names import trials as trials_of
from trainstack.runs.records import Ledger, wrapper_config_map, wrapper_reference
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload
from trainstack.sweeps.launches import PlannedSweep


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
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
    """The objects of an environment by component, built lazily and cached.

    Building raises OperatorError or WorkloadError if the settings contradict a release or a kind of workload. Without
    `inputs`, only `namespaces`, `queues` and `queued` are available.
    """

    def __init__(self, settings: Settings, inputs: Inputs | None = None) -> None:
        self.settings = settings
        self._inputs = inputs
        self._planned: dict[tuple[str, str], PlannedRun] = {}
        self._queued: dict[tuple[str, str], tuple[Manifest, tuple[Manifest, ...]]] = {}

    @classmethod
    def from_files(cls, settings: Settings, root: Path, *, commit: str = "", cached: bool = True) -> Self:
        """Read the inputs of an environment of the project at `root`.

        `commit` is recorded with runs; `cached` keeps parsed releases below `root`. Raises InputsError and
        ReleasesError.
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
        kept = {item.name for item in retained(self.settings) if item.kind == "Namespace"}
        return platform.namespaces(self.settings.environment.namespaces, self.settings.stack, kept)

    @cached_property
    def tenants(self) -> Component:
        return platform.tenants(self.settings.tenants.teams, self.settings.stack)

    @cached_property
    def storage_classes(self) -> Component:
        storage = self.settings.storage
        return platform.storage_classes(storage.classes, storage.persistent_volumes, self.settings.stack)

    @cached_property
    def secrets(self) -> Component:
        return platform.secrets(self.settings.secrets.secrets, self.settings.stack)

    @cached_property
    def unpinned_operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with the images of the settings."""
        settings = self.settings
        names = [namespace.name for namespace in settings.environment.namespaces]
        return platform.operators(settings.operators, self.inputs.releases, settings.stack, names, settings.pinned)

    @cached_property
    def operators(self) -> Mapping[str, OperatorManifests]:
        """The operators by name, in the order of their installation, with pinned images."""
        pin = self.settings.pinned
        return {name: pinned(manifests, pin) for name, manifests in self.unpinned_operators.items()}

    @cached_property
    def definitions(self) -> Component:
        return platform.definitions(self.operators)

    @cached_property
    def installs(self) -> Mapping[str, Component]:
        """The objects of each operator except its CRDs, in the order of their installation."""
        kept = {item.name for item in self.retained if item.kind == "Namespace"}
        return {name: platform.operator(manifests, kept) for name, manifests in self.operators.items()}

    @cached_property
    def retained(self) -> tuple[Retained, ...]:
        return tuple(retained(self.settings, in_order(self.operators.values())))

    @cached_property
    def queues(self) -> Component:
        return platform.queues(self.settings.queues, self.settings.stack)

    @cached_property
    def volumes(self) -> Component:
        return platform.claims(self.settings.storage.volumes, self.settings.stack)

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """The runs with the launches that they would have now."""
        return tuple(map(self._plan, self.settings.workloads.runs))

    @cached_property
    def trials(self) -> Mapping[str, tuple[PlannedTrial, ...]]:
        """The trials of each sweep in the order of their numbers."""
        result = {}
        for sweep in self.settings.sweeps.sweeps:
            shared = self.facts(sweep.run)
            planned = []
            for trial in trials_of(sweep):
                own = replace(shared, parameter_set=trial.parameter_set)
                planned.append(PlannedTrial(trial=trial, run_id=run_id(trial.workload, own), facts=own))
            result[sweep.name] = tuple(planned)
        return result

    @cached_property
    def sweeps(self) -> tuple[PlannedSweep, ...]:
        """The sweeps with the launches that they would have now."""
        return tuple(
            PlannedSweep(sweep, self.settings.stack, self.facts(sweep.run), self.trials[sweep.name])
            for sweep in self.settings.sweeps.sweeps
        )

    @cached_property
    def launches(self) -> tuple[LaunchGroup, ...]:
        """The launches in a cluster without any: the runs, then each sweep."""
        stack, ledgers = self.settings.stack, tuple(run.ledger for run in self.runs)
        used = sorted({workload.namespace for _, workload in self.settings.trained() if workload.managed})
        wrappers = tuple(wrapper_config_map(namespace, stack, self.inputs.wrapper) for namespace in used)
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
        """Return all objects of the stack in the order of creation. `launches`: by default those of a new cluster."""
        if launches is None:
            launches = self.launches if "training" in self.settings.environment.layers else ()
        return [
            *(manifest for component in self.before_launches for manifest in component.manifests),
            *(manifest for group in launches for manifest in group.manifests),
        ]

    def queued(self, workload: Workload) -> tuple[Manifest, tuple[Manifest, ...]]:
        """Return the object that Kueue admits for a run, or for a trial, and the objects that it refers to.

        Admission does not depend on the inputs. Raises WorkloadError.
        """
        key = workload.namespace, workload.name
        if key not in self._queued:
            self._queued[key] = self._build(workload)
        return self._queued[key]

    def facts(self, workload: Workload) -> Facts:
        """Return what a workload's launch depends on in addition to its settings, with pinned images."""
        settings, inputs = self.settings, self.inputs
        return Facts(
            image=settings.pinned(self.image(workload)),
            data_digest=None if workload.data is None else inputs.data_digests[workload.data.manifest],
            wrapper=wrapper_reference(inputs.wrapper),
            commit=inputs.commit,
            git_image=None if workload.code is None else settings.pinned(settings.cluster.git_image),
        )

    def image(self, workload: Workload) -> str:
        """Return the reference of a workload's image: its name, or the tag for its folder's content."""
        return workload.image.name or self.inputs.images[workload.image.build or ""]

    def _plan(self, workload: Workload) -> PlannedRun:
        key, stack = (workload.namespace, workload.name), self.settings.stack
        if key not in self._planned:
            launch = plan(workload, stack, self.facts(workload))
            self._planned[key] = PlannedRun(
                workload=workload,
                launch=launch,
                manifest=manifest(workload, stack, launch),
                companions=companions(workload, stack, launch),
            )
        return self._planned[key]

    def _build(self, workload: Workload) -> tuple[Manifest, tuple[Manifest, ...]]:
        if self._inputs is not None and any(run is workload for run in self.settings.workloads.runs):
            run = self._plan(workload)
            return run.manifest, run.companions
        stack, launch = self.settings.stack, Launch(run_id=workload.name, name=workload.name, facts=UNKNOWN_FACTS)
        return manifest(workload, stack, launch), companions(workload, stack, launch)
