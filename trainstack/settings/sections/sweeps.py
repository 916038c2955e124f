"""Section `trainstack:sweeps`: the sweeps that an environment trains, and the objects of their trials."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from trainstack.settings.base import Section, raise_faults
from trainstack.settings.search_space.hyperparams import Expansion
from trainstack.settings.search_space.space import ParameterSet, Space
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.kubernetes import DnsLabel, NonNegative, Parallelism, Positive


class Sweep(Section):
    """A sweep: one trial, which is a run, for each set in `sweeps/<name>/hyperparams.yml`."""

    name: DnsLabel
    """The name of the folder `sweeps/<name>/`, and the prefix of the trials' run ids."""
    form: Literal["jobs", "indexed"] = "jobs"
    """`jobs`: one object for each trial, queued separately. `indexed`: one Indexed Job for all new trials, for
    thousands; the queue admits it as a gang of `parallelism`. A change of the form does not repeat trials."""
    run: Workload
    """The workload of each trial, like an entry of `workloads.runs`, based on `workloads/<from>/workload.yaml`. It has
    the sweep's name; its `activeDeadlineSeconds` applies to each trial."""
    parallelism: Parallelism | None = None
    """Concurrent trials. Required by form `indexed`; for form `jobs`, None: as many as the queue admits."""
    active_deadline_seconds: Positive | None = None
    """Form `indexed`: the deadline of all trials together."""
    max_failed_indexes: NonNegative | None = None
    """Form `indexed`: if more trials fail, the others are stopped. None: they continue."""
    max_gpu_hours: float | None = Field(None, ge=0)
    """The limit for all trials together, if each takes its whole deadline; more is refused. None: no limit."""
    space: Space
    """`sweeps/<name>/space.yaml`."""
    expansion: Expansion | None = None
    """`sweeps/<name>/hyperparams.yml`; None: the file does not exist yet."""
    sets_text: str = ""
    """The bytes of that file, which programs read."""

    @property
    def sets(self) -> tuple[ParameterSet, ...]:
        """The parameter sets in the order of their numbers; empty before the expansion."""
        return self.expansion.sets if self.expansion else ()

    @model_validator(mode="after")
    def _check_consistency(self) -> "Sweep":
        faults = [
            *_faults_of_run(self.run),
            *(_faults_of_indexed_form(self) if self.form == "indexed" else _faults_of_jobs_form(self)),
        ]
        if self.space.fields and self.run.manifest is None:
            faults.append("space.fields are values of a manifest: set manifest of the run, or leave out space.fields")
        if self.max_gpu_hours is not None and self.run.deadline_seconds is None:
            faults.append("maxGpuHours requires a deadline for trials: set run.activeDeadlineSeconds")
        raise_faults(faults)
        return self


FROM_FILES = ("space", "expansion", "setsText")
"""Keys of a sweep that the loader sets from the files in the sweep's folder; the environment must not set them."""


def _faults_of_run(run: Workload) -> Iterator[str]:
    if run.kind == "DataLoader":
        yield "a DataLoader runs no program: set run.kind to another kind"
    if run.adopt:
        yield "trials cannot be recorded as launched elsewhere: leave out run.adopt"
    if run.runtime is not None:
        yield "the pods of a trial have labels and files that a runtime does not set: leave out run.runtime"
    if run.restarts_always:
        yield "a trial must end, but this Pod is always restarted: set run.restartPolicy to Never or OnFailure"


def _faults_of_indexed_form(sweep: Sweep) -> Iterator[str]:
    run = sweep.run
    if run.manifest is not None:
        yield "form indexed builds the Job: leave out run.manifest, or set form to jobs"
    if run.kind != "Job":
        yield f"form indexed requires kind Job (got {run.kind}): set run.kind to Job, or form to jobs"
    if not run.managed:
        yield "form indexed requires the wrapper, which assigns the sets: leave out run.managed, or set form to jobs"
    if run.naming == "fixed":
        yield "form indexed creates several Jobs, which cannot share a fixed name: leave out run.naming"
    if run.restart_policy != "Never":
        yield "form indexed retries in new pods (counted by backoffLimit): leave out run.restartPolicy"
    if run.pods_to_succeed != 1 or run.parallelism != 1:
        yield "form indexed has one index for each trial: leave out run.completions and run.parallelism"
    if sweep.parallelism is None:
        yield "form indexed requires the size of its gang: set parallelism"
    if sweep.space.objective.target is not None and sweep.max_failed_indexes is not None:
        yield "trials that do not reach objective.target count as failed indexes: leave out maxFailedIndexes"


def _faults_of_jobs_form(sweep: Sweep) -> Iterator[str]:
    if sweep.run.managed and sweep.run.pods_to_succeed != 1:
        yield "a trial is one run with one record: leave out run.completions, or set run.managed to false"
    for field in ("active_deadline_seconds", "max_failed_indexes"):
        if getattr(sweep, field) is not None:
            yield f"{to_camel(field)} requires form indexed: leave it out, or set form to indexed"
    if sweep.space.objective.target is not None:
        yield "objective.target requires form indexed, which stops other trials: leave it out, or set form to indexed"


class Sweeps(Section):
    """The sweeps that an environment trains."""

    sweeps: tuple[Sweep, ...] = ()
