"""Verdicts on runs with changed settings: the changes are validated and judged as they would be in the files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.from_objects import read_cluster_queue
from trainstack.kueue.model import ClusterQueue, Model
from trainstack.kueue.verdict import Change, Verdict
from trainstack.kueue.workloads import run_workload
from trainstack.platform.queues import cluster_queue
from trainstack.runs.status.queued_workloads import queued_workloads
from trainstack.settings.edits import apply_edits
from trainstack.settings.model import Settings
from trainstack.settings.sections.queues import Queues
from trainstack.settings.sections.sweeps import Sweep, Sweeps
from trainstack.settings.sections.workloads import Workload as Run
from trainstack.settings.sections.workloads import Workloads
from trainstack.settings.values.paths import named_element_paths
from trainstack.stack_objects.stack_objects import StackObjects

Body = Mapping[str, Any]


@dataclass(frozen=True)
class WhatIf:
    """Settings, with the model and the objects by which their runs are judged on an idle cluster."""

    settings: Settings
    model: Model
    queue_bodies: Mapping[str, Body]
    """The cluster queues by name, as objects: the declared ones with the fields that others have set."""

    @cached_property
    def idle_simulator(self) -> AdmissionSimulator:
        """The simulator of the settings as they are."""
        return AdmissionSimulator(self.model)

    @cached_property
    def runs(self) -> Mapping[str, Run]:
        """The runs by path, as they are queued."""
        return dict(queued_workloads(self.settings))

    @cached_property
    def sweeps(self) -> Mapping[str, Sweep]:
        """The sweeps by the paths of their runs."""
        sweeps = self.settings.sweeps.sweeps
        paths = named_element_paths("sweeps.sweeps", [sweep.name for sweep in sweeps])
        return {f"{path}.run": sweep for path, sweep in zip(paths, sweeps, strict=True)}

    def verdict(self, path: str, changes: Iterable[Change]) -> Verdict | None:
        """Return the verdict on the run at a path; None if the changed settings do not load, or build no run.

        Changes are of the run, its sweep, and cluster queues.
        """
        settings = self._settings_of_run(path)
        ((path_alone, _),) = queued_workloads(settings)
        # A sweep has settings of its own besides those of its run.
        prefix, prefix_alone = (run_path.removesuffix(".run") for run_path in (path, path_alone))
        edits = [
            (
                prefix_alone + change.path.removeprefix(prefix) if change.path.startswith(prefix) else change.path,
                change.after,
            )
            for change in changes
        ]
        try:
            settings = apply_edits(settings, edits)
        except ValueError:
            return None
        simulator = self._simulator(settings)
        ((_, run),) = queued_workloads(settings)
        workload = run_workload(StackObjects(settings), simulator.model, path, run)
        return None if workload is None else simulator.idle_verdict(workload)

    def simulator_with_queue(self, queue: ClusterQueue) -> AdmissionSimulator:
        """Return a simulator with another cluster queue of the same name."""
        tree = self.idle_simulator.idle_snapshot.tree
        root, queues = tree.queues[queue.name].root, self.model.cluster_queues or {}
        # On an idle cluster, the queues of other root cohorts have no effect.
        related = {name: related_queue for name, related_queue in queues.items() if tree.queues[name].root is root}
        return AdmissionSimulator(replace(self.model, cluster_queues={**related, queue.name: queue}))

    @cached_property
    def _cluster_queues(self) -> Queues:
        return Queues(cluster_queues=self.settings.queues.cluster_queues)

    def _settings_of_run(self, path: str) -> Settings:
        """Return the settings of one run and the cluster queues: all others need not be validated again."""
        stack, queues = self.settings.stack, self._cluster_queues
        if path in self.sweeps:
            return Settings(stack=stack, queues=queues, sweeps=Sweeps(sweeps=(self.sweeps[path],)))
        return Settings(stack=stack, queues=queues, workloads=Workloads(runs=(self.runs[path],)))

    def _simulator(self, settings: Settings) -> AdmissionSimulator:
        """Return the simulator of changed settings, of whose queues at most one cluster queue is changed."""
        if settings.queues is self._cluster_queues:
            return self.idle_simulator
        pairs = zip(self._cluster_queues.cluster_queues, settings.queues.cluster_queues, strict=True)
        changed_queue = next(new_queue for old_queue, new_queue in pairs if new_queue is not old_queue)
        body, live_body = cluster_queue(changed_queue, settings.stack), self.queue_bodies[changed_queue.name]
        spec = {**live_body["spec"], **body["spec"]}
        return self.simulator_with_queue(read_cluster_queue({**live_body, "spec": spec}, self.model))
