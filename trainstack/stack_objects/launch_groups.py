"""The launches of all runs or of one sweep, with their ConfigMaps and ledgers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from trainstack.objects.labels import Manifest
from trainstack.runs.ledgers import Ledger, ledger_config_map
from trainstack.runs.parameter_file import parameter_config_map, parameter_file_name
from trainstack.sweeps.planned_sweep import PlannedSweep


@dataclass(frozen=True, kw_only=True)
class LaunchGroup:
    """The launches of the runs or of one sweep, and the ConfigMaps that they need."""

    stack: str
    sweep: str | None = None
    """The sweep's name; None for the runs."""
    files: tuple[Manifest, ...] = ()
    """The ConfigMaps that launches mount: wrappers, or the parameter files of a sweep."""
    launches: tuple[Ledger, ...] = ()
    ledgers: tuple[Ledger, ...] = ()
    """The ledgers to keep, including those of earlier launches."""

    @cached_property
    def ledger_config_maps(self) -> Mapping[str, Manifest]:
        return {ledger.launch_name: ledger_config_map(self.stack, ledger) for ledger in self.ledgers}

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """All objects in the order of creation; a launch precedes its ledger."""
        launch_objects = (dict(manifest) for launch in self.launches for manifest in launch.objects)
        return (*self.files, *launch_objects, *self.ledger_config_maps.values())


def first_launches(planned_sweep: PlannedSweep) -> LaunchGroup:
    """Return all launches of a sweep in a cluster without any, whatever its dependencies. Raises WorkloadError."""
    run_ids, files, stack = tuple(planned_sweep.trials), planned_sweep.jobs_file, planned_sweep.stack
    name, namespace = planned_sweep.sweep.name, planned_sweep.sweep.run.namespace
    if not run_ids:
        return LaunchGroup(stack=stack, sweep=name)
    if planned_sweep.sweep.form == "indexed":
        data = planned_sweep.batch_file(run_ids)
        files = {parameter_file_name(name, data): data}
        launches: tuple[Ledger, ...] = (planned_sweep.batch_ledger(run_ids, next(iter(files)), data),)
    else:
        launches = tuple(planned_sweep.job_ledger(run_id) for run_id in run_ids)
    config_maps = (parameter_config_map(file, name, namespace, stack, data) for file, data in files.items())
    return LaunchGroup(stack=stack, sweep=name, files=tuple(config_maps), launches=launches, ledgers=launches)
