"""Whatever changes, in whatever order: no trial is at work twice, and none that is done is launched again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.checks.sweep_cases import Cluster
from tests.unit.make import make_expansion, make_run
from tests.unit.workloads.sweeps import make_planned
from trainstack.runs.launches import LiveLaunch, Phase
from trainstack.runs.records import Ledger
from trainstack.settings.search_space.constraints import Value
from trainstack.sweeps.launches import PlannedSweep

SETS: tuple[dict[str, Value], ...] = tuple({"batch_size": size} for size in (8, 16, 32, 64, 128))
Event = Literal["admit", "end well", "fail", "remove"]


@dataclass(frozen=True)
class Change:
    """A change of the files, and what befalls the cluster after the `up` that makes it so."""

    sets: frozenset[int]
    form: Literal["jobs", "indexed"]
    cap: int
    high: bool
    """An edit of the launch part."""
    interrupted: Literal["", "before ledgers", "amid ledgers"]
    """The `up` ends before a ledger is written, or before one is edited; nothing was deleted yet."""
    events: tuple[tuple[Event, int], ...]
    """Each with which launch, or index, it befalls."""

    def planned(self) -> PlannedSweep:
        """The sweep as the files say it."""
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
class World:
    """A cluster, and what is known of it without our rules."""

    cluster: Cluster = field(default_factory=Cluster)
    done: set[str] = field(default_factory=set)
    """Trials that have succeeded, and whose sets were never taken out since."""

    def up(self, planned: PlannedSweep, interrupted: str) -> None:
        """Make it so, twice; hold what is launched against what was."""
        self.done &= set(planned.trials)
        before, ledgers = dict(self.cluster.live), dict(self.cluster.ledgers)
        decision = self.cluster.up(planned)
        if decision.refusals:
            # Nothing was done: an edited launch that no ledger tells of is not touched.
            assert all("left it without a ledger" in each or "left no ledger" in each for each in decision.refusals)
            return
        new = [each for each in decision.launches if each.launch_name not in before]
        assert not self.done & {run_id for each in new for run_id in each.trials or (each.run_id,)}
        if interrupted:
            self.cluster.live = {**before, **self.cluster.live}
            self.cluster.ledgers = ledgers if interrupted == "before ledgers" else {**self.cluster.ledgers, **ledgers}
            return
        at_work = [run_id for launch in self.cluster.live.values() if launch.active for run_id in self.trials(launch)]
        assert len(at_work) == len(set(at_work))
        known = [run_id for each in decision.ledgers for run_id in each.trials or (each.run_id,) if run_id]
        assert len(known) == len(set(known))
        assert set(planned.trials) == set(known) & set(planned.trials) | set(decision.waiting)
        again = self.cluster.up(planned)
        assert (by_name(again.launches), again.files) == (by_name(decision.launches), decision.files)
        assert by_name(again.ledgers) == by_name(decision.ledgers)

    def trials(self, launch: LiveLaunch) -> list[str]:
        """The trials that a launch is still to train."""
        ledger = self.cluster.ledgers[launch.run_id]
        done = launch.sweep.succeeded if launch.sweep else ()
        return [each for index, each in enumerate(ledger.trials or (launch.run_id,)) if each and index not in done]

    def befall(self, event: Event, which: int) -> None:
        """Let something happen to a launch, if there is one for it."""
        found = sorted(self.cluster.live.values(), key=lambda each: each.launch)
        if not found:
            return
        launch = found[which % len(found)]
        known = self.cluster.ledgers.get(launch.run_id)
        if known is None or known.launch_name != launch.launch:
            return
        if event == "remove" and not launch.active:
            del self.cluster.live[launch.launch]
        elif event != "remove" and launch.active:
            self.cluster.live[launch.launch] = self._later(launch, event, which)

    def _later(self, launch: LiveLaunch, event: Event, which: int) -> LiveLaunch:
        ledger = self.cluster.ledgers[launch.run_id]
        assert launch.sweep is not None
        if event == "admit":
            return replace(launch, phase="running")
        if not ledger.trials:
            self.done |= {launch.run_id} if event == "end well" else set()
            return replace(launch, phase="succeeded" if event == "end well" else "failed")
        # One index after the other; the Job ends with its last one, and has failed if it is told to.
        count = len(ledger.trials)
        succeeded = sorted({*launch.sweep.succeeded, which % count})
        self.done |= {ledger.trials[index] for index in succeeded} - {""}
        whole = len(succeeded) == count
        phase: Phase = "succeeded" if whole else "failed" if event == "fail" else "running"
        return replace(launch, phase=phase, sweep=replace(launch.sweep, succeeded=tuple(succeeded)))


def by_name(ledgers: Iterable[Ledger]) -> dict[str, Ledger]:
    """Whatever their order."""
    return {each.launch_name: each for each in ledgers}


def make_change(*, high: bool = False, interrupted: Any = "", events: Any = ()) -> Change:
    """Two trials as one Job."""
    return Change(frozenset((0, 1)), "indexed", 2, high, interrupted, events)


@example([make_change(events=(("fail", 0),)), make_change(high=True, interrupted="amid ledgers"), make_change()])
@given(st.lists(CHANGES, min_size=1, max_size=5))
def test_no_trial_is_launched_twice(changes: list[Change]) -> None:
    """Sets come and go, forms change, launches end, fail or are removed, and changes are broken off."""
    world = World()
    for change in changes:
        world.up(change.planned(), change.interrupted)
        for event, which in change.events:
            world.befall(event, which)
