"""The description of a launch, the Kubernetes object that executes a run."""

from dataclasses import dataclass, replace

from trainstack.runs.identity import Facts
from trainstack.runs.manifests.trials import Trial


@dataclass(frozen=True, kw_only=True)
class SweepInputs:
    """Inputs of a trial's launch, or of an Indexed Job of trials, other than the workload."""

    sweep: str
    file: str
    """The name of the ConfigMap with the sweep's parameter file."""
    path: str | None
    """The path at which the program finds hyperparams.yml; None if it is not mounted."""
    trial: Trial | None
    """The only trial; None for an Indexed Job, whose parameter file assigns a trial to each completion index."""

    @property
    def without_numbering(self) -> "SweepInputs":
        """A copy without the file and the trial's number, which change if other sets are added or removed."""
        return replace(self, file="", trial=self.trial and self.trial.with_number(0))


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch's name, and its inputs other than the settings."""

    run_id: str
    name: str
    facts: Facts
    sweep: SweepInputs | None = None
    """The sweep of a trial or batch; None for a run outside sweeps."""

    @property
    def trial_number(self) -> int | None:
        """The trial's number in its sweep; None for a run and for an Indexed Job of trials."""
        return self.sweep.trial.number if self.sweep and self.sweep.trial else None
