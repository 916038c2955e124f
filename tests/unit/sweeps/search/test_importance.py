"""The importance of parameters."""

import pytest

from tests.unit.sweeps.search.make import fail, make_digits_space, make_mixed_space, make_results
from trainstack.sweeps.search.importance import LEAST_TRIALS, importance
from trainstack.sweeps.search.ranking import rank


def test_the_decisive_parameter_is_first() -> None:
    """Among numbers, categories and conditional parameters. The shares add up to 1."""
    space = make_mixed_space()
    found = importance(space, rank(make_results(space), space.objective))
    assert next(iter(found)) == "lr"
    assert found["lr"] > 0.5
    assert sum(found.values()) == pytest.approx(1)
    assert found.keys() == space.parameters.keys()


@pytest.mark.parametrize(("decisive", "greatest"), [("batch_size", 128), ("lr", 0.1)])
def test_a_small_grid_is_enough(decisive: str, greatest: float) -> None:
    """It has twelve trials of two parameters."""
    space = make_digits_space()
    results = make_results(space, good=lambda parameters: float(parameters[decisive]) / greatest)
    assert importance(space, rank(results, space.objective))[decisive] > 0.8


def test_too_few_trials_have_no_importance() -> None:
    """Trials with equal values, and a parameter with one value, have none either."""
    space = make_digits_space()
    results = make_results(space)
    few = [*(fail(trial) for trial in results[LEAST_TRIALS - 1 :]), *results[: LEAST_TRIALS - 1]]
    assert importance(space, rank(few, space.objective)) == {}
    equal = make_results(space, epochs=1)
    equal = [trial.model_copy(update={"metrics": ({"val_accuracy": 0.5},)}) for trial in equal]
    assert importance(space, rank(equal, space.objective)) == {}
    fixed = make_digits_space(parameters={"lr": {"int": {"low": 1, "high": 12}}, "batch_size": {"values": [32]}})
    results = make_results(fixed, good=lambda parameters: float(parameters["lr"]))
    assert importance(fixed, rank(results, fixed.objective)) == {"lr": 1}
