"""After any sequence of changes no trial runs twice at the same time, and no finished trial is launched again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.make import make_expansion, make_run
from tests.unit.sweeps.planned_sweeps import make_planned
from tests.unit.sweeps.sweep_cases import Cluster
from trainstack.runs.launches import LiveLaunch, Phase
from trainstack.runs.ledgers import Ledger
from trainstack.settings.search_space.constraints import Value
from trainstack.sweeps.planned_sweep import PlannedSweep

SETS: tuple[dict[str, Value], ...] = tuple({"batch_size": size} for size in (8, 16, 32, 64, 128))
Event = Literal["admit", "end well", "fail", "remove"]


@dataclass(frozen=True)
class Change:
    """A change of the files, and the events in the cluster after its `up`."""

    sets: frozenset[int]
    form: Literal["jobs", "indexed"]
    cap: int
    high: bool
    """The launch part was edited."""
    interrupted: Literal["", "before ledgers", "amid ledgers"]
    """The `up` ends before a ledger is written, or before one is edited; it has deleted nothing yet."""
    events: tuple[tuple[Event, int], ...]
    """Each event with the number of its launch or index."""

    def planned(self) -> PlannedSweep:
        """Return the sweep of the files."""
        return make_planned(
            form=self.form,
            parallelism=self.cap,
            run=make_run(name="search", priority="high" if self.high else "normal"),
            expansion=make_expansion(*(SETS[index] for index in sorted(self.sets))),
        )


CHANGES = st.builds(
    Change,
    sets=st.frozensets(st.integers(0, len(SETS) - 1), min_size=1),
    form=st.sampled_from(("jobs", "indexed")),
    cap=st.integers(1, 4),
    high=st.booleans(),
    interrupted=st.sampled_from(("", "", "before ledgers", "amid ledgers")),
    events=st.lists(
        st.tuples(st.sampled_from(("admit", "end well", "fail", "remove")), st.integers(0, 9)), max_size=6
    ).map(tuple),
)


@dataclass
class SimulatedCluster:
    """A cluster, and its finished trials, which are recorded independently of the product's rules."""

    cluster: Cluster = field(default_factory=Cluster)
    done: set[str] = field(default_factory=set)
    """Trials that have succeeded, and whose sets were not removed since."""

    def up(self, planned: PlannedSweep, interrupted: str) -> None:
        """Apply the change twice, and compare its launches with the earlier ones."""
        self.done &= set(planned.trials)
        before, ledgers = dict(self.cluster.live), dict(self.cluster.ledgers)
        decision = self.cluster.up(planned)
        if decision.refusals:
            # Nothing was changed: an edited launch without a ledger is not touched.
            refusals = decision.refusals
            assert all("left it without a ledger" in text or "left no ledger" in text for text in refusals)
            return
        new = [launch for launch in decision.launches if launch.launch_name not in before]
        assert not self.done & {run_id for launch in new for run_id in launch.trials or (launch.run_id,)}
        if interrupted:
            self.cluster.live = {**before, **self.cluster.live}
            self.cluster.ledgers = ledgers if interrupted == "before ledgers" else {**self.cluster.ledgers, **ledgers}
            return
        active = [run_id for launch in self.cluster.live.values() if launch.is_active for run_id in self.trials(launch)]
        assert len(active) == len(set(active))
        ledgers_of = [run_id for ledger in decision.ledgers for run_id in ledger.trials or (ledger.run_id,) if run_id]
        assert len(ledgers_of) == len(set(ledgers_of))
        assert set(planned.trials) == set(ledgers_of) & set(planned.trials) | set(decision.waiting)
        again = self.cluster.up(planned)
        assert (by_name(again.launches), again.files) == (by_name(decision.launches), decision.files)
        assert by_name(again.ledgers) == by_name(decision.ledgers)

    def trials(self, launch: LiveLaunch) -> list[str]:
        """Return the unfinished trials of a launch."""
        ledger = self.cluster.ledgers[launch.run_id]
        done = launch.sweep.succeeded if launch.sweep else ()
        trials = ledger.trials or (launch.run_id,)
        return [run_id for index, run_id in enumerate(trials) if run_id and index not in done]

    def apply(self, event: Event, number: int) -> None:
        """Apply an event to a launch, if there is one."""
        launches = sorted(self.cluster.live.values(), key=lambda launch: launch.launch)
        if not launches:
            return
        launch = launches[number % len(launches)]
        ledger = self.cluster.ledgers.get(launch.run_id)
        if ledger is None or ledger.launch_name != launch.launch:
            return
        if event == "remove" and not launch.is_active:
            del self.cluster.live[launch.launch]
        elif event != "remove" and launch.is_active:
            self.cluster.live[launch.launch] = self._after(launch, event, number)

    def _after(self, launch: LiveLaunch, event: Event, number: int) -> LiveLaunch:
        ledger = self.cluster.ledgers[launch.run_id]
        assert launch.sweep is not None
        if event == "admit":
            return replace(launch, phase="running")
        if not ledger.trials:
            self.done |= {launch.run_id} if event == "end well" else set()
            return replace(launch, phase="succeeded" if event == "end well" else "failed")
        # The indexes succeed one after the other; the Job succeeds with the last one, or fails with the event `fail`.
        count = len(ledger.trials)
        succeeded = sorted({*launch.sweep.succeeded, number % count})
        self.done |= {ledger.trials[index] for index in succeeded} - {""}
        complete = len(succeeded) == count
        phase: Phase = "succeeded" if complete else "failed" if event == "fail" else "running"
        return replace(launch, phase=phase, sweep=replace(launch.sweep, succeeded=tuple(succeeded)))


def by_name(ledgers: Iterable[Ledger]) -> dict[str, Ledger]:
    """Return the ledgers by launch name."""
    return {ledger.launch_name: ledger for ledger in ledgers}


def make_change(*, high: bool = False, interrupted: Any = "", events: Any = ()) -> Change:
    """Return a change with two trials as one Job."""
    return Change(frozenset((0, 1)), "indexed", 2, high, interrupted, events)


@example([make_change(events=(("fail", 0),)), make_change(high=True, interrupted="amid ledgers"), make_change()])
@given(st.lists(CHANGES, min_size=1, max_size=5))
def test_no_trial_is_launched_twice(changes: list[Change]) -> None:
    """Sets are added and removed, forms change, launches end, fail or are removed, and changes are interrupted."""
    simulated = SimulatedCluster()
    for change in changes:
        simulated.up(change.planned(), change.interrupted)
        for event, number in change.events:
            simulated.apply(event, number)
