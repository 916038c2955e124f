"""The clock: who starts and ends when."""

from dataclasses import replace

import pytest

from tests.unit.checks.admission.make import make_admitted, make_model, make_pods, make_queue
from tests.unit.checks.plan.make import make_node, make_plan, make_task, times
from trainstack.forecast.node_pool import NodePool
from trainstack.kueue.model import Preemption

LOWER = Preemption(within_cluster_queue="LowerPriority")


def test_runs_wait_for_quota_and_get_it_when_others_end() -> None:
    """In the order of the queue; small ones pass large ones where there is room."""
    schedule = make_plan(
        make_task("first", 30, cpu=3), make_task("large", 20, cpu=4), make_task("small", 5), make_task("last", 10)
    )
    assert times(schedule) == {"first": (0, 30), "large": (30, 50), "small": (0, 5), "last": (5, 15)}
    assert [round(each.wait or 0) for each in schedule.timelines] == [0, 30, 0, 5]
    assert (round(schedule.makespan), schedule.open) == (50, ())


def test_priority_comes_before_order() -> None:
    """Of those that wait."""
    schedule = make_plan(make_task("low", 10, cpu=4), make_task("high", 10, cpu=4, priority=5))
    assert times(schedule) == {"high": (0, 10), "low": (10, 20)}


@pytest.mark.parametrize(("resumes", "end"), [(True, 30), (False, 38)])
def test_an_evicted_run_goes_on_or_begins_anew(*, resumes: bool, end: int) -> None:
    """With checkpoints it has only left what it had not done."""
    low = make_task("low", 20, cpu=4, resumes=resumes)
    urgent = make_task("urgent", 10, cpu=4, priority=5, after=("ns/before",))
    before = make_task("before", 8, queue="r")
    model = make_model(make_queue(preemption=LOWER), make_queue("r"))
    schedule = make_plan(low, urgent, before, model=model)
    assert times(schedule) == {"low": (0, end), "urgent": (8, 18), "before": (0, 8)}
    course = schedule.timelines[0]
    assert [(round(each.started or 0), round(each.ended or 0), each.evicted_by) for each in course.spans] == [
        (0, 8, "ns/urgent"),
        (18, end, ""),
    ]
    assert (course.evictions, round(course.wait or 0)) == (1, 10)


def test_what_depends_on_others_is_submitted_when_they_have_ended() -> None:
    """On all of them; on one without an end it never is. What is none of the plan's is there already."""
    schedule = make_plan(
        make_task("data", 10),
        make_task("more", 15),
        make_task("train", 5, after=("ns/data", "ns/more", "ns/elsewhere")),
        make_task("loader", None),
        make_task("never", 5, after=("ns/loader", "ns/data")),
    )
    assert times(schedule) == {
        "data": (0, 10),
        "more": (0, 15),
        "train": (15, 20),
        "loader": (0, None),
        "never": (None, None),
    }
    assert [each.submitted and round(each.submitted) for each in schedule.timelines] == [0, 0, 15, 0, None]


def test_a_run_without_an_end_holds_its_quota_for_ever() -> None:
    """Who needs that never starts; the makespan is that of the others."""
    schedule = make_plan(make_task("endless", None, cpu=2), make_task("large", 5, cpu=4), make_task("small", 5))
    assert times(schedule) == {"endless": (0, None), "large": (None, None), "small": (0, 5)}
    assert round(schedule.makespan) == 5
    assert [each.task.workload.name for each in schedule.open] == ["endless", "large"]


def test_a_run_that_kueue_does_not_hold_starts_at_once() -> None:
    """It uses no quota, and others may wait for its end."""
    schedule = make_plan(
        make_task("all", 20, cpu=4), make_task("free", 5, cpu=4, queue=""), make_task("after", 1, after=("ns/free",))
    )
    assert times(schedule) == {"all": (0, 20), "free": (0, 5), "after": (20, 21)}
    assert schedule.timelines[1].spans[0].usage == {}


def test_what_a_cluster_holds_has_run_for_a_while() -> None:
    """It ends when what is left is over; what is overdue ends now."""
    running, overdue = make_admitted("running", cpu=2), make_admitted("overdue", cpu=2)
    schedule = make_plan(
        replace(make_task("running", 30, cpu=2), elapsed=20.0),
        replace(make_task("overdue", 30, cpu=2), elapsed=40.0),
        make_task("waits", 5, cpu=4),
        admitted=(running, overdue),
    )
    assert times(schedule) == {"running": (-20, 10), "overdue": (-40, 0), "waits": (10, 15)}
    assert [round(each.wait or 0) for each in schedule.timelines] == [0, 0, 10]
    assert schedule.timelines[0].spans[0].assigned[0].flavors == {"cpu": "cpu"}


def test_a_run_with_quota_waits_for_nodes() -> None:
    """All its pods find room or none of them; those who were admitted later may pass."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 20}}))
    nodes = NodePool([make_node("one"), make_node("two")], model.flavors or {})
    schedule = make_plan(
        make_task("first", 10, cpu=3),
        make_task("gang", 10, pods=make_pods(count=3, cpu=2)),
        make_task("small", 5),
        model=model,
        nodes=nodes,
    )
    assert times(schedule) == {"first": (0, 10), "gang": (10, 20), "small": (0, 5)}
    gang = schedule.timelines[1].spans[0]
    assert (round(gang.admitted), round(gang.started or 0)) == (0, 10)


def test_who_finds_no_node_and_is_evicted_loses_nothing() -> None:
    """It did not run."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 8}}, preemption=LOWER))
    nodes = NodePool([make_node("one")], model.flavors or {})
    schedule = make_plan(
        make_task("first", 10, cpu=4, priority=1),
        make_task("second", 10, cpu=4, resumes=True),
        make_task("urgent", 5, cpu=4, priority=5, after=("ns/free",)),
        make_task("free", 3, cpu=0, queue=""),
        model=model,
        nodes=nodes,
    )
    assert times(schedule)["second"] == (15, 25)
    assert schedule.timelines[1].spans[0].started is None
