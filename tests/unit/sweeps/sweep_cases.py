"""A simulated cluster with a sweep, for the tests of the effects of a change on its trials."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from trainstack.runs.launches import LiveLaunch, Phase, SweepOfLaunch
from trainstack.runs.ledgers import Ledger
from trainstack.runs.parameter_file import FileContents, mounted_parameter_file, parameter_file_name, read_trial_number
from trainstack.sweeps.decision import SweepDecision, decide
from trainstack.sweeps.planned_sweep import PlannedSweep

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Cluster:
    """The launches of the sweep `search` and their states."""

    live: dict[str, LiveLaunch] = field(default_factory=dict)
    """By launch name."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """By run id."""
    files: dict[str, FileContents] = field(default_factory=dict)
    clock: datetime = NOW - timedelta(hours=3)

    def up(self, planned: PlannedSweep, *stop: str, held: bool = False) -> SweepDecision:
        """Decide, and apply the decision as the engine would, unless it has refusals."""
        live = list(self.live.values())
        decision = decide(planned, live, [*self.ledgers.values()], self.files, stop, NOW, blocked=held)
        if not decision.refusals:
            self.clock += timedelta(seconds=10)
            self.live = {launch.launch_name: self._launched(launch) for launch in decision.launches}
            self.ledgers = {ledger.run_id: ledger for ledger in decision.ledgers}
            self.files = {name: data for _, name, data in decision.files}
        return decision

    def set(self, phase: Phase, run_ids: Iterable[str] | None = None, succeeded: Sequence[int] = ()) -> None:
        """Set the phase of some launches, or of all; `succeeded` are the indexes of a batch that have succeeded."""
        launches = [launch for launch in self.live.values() if run_ids is None or launch.run_id in run_ids]
        for launch in launches:
            assert launch.sweep is not None
            self.live[launch.launch] = replace(
                launch, phase=phase, sweep=replace(launch.sweep, succeeded=tuple(succeeded))
            )

    def remove_objects(self) -> None:
        """Remove the launches, as their TTL does."""
        self.live = {}

    def forget(self) -> None:
        """Remove the ledgers: an interrupted `up` leaves launches without ledgers."""
        self.ledgers = {}

    @property
    def names(self) -> dict[str, str]:
        """Launch names by run id."""
        return {launch.run_id: launch.launch for launch in self.live.values()}

    def _launched(self, ledger: Ledger) -> LiveLaunch:
        labels = ledger.launch["metadata"]["labels"]
        sweep = SweepOfLaunch(
            name=labels["trainstack.dev/sweep"],
            set_id=labels.get("trainstack.dev/set", ""),
            number=read_trial_number(ledger.launch),
            file=mounted_parameter_file(ledger.objects),
        )
        new = LiveLaunch(
            run_id=ledger.run_id,
            name=ledger.launch_name,
            kind=str(ledger.launch["kind"]),
            namespace=ledger.namespace,
            phase="queued",
            created=self.clock,
            launch=ledger.launch_name,
            sweep=sweep,
            stack=labels["trainstack.dev/stack"],
        )
        return self.live.get(ledger.launch_name, new)


def ids(planned: PlannedSweep) -> list[str]:
    """Return the run ids of the trials by number."""
    return list(planned.trials)


def launched(decision: SweepDecision) -> list[str]:
    """Return the run ids, or batch ids, of the declared launches."""
    return [launch.run_id for launch in decision.launches]


def assert_unchanged(decision: SweepDecision, before: SweepDecision) -> None:
    """Assert that the decision equals the previous one, without refusals and notes."""
    assert (decision.launches, decision.ledgers, decision.files) == (before.launches, before.ledgers, before.files)
    assert (decision.refusals, decision.notes) == ((), ())


def name_of_file(planned: PlannedSweep, run_ids: Sequence[str]) -> str:
    """Return the name of the file of a batch with these trials."""
    return parameter_file_name(planned.sweep.name, planned.batch_file(run_ids))
