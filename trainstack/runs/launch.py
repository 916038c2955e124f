"""A launch: the one Kubernetes object that executes a run, as its builders are told of it."""

from dataclasses import dataclass, replace

from trainstack.runs.identity import Facts
from trainstack.runs.manifests.trial_names import Trial


@dataclass(frozen=True, kw_only=True)
class InSweep:
    """What the launch of a trial, or of many, depends on beside its workload."""

    sweep: str
    file: str
    """The ConfigMap with the sweep's parameter file."""
    path: str | None
    """Where the program finds its hyperparams.yml; None: nowhere."""
    trial: Trial | None
    """None: each completion index is a trial, and the file says which."""

    @property
    def unnumbered(self) -> "InSweep":
        """Without what changes when other sets come and go: the file, and the trial's place in it."""
        return replace(self, file="", trial=None if self.trial is None else replace(self.trial, number=0))


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a launch is called, and what it depends on beside the settings."""

    run_id: str
    name: str
    facts: Facts
    sweep: InSweep | None = None
    """None: it is no sweep's."""

    @property
    def number(self) -> int | None:
        """The number of its trial; None for a run and for an Indexed Job of trials."""
        return self.sweep.trial.number if self.sweep and self.sweep.trial else None
