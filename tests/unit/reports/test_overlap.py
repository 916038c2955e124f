"""The time for which runs shared a node, and its warning in a comparison."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.reports.make import make_record, make_run
from trainstack.reports.comparison import compare
from trainstack.reports.overlap import RunPlacement, format_duration, shared_times
from trainstack.reports.run_figures import run_from_record

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def make_placement(node: str | None, start: float, end: float) -> RunPlacement:
    """Return a placement between two minutes after noon."""
    return RunPlacement(node, NOON + timedelta(minutes=start), NOON + timedelta(minutes=end))


@pytest.mark.parametrize(
    ("one", "other", "minutes"),
    [
        pytest.param([("a", 0, 10)], [("a", 10, 20)], {}, id="one after the other"),
        pytest.param([("a", 0, 10)], [("b", 0, 10)], {}, id="on different nodes"),
        pytest.param([("a", 0, 10)], [("a", 4, 20)], {"a": 6}, id="for a part"),
        pytest.param([("a", 0, 10), ("a", 0, 10)], [("a", 4, 6)], {"a": 2}, id="several replicas count once"),
        pytest.param([("a", 0, 2), ("a", 8, 10)], [("a", 1, 9)], {"a": 2}, id="with a pause between two attempts"),
        pytest.param([("b", 0, 9), ("a", 0, 9)], [("a", 1, 2), ("b", 1, 4)], {"a": 1, "b": 3}, id="on two nodes"),
        pytest.param([(None, 0, 10)], [("a", 4, 20)], {None: 6}, id="of one the node is not known"),
        pytest.param([(None, 0, 10)], [(None, 10, 20)], {}, id="nodes not known, one after the other"),
        pytest.param([], [("a", 0, 10)], {}, id="nothing is known"),
    ],
)
def test_the_time_on_shared_nodes(
    one: list[tuple[str | None, float, float]],
    other: list[tuple[str | None, float, float]],
    minutes: dict[str | None, float],
) -> None:
    """The result is symmetric."""
    first, second = (
        [make_placement(*placement) for placement in one],
        [make_placement(*placement) for placement in other],
    )
    expected = {node: timedelta(minutes=count) for node, count in minutes.items()}
    assert shared_times(first, second) == shared_times(second, first) == expected


@pytest.mark.parametrize(("seconds", "words"), [(0.6, "1 s"), (119, "119 s"), (120, "2 min"), (610, "10 min")])
def test_a_time_in_words(seconds: float, words: str) -> None:
    """It is exact to the second, for longer times to the minute."""
    assert format_duration(timedelta(seconds=seconds)) == words


def test_runs_that_shared_a_node_are_warned_of() -> None:
    """The warning has the node and the time; every two runs are compared."""
    runs = [
        make_run("alone", placements=(make_placement("a", 0, 10),)),
        make_run("pair", world=2, placements=(make_placement("a", 9, 12), make_placement("b", 9, 12))),
        make_run("other", world=2, placements=(make_placement("b", 11, 20),)),
    ]
    shares = (
        "and shared its CPUs: times per epoch and the speed-up are not comparable. Run them in sequence (`dependsOn`)"
    )
    assert compare(runs).warnings == (
        f"alone and pair ran on node a at the same time for 60 s {shares}",
        f"pair and other ran on node b at the same time for 60 s {shares}",
    )


def test_many_runs_on_a_node_are_one_warning() -> None:
    """It has their names and the longest time of two of them."""
    runs = [make_run(f"r{number}", placements=(make_placement("a", number, 10),)) for number in range(4)]
    (warning,) = compare(runs).warnings
    assert warning.startswith("4 runs (r0, r1, r2, r3) ran on node a at the same time for up to 9 min and shared its")


def test_records_have_the_time_of_a_run_and_not_its_node(tmp_path: Path) -> None:
    """The result is a note, not a warning."""
    times = {"started": "2026-11-21T12:00:00Z", "finished": "2026-11-21T12:10:00Z"}
    recorded = run_from_record(make_record(tmp_path / "r", {}, [{"epoch": 1}], **times), "r-0123456789")
    assert recorded.placements == (make_placement(None, 0, 10),)
    compared = compare([recorded, make_run("alone", placements=(make_placement("a", 5, 7),))])
    assert not [warning for warning in compared.warnings if "at the same time" in warning]
    assert compared.notes[-1] == (
        "digits and alone ran at the same time for 2 min; it is unknown whether they shared a node: a record has no "
        "nodes, and the pods no longer exist"
    )
