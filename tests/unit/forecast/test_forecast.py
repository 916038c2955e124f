"""The plan of an environment, its rows and their notes."""

import json
from dataclasses import replace

import pytest

from tests.unit.kueue.make import make_admitted
from tests.unit.make import make_cluster_queue, make_distributed, make_queues, make_run, make_settings
from trainstack.cli.output.forecast_format import run_table
from trainstack.errors import TrainstackError
from trainstack.forecast.forecast import Forecast, forecast
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.forecast.report import ForecastReport, build_report
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import QueueState
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.plan import Plan, Prices
from trainstack.settings.sections.workloads import Resources
from trainstack.stack_objects.stack_objects import StackObjects


def notes(found: Forecast) -> dict[str, str]:
    """Return the notes by run."""
    return {row.name: row.note for row in build_report(found).rows}


def test_runs_of_an_environment_are_planned_from_its_files() -> None:
    """They have their durations and their order, and include runs without a queue."""
    settings = make_settings(
        make_run(name="a", expected_duration_seconds=100),
        make_distributed(name="b", workers=2, active_deadline_seconds=50),
        make_run(name="c", queue=None, managed=False),
    )
    found = build_report(forecast(settings, measured_seconds={"research/c": 5.0}))
    assert [(row.name, round(row.start or 0), round(row.end or 0), row.source, row.pods) for row in found.rows] == [
        ("a", 0, 100, "declared", 1),
        ("c", 0, 5, "measured", 1),
        ("b", 100, 150, "deadline", 3),
    ]
    assert [row.cluster_queue for row in found.rows] == ["research", "", "research"]
    assert (found.environment, round(found.makespan), found.endless, found.cost) == ("test", 150, 0, None)
    assert found.rows[0].stretches[0].flavors == ("cpu",)
    assert found.notes == ("the nodes are unknown, so quota alone decides (describe them with `--nodes`)",)


def test_each_run_has_the_reason_why_it_has_no_start_or_no_end() -> None:
    """It never fits, or depends on an endless run or waits for its quota, or has no known end itself."""
    settings = make_settings(
        make_run(name="endless", resources=Resources(requests={"cpu": "1", "memory": "1Gi"})),
        make_run(name="huge", resources=Resources(requests={"cpu": "9", "memory": "1Gi"})),
        make_run(name="after", depends_on=("endless",)),
        make_run(name="two", resources=Resources(requests={"cpu": "2", "memory": "1Gi"}), active_deadline_seconds=9),
        make_run(name="ends", active_deadline_seconds=9),
        make_run(name="free", queue=None, expected_duration_seconds=1),
        queues=make_queues(cluster_queues=(make_cluster_queue(cohort=None),), cohorts=()),
    )
    assert notes(forecast(settings)) == {
        "endless": "no end is known: neither expectedDurationSeconds nor activeDeadlineSeconds is set",
        "huge": "never fits: 1 pod needs 9 cpu; cluster queue research has at most 2 of flavor cpu (7 missing)",
        "after": "waits for research/endless, whose end is unknown",
        "two": "waits for quota of research/endless, whose end is unknown",
        "ends": "ends at its deadline at the latest",
        "free": "not queued by Kueue: starts at once",
    }
    report = build_report(forecast(settings))
    assert ([row.name for row in report.rows if row.never_fits], report.never_fits, report.endless) == (["huge"], 1, 3)


def test_the_note_on_a_strict_queue_names_the_blocking_run() -> None:
    """If the first run never fits, no run behind it starts."""
    strict = make_cluster_queue(queueing_strategy="StrictFIFO")
    huge = make_run(name="huge", resources=Resources(requests={"cpu": "9", "memory": "1Gi"}))
    settings = make_settings(huge, make_run(expected_duration_seconds=5), queues=make_queues(cluster_queues=(strict,)))
    assert notes(forecast(settings))["train"] == "blocked in a StrictFIFO queue by research/huge, which never fits"


def test_the_note_on_an_eviction_has_the_preemptor() -> None:
    """It also has whether the run resumes."""
    base = make_cluster_queue()
    queue = base.model_copy(
        update={"preemption": base.preemption.model_copy(update={"within_cluster_queue": "LowerPriority"})}
    )
    resources = Resources(requests={"cpu": "2", "memory": "1Gi"})
    settings = make_settings(
        make_run(name="first", priority=None, resources=resources, expected_duration_seconds=20),
        make_run(name="data", queue=None, expected_duration_seconds=5),
        make_run(name="urgent", resources=resources, expected_duration_seconds=5, depends_on=("data",)),
        queues=make_queues(cluster_queues=(queue,)),
    )
    assert notes(forecast(settings))["first"] == "preempted once, by research/urgent, and resumes later"


def test_the_nodes_of_a_forecast_limit_the_runs() -> None:
    """Quota is available, but no node has room."""
    settings = make_settings(make_run(expected_duration_seconds=5))
    found = forecast(settings, nodes=["cpu=2:cpu=500m,memory=1Gi"])
    assert notes(found) == {"train": "admitted, but no node has room for its pods"}
    assert found.notes == ()
    assert build_report(forecast(settings, nodes=["cpu=1:cpu=2,memory=8Gi"])).endless == 0
    with pytest.raises(TrainstackError, match="--nodes gpu=1: unknown flavor gpu"):
        forecast(settings, nodes=["gpu=1"])


def make_held(settings: Settings) -> LiveWorkloads:
    """Return a cluster of the environment on which another run uses half of the cpu."""
    other = make_admitted("other", "research", reserved_at=990.0)
    other = replace(other, workload=replace(other.workload, namespace="research", queue="research"))
    snapshot = QueueState(model=replace(stack_model(StackObjects(settings)), is_declared=False), admitted=(other,))
    return LiveWorkloads(snapshot=snapshot, now=1000.0, deadlines={"research/other": 40.0}, ended={"research/done"})


def test_a_plan_starts_with_the_workloads_of_the_cluster() -> None:
    """Runs of others use their quota until their limit; a note names ended runs."""
    resources = Resources(requests={"cpu": "2", "memory": "1Gi"})
    settings = make_settings(make_run(resources=resources, expected_duration_seconds=5), make_run(name="done"))
    found = build_report(forecast(settings, live=make_held(settings)))
    assert [(row.name, row.declared, round(row.start or 0), round(row.end or 0)) for row in found.rows] == [
        ("other", False, -10, 30),
        ("train", True, 30, 35),
    ]
    assert "ended before, not launched again: research/done" in found.notes


def test_prices_give_a_cost_and_mismatched_ones_are_reported() -> None:
    """Notes report prices of unknown flavors, and used flavors without a price."""
    run = make_run(expected_duration_seconds=3600)
    priced = Plan(currency="EUR", prices=(Prices(name="cpu", per_hour={"cpu": 0.5}), Prices(name="gpu", per_hour={})))
    found = build_report(forecast(make_settings(run, plan=priced)))
    assert (found.cost, found.currency, found.rows[0].cost) == (0.5, "EUR", 0.5)
    assert "plan.prices[gpu]: the environment has no flavor gpu" in found.notes
    other = Plan(prices=(Prices(name="gpu", per_hour={}),))
    other_notes = build_report(forecast(make_settings(run, plan=other))).notes
    assert "flavor cpu has no price in trainstack:plan: prices, and is counted as free" in other_notes


def test_the_plan_of_a_tenant_is_unknown() -> None:
    """Its stack cannot read the cluster queues."""
    environment = Environment(profile="tenant", layers=("training",), namespaces=(Namespace(name="research"),))
    found = forecast(make_settings(make_run(priority=None), environment=environment, queues=make_queues()))
    assert notes(found)["train"].startswith("unknown: the cluster queue of queue research is not readable here")
    report = build_report(found)
    assert report.rows[0].is_undecided
    assert run_table(report).rows[0][2:4] == ("-", "-")


def test_a_report_is_json() -> None:
    """The keys are the names of the fields."""
    found: ForecastReport = build_report(forecast(make_settings(make_run(expected_duration_seconds=5))))
    data = json.loads(json.dumps(found.as_json()))
    assert data["runs"][0]["name"] == "train"
    assert data["runs"][0]["stretches"][0]["ended"] == 5.0
    assert data["uses"][0]["steps"] == [[0.0, 1.0], [5.0, 0.0]]
    assert {"environment", "makespan", "endless", "gpu_hours", "cost", "currency", "notes"} < data.keys()
