"""The description of a launch, the Kubernetes object that executes a run."""

from dataclasses import dataclass, replace

from trainstack.runs.identity import Facts
from trainstack.runs.manifests.trial_names import Trial


@dataclass(frozen=True, kw_only=True)
class InSweep:
    """Inputs of a trial's launch, or of an Indexed Job of trials, other than the workload."""

    sweep: str
    file: str
    """The ConfigMap with the sweep's parameter file."""
    path: str | None
    """Where hyperparams.yml is mounted for the program; None if it is not."""
    trial: Trial | None
    """None for an Indexed Job, whose file assigns a trial to each completion index."""

    @property
    def unnumbered(self) -> "InSweep":
        """A copy without what changes when other sets are added or removed: the file and the trial's number."""
        return replace(self, file="", trial=self.trial and self.trial.with_number(0))


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch's name, and its inputs other than the settings."""

    run_id: str
    name: str
    facts: Facts
    sweep: InSweep | None = None
    """None for a run outside sweeps."""

    @property
    def number(self) -> int | None:
        """The trial number; None for a run and for an Indexed Job of trials."""
        return self.sweep.trial.number if self.sweep and self.sweep.trial else None
