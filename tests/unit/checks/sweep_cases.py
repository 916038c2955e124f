"""A cluster's view of a sweep, for the tests of what a change may do to its trials."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from trainstack.runs.launches import LiveLaunch, OfSweep, Phase
from trainstack.runs.parameter_file import Data, file_name, file_of, number_of
from trainstack.runs.records import Ledger
from trainstack.sweeps.decision import SweepDecision, decide
from trainstack.sweeps.launches import PlannedSweep

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Cluster:
    """What was launched of the sweep `search`, and what became of it."""

    live: dict[str, LiveLaunch] = field(default_factory=dict)
    """By launch name."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """By the name of the ConfigMap that holds it, which is made of its run id."""
    files: dict[str, Data] = field(default_factory=dict)
    clock: datetime = NOW - timedelta(hours=3)

    def up(self, planned: PlannedSweep, *stop: str, held: bool = False) -> SweepDecision:
        """Decide, and where nothing stands against it do what was decided, as the engine would."""
        live = list(self.live.values())
        decision = decide(planned, live, [*self.ledgers.values()], self.files, stop, NOW, held=held)
        if not decision.refusals:
            self.clock += timedelta(seconds=10)
            self.live = {each.launch_name: self._launched(each) for each in decision.launches}
            self.ledgers = {each.run_id: each for each in decision.ledgers}
            self.files = {name: data for _, name, data in decision.files}
        return decision

    def set(self, phase: Phase, run_ids: Iterable[str] | None = None, succeeded: Sequence[int] = ()) -> None:
        """Let launches, or all of them, come to this; of a batch these indexes have succeeded."""
        chosen = [each for each in self.live.values() if run_ids is None or each.run_id in run_ids]
        for each in chosen:
            assert each.sweep is not None
            self.live[each.launch] = replace(each, phase=phase, sweep=replace(each.sweep, succeeded=tuple(succeeded)))

    def remove_objects(self) -> None:
        """As a TTL does."""
        self.live = {}

    def forget(self) -> None:
        """As an interrupted `up` does: what was launched has no ledger."""
        self.ledgers = {}

    @property
    def names(self) -> dict[str, str]:
        """Launch names by run id."""
        return {each.run_id: each.launch for each in self.live.values()}

    def _launched(self, ledger: Ledger) -> LiveLaunch:
        marks = ledger.launch["metadata"]["labels"]
        sweep = OfSweep(
            name=marks["trainstack.dev/sweep"],
            set_id=marks.get("trainstack.dev/set", ""),
            number=number_of(ledger.launch),
            file=file_of(ledger.objects),
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
            stack=marks["trainstack.dev/stack"],
        )
        return self.live.get(ledger.launch_name, new)


def ids(planned: PlannedSweep) -> list[str]:
    """The run ids of the trials by number."""
    return list(planned.trials)


def launched(decision: SweepDecision) -> list[str]:
    """The run ids, or batch ids, of the declared launches."""
    return [each.run_id for each in decision.launches]


def quiet(decision: SweepDecision, before: SweepDecision) -> None:
    """Nothing is different from what was decided before, and there is nothing to say."""
    assert (decision.launches, decision.ledgers, decision.files) == (before.launches, before.ledgers, before.files)
    assert (decision.refusals, decision.notes) == ((), ())


def name_of_file(planned: PlannedSweep, run_ids: Sequence[str]) -> str:
    """What the file of a batch of these trials is called."""
    return file_name(planned.sweep.name, planned.batch_file(run_ids))
