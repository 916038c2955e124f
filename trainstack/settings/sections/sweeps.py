"""Section `trainstack:sweeps`: which sweeps an environment trains, and in which form."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from trainstack.settings.base import DnsLabel, Section
from trainstack.settings.search_space.hyperparams import Expansion
from trainstack.settings.search_space.space import Space
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.kubernetes import NonNegative, Parallelism, Positive


class Sweep(Section):
    """A sweep: the trials of the sets in `sweeps/<name>/hyperparams.yml`, each of them a run."""

    name: DnsLabel
    """Names the folder `sweeps/<name>/`, and its trials as a workload's name does its runs."""
    form: Literal["jobs", "indexed"] = "jobs"
    """`jobs`: an object for each trial, each queued by itself. `indexed`: one Indexed Job for all new trials, for
    thousands; the queue admits it as a gang of `parallelism`. Another form runs nothing again."""
    run: Workload
    """What each trial runs: as an entry of `workloads.runs`, over `workloads/<from>/workload.yaml`. It has the sweep's
    name; `activeDeadlineSeconds` is of each trial."""
    parallelism: Parallelism | None = None
    """Trials at once. Form `indexed` needs it; of form `jobs` None leaves it to the queue."""
    active_deadline_seconds: Positive | None = None
    """Of form `indexed`: the time for all its trials together."""
    max_failed_indexes: NonNegative | None = None
    """Of form `indexed`: with more failed trials than this the others are stopped. None: they go on."""
    max_gpu_hours: float | None = Field(None, ge=0)
    """What all trials together may cost at most, if each takes its whole deadline; more is refused. None: no limit."""
    space: Space
    """`sweeps/<name>/space.yaml`."""
    expansion: Expansion | None = None
    """`sweeps/<name>/hyperparams.yml`; None: there is none yet."""
    sets_text: str = ""
    """That file as it is, byte for byte: what programs read."""

    @model_validator(mode="after")
    def _consistent(self) -> "Sweep":
        faults = [*_faults_of_run(self.run), *(_faults_of_indexed(self) if self.form == "indexed" else _faults(self))]
        if self.max_gpu_hours is not None and self.run.active_deadline_seconds is None:
            faults.append("maxGpuHours counts with the time a trial may take: give run.activeDeadlineSeconds")
        if faults:
            raise ValueError("; ".join(faults))
        return self


FROM_FILES = ("space", "expansion", "setsText")
"""Keys of a sweep that its folder's files give, and no environment."""


def _faults_of_run(run: Workload) -> Iterator[str]:
    if run.kind == "DataLoader":
        yield "a DataLoader only waits: take another kind"
    if run.restarts_always:
        yield "a trial has to end, and this Pod would be restarted always: set run.restartPolicy to Never or OnFailure"


def _faults_of_indexed(sweep: Sweep) -> Iterator[str]:
    run = sweep.run
    if run.kind != "Job":
        yield f"form indexed makes one Job, and a {run.kind} is none: set run.kind to Job, or form to jobs"
    if not run.managed:
        yield "it is the wrapper that gives each index its set: leave out run.managed, or set form to jobs"
    if run.naming == "fixed":
        yield "each batch is a Job of its own, and a name is for one of them: leave out run.naming"
    if run.restart_policy != "Never":
        yield "the retries of form indexed are new pods (backoffLimit counts them): leave out run.restartPolicy"
    if run.completions != 1 or run.parallelism != 1:
        yield "the indices are the trials: leave out run.completions and run.parallelism"
    if sweep.parallelism is None:
        yield "form indexed is admitted as a gang: give parallelism"
    if sweep.space.objective.target is not None and sweep.max_failed_indexes is not None:
        yield "trials that do not reach objective.target count as failed indexes: leave out maxFailedIndexes"


def _faults(sweep: Sweep) -> Iterator[str]:
    if sweep.run.managed and sweep.run.completions != 1:
        yield "a trial is one run with one record: leave out run.completions, or set run.managed to false"
    for field, key in (
        ("active_deadline_seconds", "activeDeadlineSeconds"),
        ("max_failed_indexes", "maxFailedIndexes"),
    ):
        if getattr(sweep, field) is not None:
            yield f"form jobs has no {key}, which is of one Job for all: leave it out, or set form to indexed"
    if sweep.space.objective.target is not None:
        yield "with form jobs no trial can stop the others: leave out objective.target, or set form to indexed"


class Sweeps(Section):
    """The sweeps that an environment trains."""

    sweeps: tuple[Sweep, ...] = ()
