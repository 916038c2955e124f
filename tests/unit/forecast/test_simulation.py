"""The simulated start and end times of runs."""

from dataclasses import replace

import pytest

from tests.unit.forecast.make import make_node, make_plan, make_task, times
from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue
from trainstack.forecast.node_pool import NodePool
from trainstack.kueue.model import Preemption

LOWER = Preemption(within_cluster_queue="LowerPriority")


def test_runs_wait_for_quota_and_get_it_when_others_end() -> None:
    """They start in the order of the queue; small runs pass large ones if they fit."""
    schedule = make_plan(
        make_task("first", 30, cpu=3), make_task("large", 20, cpu=4), make_task("small", 5), make_task("last", 10)
    )
    assert times(schedule) == {"first": (0, 30), "large": (30, 50), "small": (0, 5), "last": (5, 15)}
    assert [round(timeline.wait or 0) for timeline in schedule.timelines] == [0, 30, 0, 5]
    assert (round(schedule.makespan), schedule.endless_timelines) == (50, ())


def test_waiting_runs_are_ordered_by_priority_first() -> None:
    schedule = make_plan(make_task("low", 10, cpu=4), make_task("high", 10, cpu=4, priority=5))
    assert times(schedule) == {"high": (0, 10), "low": (10, 20)}


@pytest.mark.parametrize(("resumes", "end"), [(True, 30), (False, 38)])
def test_an_evicted_run_resumes_or_restarts(*, resumes: bool, end: int) -> None:
    """A run with checkpoints resumes: only the unfinished part remains."""
    low = make_task("low", 20, cpu=4, is_resumable=resumes)
    urgent = make_task("urgent", 10, cpu=4, priority=5, dependencies=("ns/before",))
    before = make_task("before", 8, queue="r")
    model = make_model(make_queue(preemption=LOWER), make_queue("r"))
    schedule = make_plan(low, urgent, before, model=model)
    assert times(schedule) == {"low": (0, end), "urgent": (8, 18), "before": (0, 8)}
    timeline = schedule.timelines[0]
    assert [(round(span.started or 0), round(span.ended or 0), span.evicted_by) for span in timeline.spans] == [
        (0, 8, "ns/urgent"),
        (18, end, ""),
    ]
    assert (timeline.evictions, round(timeline.wait or 0)) == (1, 10)


def test_a_run_is_submitted_when_its_dependencies_have_ended() -> None:
    """A run that depends on an endless one is never submitted. Dependencies outside the plan have ended."""
    schedule = make_plan(
        make_task("data", 10),
        make_task("more", 15),
        make_task("train", 5, dependencies=("ns/data", "ns/more", "ns/elsewhere")),
        make_task("loader", None),
        make_task("never", 5, dependencies=("ns/loader", "ns/data")),
    )
    assert times(schedule) == {
        "data": (0, 10),
        "more": (0, 15),
        "train": (15, 20),
        "loader": (0, None),
        "never": (None, None),
    }
    assert [timeline.submitted and round(timeline.submitted) for timeline in schedule.timelines] == [0, 0, 15, 0, None]


def test_a_run_without_an_end_never_releases_its_quota() -> None:
    """A run that needs the quota never starts; the makespan is that of the others."""
    schedule = make_plan(make_task("endless", None, cpu=2), make_task("large", 5, cpu=4), make_task("small", 5))
    assert times(schedule) == {"endless": (0, None), "large": (None, None), "small": (0, 5)}
    assert round(schedule.makespan) == 5
    assert [timeline.task.workload.name for timeline in schedule.endless_timelines] == ["endless", "large"]


def test_a_run_without_a_queue_starts_at_once() -> None:
    """It uses no quota, and others may wait for its end."""
    schedule = make_plan(
        make_task("all", 20, cpu=4),
        make_task("free", 5, cpu=4, queue=""),
        make_task("after", 1, dependencies=("ns/free",)),
    )
    assert times(schedule) == {"all": (0, 20), "free": (0, 5), "after": (20, 21)}
    assert schedule.timelines[1].spans[0].usage == {}


def test_the_elapsed_time_of_a_live_workload_counts() -> None:
    """It ends after the remaining time; an overdue workload ends now."""
    running, overdue = make_admitted("running", cpu=2), make_admitted("overdue", cpu=2)
    schedule = make_plan(
        replace(make_task("running", 30, cpu=2), elapsed=20.0),
        replace(make_task("overdue", 30, cpu=2), elapsed=40.0),
        make_task("waits", 5, cpu=4),
        admitted=(running, overdue),
    )
    assert times(schedule) == {"running": (-20, 10), "overdue": (-40, 0), "waits": (10, 15)}
    assert [round(timeline.wait or 0) for timeline in schedule.timelines] == [0, 0, 10]
    assert schedule.timelines[0].spans[0].assignments[0].flavors == {"cpu": "cpu"}


def test_a_run_with_quota_waits_for_nodes() -> None:
    """All its pods are placed or none; runs that were admitted later may pass."""
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


def test_an_evicted_run_without_a_node_loses_nothing() -> None:
    """It has not run."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 8}}, preemption=LOWER))
    nodes = NodePool([make_node("one")], model.flavors or {})
    schedule = make_plan(
        make_task("first", 10, cpu=4, priority=1),
        make_task("second", 10, cpu=4, is_resumable=True),
        make_task("urgent", 5, cpu=4, priority=5, dependencies=("ns/free",)),
        make_task("free", 3, cpu=0, queue=""),
        model=model,
        nodes=nodes,
    )
    assert times(schedule)["second"] == (15, 25)
    assert schedule.timelines[1].spans[0].started is None
