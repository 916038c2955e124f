"""The duration of a declared run, and the other values of a task."""

import pytest

from tests.unit.make import make_run, make_settings
from trainstack.forecast.tasks import Duration, build_task, run_duration
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.workloads import run_workloads
from trainstack.stack_objects.stack_objects import StackObjects


@pytest.mark.parametrize(
    ("declared", "deadline", "measured", "expected"),
    [
        (None, None, None, Duration(None, "unbounded")),
        (600, None, None, Duration(600, "declared")),
        (600, None, 500.0, Duration(600, "declared")),
        (None, None, 500.5, Duration(500.5, "measured")),
        (None, 900, None, Duration(900, "deadline")),
        (600, 900, None, Duration(600, "declared")),
        (None, 900, 500.5, Duration(500.5, "measured")),
        (1000, 900, None, Duration(900, "deadline")),
        (None, 900, 1000.0, Duration(900, "deadline")),
    ],
)
def test_a_declared_duration_has_precedence_over_a_measured_one_and_the_deadline_limits_both(
    declared: int | None, deadline: int | None, measured: float | None, expected: Duration
) -> None:
    """A deadline alone is the maximum; without any value the end is unknown."""
    run = make_run(expected_duration_seconds=declared, active_deadline_seconds=deadline)
    assert run_duration(run, measured) == expected


def test_a_task_has_the_settings_of_its_run() -> None:
    """Managed runs resume after an eviction, because they have checkpoints. Dependencies are in the same namespace."""
    settings = make_settings(
        make_run(name="second", depends_on=("first",), expected_duration_seconds=5),
        make_run(name="first", managed=False),
    )
    model = stack_model(StackObjects(settings))
    workloads = {workload.key: workload for workload in run_workloads(StackObjects(settings), model)}
    runs = {run.name: run for run in settings.workloads.runs}
    second = build_task(runs["second"], workloads["research/second"])
    first = build_task(runs["first"], workloads["research/first"], 7.0)
    assert (second.key, second.dependencies, second.is_resumable, second.is_queued) == (
        "research/second",
        ("research/first",),
        True,
        True,
    )
    assert (first.is_resumable, first.duration) == (False, Duration(7.0, "measured"))
