"""The best trial, and the reasons why trials are not ranked."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sweeps.search.make import fail, make_digits_space, make_results, make_trial
from trainstack.settings.search_space.space import Objective
from trainstack.sweeps.search.ranking import rank, read_test_metrics, thin_metrics, without_test_data
from trainstack.sweeps.search.results import objective_value

VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=6)


def make_objective(**changes: Any) -> Objective:
    """Return an objective that maximizes the validation accuracy."""
    return Objective(**{"metric": "val_accuracy", "direction": "maximize", **changes})


def test_the_ranking_matches_the_metrics_files(tmp_path: Path) -> None:
    """The test reads every line of every file with `json`, independently of the product."""
    space = make_digits_space()
    results = make_results(space)
    for result in results:
        lines = "".join(json.dumps(dict(line)) + "\n" for line in result.metrics)
        (tmp_path / f"{result.number}.jsonl").write_text(lines)
    read = {
        int(file.stem): max(json.loads(line).get("val_accuracy", 0) for line in file.read_text().splitlines())
        for file in tmp_path.iterdir()
    }
    found = rank(results, space.objective)
    assert [ranked.result.number for ranked in found.ranked] == sorted(read, key=lambda number: -read[number])
    assert found.best is not None
    assert found.best.value == max(read.values())


@given(st.lists(VALUES, max_size=8), st.sampled_from(["maximize", "minimize"]), st.sampled_from(["best", "last", 2]))
def test_no_trial_is_lost_and_none_is_better_than_the_best(
    trials: list[list[float]], direction: str, epoch: str | int
) -> None:
    """Their metrics may have any values; a value that is not finite counts as missing."""
    objective = make_objective(direction=direction, epoch=epoch)
    results = [make_trial(number, tuple(values)) for number, values in enumerate(trials, 1)]
    found = rank(results, objective)
    numbers = [ranked.result.number for ranked in found.ranked]
    numbers += [unranked.result.number for unranked in found.unranked]
    assert sorted(numbers) == list(range(1, len(trials) + 1))
    sign = 1 if direction == "maximize" else -1
    assert all(sign * found.ranked[0].value >= sign * ranked.value for ranked in found.ranked)
    for ranked in found.ranked:
        assert ranked.value == objective_value(ranked.result.metrics, objective) == ranked.line["val_accuracy"]
        better = sum(sign * other.value > sign * ranked.value for other in found.ranked)
        assert ranked.place == better + 1


@pytest.mark.parametrize(
    ("epoch", "direction", "value", "line"),
    [("best", "maximize", 0.9, 2), ("best", "minimize", 0.1, 1), ("last", "maximize", 0.9, 4), (3, "maximize", 0.3, 3)],
)
def test_the_epoch_is_that_of_the_selected_line(epoch: str | int, direction: str, value: float, line: int) -> None:
    """Of equal values the first line counts, or the last line with epoch `last`."""
    objective = make_objective(epoch=epoch, direction=direction)
    best = rank([make_trial(1, (0.1, 0.9, 0.3, 0.9))], objective).best
    assert best is not None
    assert (best.value, best.epoch) == (value, line)


def test_trials_with_equal_values_share_a_place_with_a_note() -> None:
    """The trial with the lowest number is the first of them."""
    values = {1: 0.5, 2: 0.9, 3: 0.9, 4: 0.7, 5: 0.9}
    found = rank([make_trial(number, (value,)) for number, value in reversed(values.items())], make_objective())
    assert [(ranked.place, ranked.result.number) for ranked in found.ranked] == [(1, 2), (1, 3), (1, 5), (4, 4), (5, 1)]
    assert found.notes() == [
        "trials 3, 5 have the same val_accuracy, 0.9; the trial with the lowest number, 2, is ranked first"
    ]


@pytest.mark.parametrize(
    ("objective", "lines", "why"),
    [
        ({}, [], "it wrote no metrics.jsonl to $TRAINSTACK_OUTPUT, and its log has no val_accuracy=<number>"),
        ({"metrics_format": "acc (?P<value>.*)"}, [], "its log has no match of metricsFormat"),
        (
            {"metric": "val_acuracy"},
            [{"epoch": 1, "val_accuracy": 0.5}, {"epoch": 1, "test_accuracy": 0.5}],
            "no line of its metrics has val_acuracy; they have epoch, val_accuracy (did you mean val_accuracy?)",
        ),
        ({}, [{"val_accuracy": 0.1}, {"val_accuracy": math.nan}], ""),
        ({}, [{"val_accuracy": math.nan}, {"val_accuracy": math.inf}], "its val_accuracy was never a number, but inf"),
        ({}, [{"val_accuracy": "high"}], "its val_accuracy was never a number, but 'high'"),
        ({}, [{"epoch": 1, "val_accuracy": True}], "its val_accuracy was never a number, but True"),
        (
            {"epoch": 12},
            [{"epoch": epoch, "val_accuracy": 0.5} for epoch in ("one", 2, 3)],
            "no line of its metrics has val_accuracy for epoch 12; there are lines of epochs 2 to 3",
        ),
        (
            {"epoch": 12},
            [{"epoch": epoch, "val_accuracy": 0.5} for epoch in range(1, 9)],
            "no line of its metrics has val_accuracy for epoch 12; there are lines of epochs 1 to 8",
        ),
        (
            {"epoch": 1},
            [{"val_accuracy": 0.5}],
            "no line of its metrics has val_accuracy for epoch 1; there are lines without an `epoch`",
        ),
    ],
)
def test_why_a_trial_that_succeeded_is_not_ranked(
    objective: dict[str, Any], lines: list[dict[str, Any]], why: str
) -> None:
    """The reason has what the metrics lack and what they have, without metrics of the test data."""
    found = rank([make_trial(1, metrics=tuple(lines))], make_objective(**objective))
    assert [unranked.reason for unranked in found.unranked] == ([why] if why else [])


def test_only_succeeded_trials_count() -> None:
    """A note reports a better trial that failed or is still running."""
    ahead, active, behind = make_trial(1, (0.99,)), make_trial(2, (0.2, 0.95)), make_trial(3, (0.1,))
    results = [
        fail(ahead, "deadline"),
        active.model_copy(update={"state": "running"}),
        fail(behind),
        make_trial(4, (0.9,)),
        make_trial(5, metrics=(), state="queued", reason="2 at once"),
    ]
    found = rank(results, make_objective())
    assert [ranked.result.number for ranked in found.ranked] == [4]
    assert [unranked.reason for unranked in found.unranked] == [
        "failed: deadline",
        "still running",
        "failed: crashed (exit 1)",
        "queued: 2 at once",
    ]
    assert found.notes() == [
        "trial 1 has had a better val_accuracy, 0.99, but does not count: failed: deadline",
        "trial 2 has had a better val_accuracy, 0.95, but does not count: still running",
    ]


@pytest.mark.parametrize("name", ["test_accuracy", "test/accuracy", "Test.accuracy", "testAccuracy"])
def test_metrics_of_the_test_data_are_identified_by_their_names(name: str) -> None:
    """The names have several spellings. Values that are not numbers are left out."""
    lines = ({"epoch": 1, "val_accuracy": 0.5, name: 0.25, "latest": 3, "test_note": "x"}, {"test_loss": 10**400})
    result = make_trial(1, metrics=lines)
    (hidden,) = without_test_data([result])
    assert hidden.metrics == ({"epoch": 1, "val_accuracy": 0.5, "latest": 3}, {})
    best = rank([result], make_digits_space().objective).best
    assert best is not None
    assert read_test_metrics(best) == {name: 0.25}


def test_without_any_value_there_is_no_best() -> None:
    """One note has all trials with the same reason."""
    found = rank([make_trial(number, metrics=()) for number in range(1, 15)], make_objective())
    assert found.best is None
    assert found.notes() == [f"trials 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 4 more not ranked: {found.unranked[0].reason}"]
    assert found.unranked[0].reason.startswith("it wrote no metrics.jsonl to $TRAINSTACK_OUTPUT")


@pytest.mark.parametrize(("objective", "index"), [({}, 777), ({"epoch": "last"}, 999), ({"epoch": 334}, 333)])
def test_a_thinned_series_keeps_the_line_that_counts(objective: dict[str, Any], index: int) -> None:
    """The other lines are evenly spaced, for a curve."""
    lines = [{"epoch": epoch, "val_accuracy": 0.5 + (epoch == 778) / 10} for epoch in range(1, 1001)]
    kept = thin_metrics(lines, make_objective(**objective), 100)
    assert lines[index] in kept
    assert 100 <= len(kept) <= 102
    assert thin_metrics(kept, make_objective(**objective), 200) == kept
    assert kept[0] == lines[0]


def test_only_the_best_trial_shows_metrics_of_the_test_data() -> None:
    """A comparison of trials does not show them."""
    results = [make_trial(1, (0.5,)), make_trial(2, (0.9,))]
    hidden = without_test_data(results)
    assert not [key for result in hidden for line in result.metrics for key in line if key.startswith("test_")]
    best = rank(results, make_objective()).best
    assert best is not None
    assert read_test_metrics(best) == {"test_accuracy": 0.502}
    assert [ranked.value for ranked in rank(hidden, make_objective()).ranked] == [0.9, 0.5]
