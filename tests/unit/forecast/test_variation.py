"""The variation of a plan if the durations differ a little."""

import json
from collections.abc import Sequence

from tests.unit.forecast.make import make_plan, make_task
from tests.unit.kueue.make import make_model, make_queue
from tests.unit.make import make_run, make_settings
from trainstack.cli.output.forecast_format import gantt_of, run_notes, sentences
from trainstack.forecast.forecast import Forecast, forecast
from trainstack.forecast.report import ForecastReport, build_report
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Task
from trainstack.forecast.variation import is_order_sensitive, vary_schedule
from trainstack.settings.sections.workloads import Resources

ANOMALY = (
    make_task("first", 100, cpu=2),
    make_task("second", 101, cpu=2),
    make_task("long", 900, cpu=2),
    make_task("wide", 500, cpu=4, priority=1, dependencies=("ns/first",)),
)
"""`long` starts when the first of two runs ends, or after `wide`, which waits for both."""
QUEUE = make_model(make_queue())


def plan(*tasks: Task) -> Forecast:
    """Return the forecast of tasks in one queue with 4 cpu."""
    schedule = simulate(tasks, QUEUE)
    variation = vary_schedule(tasks, schedule, lambda varied: simulate(varied, QUEUE))
    return Forecast(settings=make_settings(), model=QUEUE, schedule=schedule, variation=variation)


def report_of(*tasks: Task) -> ForecastReport:
    """Return the report of tasks in one queue."""
    return build_report(plan(*tasks))


def test_a_plan_with_a_stable_order_varies_like_the_durations() -> None:
    """Five equal runs one after the other take the same time in any order."""
    found = report_of(*(make_task(f"run-{number}", 100, cpu=4) for number in range(5)))
    low, high = found.makespan_range or (0.0, 0.0)
    assert 450 <= low < 500 < high <= 551
    assert not found.open
    assert not any(row.open for row in found.rows)
    assert len(sentences(found)) == 1


def test_the_report_of_a_plan_with_an_unstable_order_has_the_range() -> None:
    """The range is in the sentences, the notes, the chart and the JSON."""
    found = report_of(*ANOMALY)
    low, high = found.makespan_range or (0.0, 0.0)
    assert found.open
    assert low < 0.9 * found.makespan < found.makespan <= high
    assert sentences(found)[1] == "Small differences change the order: 21m9s to 26m28s if durations differ by 10%."
    assert gantt_of(found).title == "Forecast of test (21m9s to 26m28s)"
    ((index, second),) = [(index, row) for index, row in enumerate(found.rows) if row.name == "second"]
    assert second.open
    assert run_notes(found)[index] == "may end at +1m32s to +3m29s"
    data = json.loads(json.dumps(found.as_json()))
    assert (data["open"], data["makespan_range"]) == (True, [low, high])
    assert [row["end_range"] for row in data["runs"] if row["name"] == "second"] == [list(second.end_range or ())]


def test_the_range_is_the_same_each_time() -> None:
    """The draws are fixed."""
    assert plan(*ANOMALY).variation == plan(*ANOMALY).variation


def test_a_plan_with_a_run_that_may_never_start_is_open() -> None:
    """The other run has no end, and they may be submitted in either order."""
    found = report_of(make_task("ends", 100, cpu=4), make_task("endless", None, cpu=4))
    assert found.open
    assert found.makespan_range is not None
    assert found.makespan_range[0] > 80
    assert [row.end_range for row in found.rows] == [None, None]


def test_a_deadline_is_not_exceeded() -> None:
    """A run may end before it, and not after it."""
    run = make_run(active_deadline_seconds=100, resources=Resources(requests={"cpu": "1", "memory": "1Gi"}))
    variation = forecast(make_settings(run)).variation
    assert variation is not None
    low, high = variation.ends["research/train"]
    assert 89 < low < high <= 101


def test_many_runs_are_not_varied() -> None:
    """The time of a forecast stays proportional to the number of runs."""
    tasks = [make_task(f"run-{number}") for number in range(700)]
    assert vary_schedule(tasks, make_plan(), lambda _: make_plan()) is None
    counted: list[int] = []

    def count(varied: Sequence[Task]) -> Schedule:
        counted.append(len(varied))
        return make_plan()

    vary_schedule(tasks[:100], make_plan(), count)
    assert counted == [100] * 5


def test_a_time_is_open_beyond_the_durations_own_spread() -> None:
    """The spread is a tenth, and a second for the scheduler's cycles."""
    assert not is_order_sensitive(100, (90, 110))
    assert is_order_sensitive(100, (88, 110))
    assert is_order_sensitive(100, (95, 112))
