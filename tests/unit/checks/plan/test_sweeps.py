"""A sweep's trials in a plan."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_admitted, make_workload
from tests.unit.make import make_run, make_settings, make_sweeps
from tests.unit.workloads.sweeps import make_indexed, make_planned
from trainstack.declared.declared import Declared
from trainstack.forecast.forecast import forecast
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.forecast.report import Row, report
from trainstack.forecast.sweeps import IndexedJob, LiveTrials, indexed_duration, live_trials
from trainstack.forecast.tasks import UNBOUNDED, Duration
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import QueueState
from trainstack.runs.launches import LiveLaunch, OfSweep, Phase
from trainstack.runs.records import Ledger
from trainstack.settings.model import Settings
from trainstack.sweeps.launches import PlannedSweep


def make_lab(*, seconds: int | None = 10, **changes: Any) -> Settings:
    """Four trials of 1 cpu in a queue with 2; each takes so many seconds."""
    run = make_run(name="search", expected_duration_seconds=seconds, **changes.pop("run", {}))
    return make_settings(sweeps=make_sweeps(run=run, **changes))


def rows(settings: Settings, **changes: Any) -> dict[str, Row]:
    """The plan by run."""
    return {row.name: row for row in report(forecast(settings, **changes)).rows}


def ends(settings: Settings, **changes: Any) -> dict[str, tuple[float, float] | None]:
    """Start and end by run, in whole seconds; None where it has none."""
    return {
        name: None if row.start is None or row.end is None else (round(row.start), round(row.end))
        for name, row in rows(settings, **changes).items()
    }


def test_each_trial_of_form_jobs_is_a_run() -> None:
    """By its number; the queue decides how many run at once."""
    assert ends(make_lab()) == {"search 1": (0, 10), "search 2": (0, 10), "search 3": (10, 20), "search 4": (10, 20)}


def test_with_parallelism_a_trial_joins_when_a_place_gets_free() -> None:
    """So it does not wait in the queue before."""
    found = rows(make_lab(parallelism=1))
    assert [(round(row.submitted or 0), round(row.wait or 0)) for row in found.values()] == [
        (0, 0),
        (10, 0),
        (20, 0),
        (30, 0),
    ]
    endless = rows(make_lab(parallelism=1, seconds=None))
    assert endless["search 2"].note == ("waits for a slot of sweep search, whose running trials have no known end")


def test_form_indexed_is_one_job_of_all_trials() -> None:
    """So many of them at once as it says; the last round may have fewer."""
    assert ends(make_lab(form="indexed", parallelism=2)) == {"search": (0, 20)}
    found = rows(make_lab(form="indexed", parallelism=2))["search"]
    assert (found.pods, found.stretches[0].flavors) == (2, ("cpu",))


@pytest.mark.parametrize(
    ("each", "most", "expected"),
    [
        (Duration(10, "measured"), None, Duration(30, "measured")),
        (Duration(10, "declared"), 25.0, Duration(25, "deadline")),
        (UNBOUNDED, None, UNBOUNDED),
        (UNBOUNDED, 25.0, Duration(25, "deadline")),
    ],
)
def test_trials_of_one_job_take_turns(each: Duration, most: float | None, expected: Duration) -> None:
    """Five, two at once; the Job's own deadline ends them all."""
    assert indexed_duration(each, 5, 2, most) == expected


def test_earlier_trials_tell_how_long_one_takes_and_what_a_sweep_depends_on_comes_first() -> None:
    """As of a run."""
    settings = make_lab(seconds=None, run={"depends_on": ("data",)}, form="indexed", parallelism=2)
    settings = settings.model_copy(
        update={"workloads": settings.workloads.model_copy(update={"runs": (make_run(name="data"),)})}
    )
    found = ends(settings, measured={"research/search": 7.0, "research/data": 5.0})
    assert found == {"data": (0, 5), "search": (5, 19)}


def make_launch(planned: PlannedSweep, number: int, phase: Phase, launch: str = "") -> LiveLaunch:
    """A live object of one trial, as it was launched."""
    (run_id,) = [run_id for run_id, each in planned.trials.items() if each.number == number]
    told = OfSweep(name="search", set_id=f"set-{number}", number=number, file=None)
    name = launch or planned.job(run_id).launch_name
    return LiveLaunch(run_id, f"object-{number}", "Job", "research", phase, datetime.now(UTC), name, told)


def test_trials_are_known_by_their_objects_and_ledgers() -> None:
    """One that is at work keeps its place; one that failed is launched again if its launch was edited since."""
    planned = make_planned()
    ids = list(planned.trials)
    live = [
        make_launch(planned, 1, "running"),
        make_launch(planned, 2, "failed"),
        make_launch(planned, 3, "failed", launch="of-old"),
    ]
    ledgers = [planned.job(run_id) for run_id in (ids[0], ids[1], ids[3])]
    whose = {("Job", "research", "object-1"): "research/job-1", ("Job", "research", "x"): "research/other"}
    assert live_trials(planned, live, ledgers, whose) == LiveTrials(
        runs={"research/job-1": "research/search 1"}, ended={"research/search 2", "research/search 4"}
    )


def make_batch(planned: PlannedSweep, phase: Phase) -> tuple[LiveLaunch, Ledger]:
    """A live Job of the first three trials, one of which it has no more."""
    ids = list(planned.trials)
    ledger = Ledger(
        run_id="search-b",
        workload="search",
        namespace="research",
        attempt=1,
        launch_name="search-b-1",
        launch={},
        sweep="search",
        trials=(ids[0], "", ids[2]),
    )
    told = OfSweep(name="search", set_id="", number=None, file=None)
    return LiveLaunch("search-b", "batch", "Job", "research", phase, datetime.now(UTC), "search-b-1", told), ledger


def test_a_live_job_of_many_trials_has_them() -> None:
    """While it is at work; then they have ended."""
    planned = make_indexed()
    whose = {("Job", "research", "batch"): "research/job-b"}
    live, ledger = make_batch(planned, "running")
    trials = {"research/search 1", "research/search 3"}
    assert live_trials(planned, [live], [ledger], whose) == LiveTrials(
        indexed={"research/job-b": IndexedJob(sweep="research/search", trials=2)}, in_indexed=trials
    )
    done, _ = make_batch(planned, "succeeded")
    assert live_trials(planned, [done], [ledger], whose) == LiveTrials(ended=trials)
    assert live_trials(planned, [], [ledger], {}) == LiveTrials(ended=trials)


def make_live(settings: Settings, known: LiveTrials) -> LiveWorkloads:
    """A cluster at second 100, on which `job-b` has had its quota for 5 seconds and `job-1` waits."""
    batch = make_admitted("job-b", "research", reserved=95.0)
    batch = replace(batch, workload=replace(batch.workload, namespace="research", queue="research"))
    alone = replace(make_workload(name="job-1", queue="research", created=90.0, priority=1000), namespace="research")
    model = replace(declared_model(Declared(settings)), declared=False)
    return LiveWorkloads(snapshot=QueueState(model=model, admitted=(batch,), pending=(alone,)), now=100.0).with_trials(
        known
    )


def test_what_a_cluster_holds_of_a_sweep_is_not_launched_again() -> None:
    """A live Job of many goes on with its trials; the new ones are of the form that the sweep has now."""
    known = LiveTrials(
        runs={"research/job-1": "research/search 1"},
        indexed={"research/job-b": IndexedJob(sweep="research/search", trials=2)},
        in_indexed={"research/search 3", "research/search 4"},
    )
    jobs, indexed = make_lab(), make_lab(form="indexed", parallelism=2)
    here = {"search (job-b)": (-5, 15), "search 1": (0, 10)}
    assert ends(jobs, live=make_live(jobs, known)) == {**here, "search 2": (10, 20)}
    assert ends(indexed, live=make_live(indexed, known)) == {**here, "search": (10, 20)}
    assert rows(jobs, live=make_live(jobs, known))["search (job-b)"].declared
