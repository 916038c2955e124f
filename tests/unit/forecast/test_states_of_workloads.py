"""Plans with workloads that are being evicted or wait for the end of a backoff, and the limits of plans."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.forecast.make import make_plan, make_task, times
from tests.unit.kueue.make import make_admitted, make_model, make_queue, make_workload
from tests.unit.make import make_run, make_settings
from trainstack.forecast.forecast import forecast
from trainstack.forecast.live_workloads import LiveWorkloads, add_live_workloads
from trainstack.forecast.report import build_report
from trainstack.kueue.differences import release_of
from trainstack.kueue.from_objects import read_model, stack_model
from trainstack.kueue.model import Cohort, Flavor, Model, QueueState
from trainstack.stack_objects.stack_objects import StackObjects


def test_a_run_in_backoff_is_submitted_when_it_ends() -> None:
    """Source: backoffWaitingTimeExpired, cluster_queue.go; meanwhile a later workload is admitted."""
    held = make_workload(name="held", created=1.0, requeue_at=1050.0)
    live = LiveWorkloads(snapshot=QueueState(model=make_model(make_queue()), pending=(held,)), now=1000.0)
    tasks, _ = add_live_workloads([make_task("new", 5, cpu=4)], live)
    assert [(task.workload.name, task.earliest_start, task.workload.requeue_at) for task in tasks] == [
        ("held", 50.0, None),
        ("new", 0.0, None),
    ]
    (waiting, new) = make_plan(*tasks).timelines
    assert (waiting.submitted, round(waiting.start or 0), new.start) == (50.0, 50, 0.0)
    assert make_plan(replace(tasks[0], earliest_start=0.0)).timelines[0].start == 0.0


def test_an_evicted_workload_releases_its_quota_and_waits_again() -> None:
    """Source: Update, workload_controller.go: once its pods have ended."""
    evicted = make_task("evicted", 100, cpu=3, elapsed=60.0, is_resumable=True)
    admitted = (make_admitted("evicted", cpu=3, is_evicted=True, reserved_at=-60.0),)
    urgent = make_task("urgent", 10, cpu=3, priority=9)
    found = make_plan(evicted, urgent, admitted=admitted)
    assert times(found)["urgent"] == (0, 10)
    (first, second) = found.timelines[0].spans
    assert (first.admitted, first.ended, first.evicted_by) == (-60.0, 0.0, "Kueue (before the plan began)")
    assert second.started == pytest.approx(10, abs=1)
    # 60 of its 100 seconds are done.
    assert times(found)["evicted"][1] == 50


def notes_of(model: Model) -> list[str]:
    """Return the notes on a plan with this model of the cluster, after a conversion to JSON."""
    settings = make_settings(make_run(expected_duration_seconds=5))
    own = stack_model(StackObjects(settings))
    changed = replace(
        own,
        cluster_queues={**(own.cluster_queues or {}), **(model.cluster_queues or {})},
        flavors={**(own.flavors or {}), **(model.flavors or {})},
        cohorts=model.cohorts,
        fair_sharing=model.fair_sharing,
        admission_fair_sharing=model.admission_fair_sharing,
        gates=model.gates,
        release=model.release,
        is_declared=False,
    )
    found = build_report(forecast(settings, live=LiveWorkloads(snapshot=QueueState(model=changed), now=0.0)))
    notes: list[str] = json.loads(json.dumps(found.as_json()))["notes"]
    return [note for note in notes if not note.startswith("the nodes are unknown")]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, ""),
        (
            {"flavors": {"cpu": Flavor("cpu"), "f": Flavor("f", topology="racks")}},
            "topology is not simulated: flavor f",
        ),
        ({"admission_fair_sharing": True}, "local queues, which is not simulated: cluster queue q"),
        ({"fair_sharing": ("LessThanInitialShare",), "cohorts": (Cohort("a"), Cohort("b"))}, "cohorts of equal shares"),
        ({"fair_sharing": ("LessThanInitialShare",), "release": release_of("v0.16.2")}, ""),
        (
            {"fair_sharing": ("LessThanInitialShare",), "release": release_of("v0.16.4")},
            "between patch releases of Kueue v0.16",
        ),
        ({"gates": {"PrioritySortingWithinCohort": False}}, "feature gate PrioritySortingWithinCohort=false"),
        ({"gates": {"FlavorFungibility": False}}, "feature gate FlavorFungibility=false"),
    ],
)
def test_a_plan_lists_what_it_does_not_simulate(changes: dict[str, Any], note: str) -> None:
    """Only features that are in use have a note."""
    gates = read_model((), kueue_configuration={"featureGates": changes.pop("gates", {})}).gates
    queue = make_queue("q", {"cpu": {"cpu": 4}, "f": {"cpu": 4}}, usage_based=True)
    flavors = changes.pop("flavors", {"cpu": Flavor("cpu"), "f": Flavor("f")})
    found = notes_of(make_model(queue, **changes, flavors=flavors, gates=gates))
    assert [note in text for text in found] == [True] * bool(note)
