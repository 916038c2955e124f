"""A sweep's trials, and their launches as this change would create them, in either form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pydantic.alias_generators import to_camel

from trainstack.objects.labels import Manifest
from trainstack.runs import names
from trainstack.runs.identity import Facts, digest
from trainstack.runs.launch import Launch, SweepInputs
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import check_names, companions, dispatched_launch, manifest, plan_launch
from trainstack.runs.manifests.indexed_job import batch_id, batch_job
from trainstack.runs.manifests.trials import Trial
from trainstack.runs.parameter_file import FileContents, batch_data, jobs_data, parameter_file_name, withdraw_trials
from trainstack.settings.sections.sweeps import Sweep


@dataclass(frozen=True)
class PlannedSweep:
    sweep: Sweep
    stack: str
    facts: Facts
    """Inputs of its launches other than the settings."""
    trials: Mapping[str, Trial]
    """By run id, in the order of their numbers."""
    dispatches: bool = False
    """Whether MultiKueue dispatches its launches, whose pods then carry the sweep's files."""

    @cached_property
    def jobs_file(self) -> Mapping[str, FileContents]:
        """The file of trials with launches of their own, by name; {} if the trials read none. Raises WorkloadError."""
        if self.sweep.space.file is None:
            return {}
        data = jobs_data(self.sweep)
        return {parameter_file_name(self.sweep.name, data): data}

    def job_ledger(
        self, run_id: str, *, number: int | None = None, file: str | None = None, data: FileContents | None = None
    ) -> Ledger:
        """Return the ledger of a trial's launch. Raises WorkloadError.

        `number`, `file`: those of a live launch, by default those of the current sets. `data`: the content of `file`;
        None if it is unknown.
        """
        trial = self.trials[run_id] if number is None else self.trials[run_id].with_number(number)
        name = file if file is not None else next(iter(self.jobs_file), "")
        launch = plan_launch(
            trial.workload, self.stack, trial.facts(self.facts), replace(self._sweep_inputs(name), trial=trial)
        )
        launch_manifest = self._adapt_to_dispatch(
            manifest(trial.workload, self.stack, launch), data or self.jobs_file.get(name)
        )
        return replace(self._ledger(launch, launch_manifest), companions=companions(trial.workload, self.stack, launch))

    def batch_ledger(self, run_ids: Sequence[str], file: str, data: FileContents | None = None) -> Ledger:
        """Return the ledger of an Indexed Job of the given trials, which mount this file. Raises WorkloadError.

        `data`: the content of the file; None if it is unknown.
        """
        launch = self.batch_launch(batch_id(self.sweep.name, tuple(run_ids)), len(run_ids), file)
        launch_manifest = self._adapt_to_dispatch(batch_job(self.sweep, self.stack, launch, len(run_ids)), data)
        return replace(self._ledger(launch, launch_manifest), trials=tuple(run_ids))

    def _adapt_to_dispatch(self, launch_manifest: Manifest, data: FileContents | None) -> Manifest:
        if not self.dispatches:
            return launch_manifest
        return dispatched_launch(
            self.sweep.run, launch_manifest, None if data is None else withdraw_trials(data, (), ())
        )

    def batch_launch(
        self, run_id: str, count: int, file: str = "", recorded_job: Mapping[str, Manifest] | None = None
    ) -> Launch:
        """Return the launch of an Indexed Job of `count` trials, with its current name. Raises WorkloadError.

        The trials themselves matter only for `run_id`, the batch's id. `recorded_job`: a live or recorded Job that
        provides the counts and the deadline if the sweep now has another form.
        """
        sweep = self.sweep
        if recorded_job is not None and sweep.form == "jobs":
            spec = recorded_job["spec"]
            fields = ("parallelism", "max_failed_indexes", "active_deadline_seconds")
            sweep = sweep.model_copy(update={field: spec.get(to_camel(field)) for field in fields})
        sweep_inputs = self._sweep_inputs(file)
        facts = replace(self.facts, commit="")
        draft = batch_job(
            sweep, self.stack, Launch(run_id=run_id, name="", facts=facts, sweep=sweep_inputs.without_numbering), count
        )
        name = names.launch_name(run_id, digest(draft))
        # The pods of an Indexed Job of one trial have an index too.
        check_names(sweep.run.model_copy(update={"completions": max(count, 2)}), name)
        return Launch(run_id=run_id, name=name, facts=self.facts, sweep=sweep_inputs)

    def batch_file(self, run_ids: Sequence[str]) -> FileContents:
        """Return the file of an Indexed Job of the given trials. Raises WorkloadError if it is too long."""
        return batch_data(self.sweep, [(run_id, self.trials[run_id]) for run_id in run_ids])

    def _sweep_inputs(self, file: str) -> SweepInputs:
        return SweepInputs(sweep=self.sweep.name, file=file, path=self.sweep.space.file, trial=None)

    def _ledger(self, launch: Launch, launch_manifest: Manifest) -> Ledger:
        run = self.sweep.run
        return Ledger(
            run_id=launch.run_id,
            workload=self.sweep.name,
            namespace=run.namespace,
            attempt=run.attempt,
            launch_name=launch.name,
            launch=launch_manifest,
            sweep=self.sweep.name,
        )
