"""The results of trials: the value of the objective, and the JSON form."""

import json
from typing import Any

import pytest

from trainstack.errors import TrainstackError
from trainstack.settings.search_space.space import Objective
from trainstack.sweeps.search.results import TrialResult, from_json, objective_value, to_json

LINES: tuple[dict[str, Any], ...] = (
    {"epoch": 1, "val_accuracy": 0.5, "val_loss": 1.5},
    {"epoch": 2, "val_accuracy": 0.9, "val_loss": float("nan")},
    {"epoch": 3, "val_accuracy": 0.8, "val_loss": "low"},
    {"test_accuracy": 0.99},
)


@pytest.mark.parametrize(
    ("metric", "direction", "epoch", "value"),
    [
        ("val_accuracy", "maximize", "best", 0.9),
        ("val_accuracy", "minimize", "best", 0.5),
        ("val_accuracy", "maximize", "last", 0.8),
        ("val_accuracy", "maximize", 1, 0.5),
        ("val_accuracy", "maximize", 4, None),
        ("val_loss", "minimize", "last", 1.5),
        ("val_loss", "minimize", 2, None),
        ("other", "minimize", "best", None),
    ],
)
def test_the_objective_is_read_from_the_lines(metric: str, direction: Any, epoch: Any, value: float | None) -> None:
    """The epoch selects the line. A missing value or one that is not a number is None."""
    assert objective_value(LINES, Objective(metric=metric, direction=direction, epoch=epoch)) == value


def test_results_survive_a_round_trip_through_json() -> None:
    """`sweep next` reads the output of `sweep results --json`, and keeps the type of every value."""
    result = TrialResult(
        number=1,
        set_id="0123456789",
        run_id="search-0123456789",
        parameters={"a": 1, "b": 1.0, "c": True, "d": "1"},
        state="failed",
        metrics=LINES[:1],
        reason="exit code 1",
        last_lines=("Traceback",),
        attempts=2,
    )
    document = to_json("search", Objective(metric="val_accuracy", direction="maximize"), [result])
    assert document["trials"][0]["objective"] == 0.5
    (back,) = from_json(json.dumps(document), "search")
    assert repr(back) == repr(result)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text: Invalid JSON"),
        ("[]", "the text: Input should be an object"),
        ("{}", "has no `sweep`"),
        ('{"sweep": "search"}', "has no `trials`"),
        ('{"sweep": "other", "trials": []}', "holds the results of the sweep other, not of search"),
        ('{"sweep": "search", "trials": 1}', "`trials` is not a list of maps"),
        ('{"sweep": "search", "trials": [{"number": 1}]}', "0.set_id: Field required"),
    ],
)
def test_text_that_is_not_results_is_refused(text: str, message: str) -> None:
    with pytest.raises(TrainstackError, match=rf"^{message}"):
        from_json(text, "search")
