"""The trials of a sweep in a plan."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_workload
from tests.unit.make import make_run, make_settings, make_sweeps
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from trainstack.forecast.forecast import forecast
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.forecast.report import ForecastRow, build_report
from trainstack.forecast.sweep_tasks import IndexedJob, LiveTrials, indexed_duration, match_trials
from trainstack.forecast.tasks import UNBOUNDED, Duration
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import QueueState
from trainstack.runs.launches import LiveLaunch, Phase, SweepOfLaunch
from trainstack.runs.ledgers import Ledger
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.sweeps.planned_sweep import PlannedSweep


def make_lab(*, seconds: int | None = 10, **changes: Any) -> Settings:
    """Return four trials of 1 cpu with this duration in a queue with 2 cpu."""
    run = make_run(name="search", expected_duration_seconds=seconds, **changes.pop("run", {}))
    return make_settings(sweeps=make_sweeps(run=run, **changes))


def rows(settings: Settings, **changes: Any) -> dict[str, ForecastRow]:
    """Return the rows of the plan by run."""
    return {row.name: row for row in build_report(forecast(settings, **changes)).rows}


def ends(settings: Settings, **changes: Any) -> dict[str, tuple[float, float] | None]:
    """Return start and end by run, in whole seconds, or None."""
    return {
        name: None if row.start is None or row.end is None else (round(row.start), round(row.end))
        for name, row in rows(settings, **changes).items()
    }


def test_each_trial_of_form_jobs_is_a_run() -> None:
    """Its name has its number; the queue limits how many run at once."""
    assert ends(make_lab()) == {"search 1": (0, 10), "search 2": (0, 10), "search 3": (10, 20), "search 4": (10, 20)}


def test_with_parallelism_a_trial_is_submitted_when_another_has_ended() -> None:
    """It does not wait in the queue before."""
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
    """It runs `parallelism` trials at once; the last round may have fewer."""
    assert ends(make_lab(form="indexed", parallelism=2)) == {"search": (0, 20)}
    found = rows(make_lab(form="indexed", parallelism=2))["search"]
    assert (found.pods, found.stretches[0].flavors) == (2, ("cpu",))


@pytest.mark.parametrize(
    ("trial", "limit", "expected"),
    [
        (Duration(10, "measured"), None, Duration(30, "measured")),
        (Duration(10, "declared"), 25.0, Duration(25, "deadline")),
        (UNBOUNDED, None, UNBOUNDED),
        (UNBOUNDED, 25.0, Duration(25, "deadline")),
    ],
)
def test_trials_of_one_job_run_in_rounds(trial: Duration, limit: float | None, expected: Duration) -> None:
    """There are five, two at once; the Job's own deadline ends all of them."""
    assert indexed_duration(trial, 5, 2, limit) == expected


def test_durations_of_earlier_trials_and_dependencies_of_a_sweep_count() -> None:
    """They count as for a run."""
    settings = make_lab(seconds=None, run={"depends_on": ("data",)}, form="indexed", parallelism=2)
    settings = settings.model_copy(
        update={"workloads": settings.workloads.model_copy(update={"runs": (make_run(name="data"),)})}
    )
    found = ends(settings, measured_seconds={"research/search": 7.0, "research/data": 5.0})
    assert found == {"data": (0, 5), "search": (5, 19)}


def make_launch(planned: PlannedSweep, number: int, phase: Phase, launch: str = "") -> LiveLaunch:
    """Return the live object of one trial."""
    (run_id,) = [run_id for run_id, trial in planned.trials.items() if trial.number == number]
    sweep = SweepOfLaunch(name="search", set_id=f"set-{number}", number=number, file=None)
    name = launch or planned.job_ledger(run_id).launch_name
    return LiveLaunch(run_id, f"object-{number}", "Job", "research", phase, datetime.now(UTC), name, sweep)


def test_trials_are_found_by_their_objects_and_ledgers() -> None:
    """An active trial keeps its slot; a failed one is launched again if its launch was edited since."""
    planned = make_planned()
    ids = list(planned.trials)
    live = [
        make_launch(planned, 1, "running"),
        make_launch(planned, 2, "failed"),
        make_launch(planned, 3, "failed", launch="of-old"),
    ]
    ledgers = [planned.job_ledger(run_id) for run_id in (ids[0], ids[1], ids[3])]
    workloads = {("Job", "research", "object-1"): "research/job-1", ("Job", "research", "x"): "research/other"}
    assert match_trials(planned, live, ledgers, workloads) == LiveTrials(
        runs={"research/job-1": "research/search 1"}, ended={"research/search 2", "research/search 4"}
    )


def make_batch(planned: PlannedSweep, phase: Phase) -> tuple[LiveLaunch, Ledger]:
    """Return a live Job with the first three trials, one of which was withdrawn."""
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
    sweep = SweepOfLaunch(name="search", set_id="", number=None, file=None)
    return LiveLaunch("search-b", "batch", "Job", "research", phase, datetime.now(UTC), "search-b-1", sweep), ledger


def test_the_trials_of_a_live_job_are_not_launched_again() -> None:
    """They are active with the Job, and have ended after it."""
    planned = make_indexed()
    workloads = {("Job", "research", "batch"): "research/job-b"}
    live, ledger = make_batch(planned, "running")
    trials = {"research/search 1", "research/search 3"}
    assert match_trials(planned, [live], [ledger], workloads) == LiveTrials(
        indexed_jobs={"research/job-b": IndexedJob(sweep="research/search", trials=2)}, trials_in_indexed_jobs=trials
    )
    done, _ = make_batch(planned, "succeeded")
    assert match_trials(planned, [done], [ledger], workloads) == LiveTrials(ended=trials)
    assert match_trials(planned, [], [ledger], {}) == LiveTrials(ended=trials)


def make_live(settings: Settings, known: LiveTrials) -> LiveWorkloads:
    """Return a cluster at second 100, on which `job-b` has had quota for 5 seconds and `job-1` waits."""
    batch = make_admitted("job-b", "research", reserved_at=95.0)
    batch = replace(batch, workload=replace(batch.workload, namespace="research", queue="research"))
    alone = replace(make_workload(name="job-1", queue="research", created=90.0, priority=1000), namespace="research")
    model = replace(stack_model(StackObjects(settings)), is_declared=False)
    return LiveWorkloads(snapshot=QueueState(model=model, admitted=(batch,), pending=(alone,)), now=100.0).with_trials(
        known
    )


def test_live_trials_of_a_sweep_are_not_launched_again() -> None:
    """A live Job keeps its trials; new trials have the current form of the sweep."""
    known = LiveTrials(
        runs={"research/job-1": "research/search 1"},
        indexed_jobs={"research/job-b": IndexedJob(sweep="research/search", trials=2)},
        trials_in_indexed_jobs={"research/search 3", "research/search 4"},
    )
    jobs, indexed = make_lab(), make_lab(form="indexed", parallelism=2)
    live = {"search (job-b)": (-5, 15), "search 1": (0, 10)}
    assert ends(jobs, live=make_live(jobs, known)) == {**live, "search 2": (10, 20)}
    assert ends(indexed, live=make_live(indexed, known)) == {**live, "search": (10, 20)}
    assert rows(jobs, live=make_live(jobs, known))["search (job-b)"].declared
