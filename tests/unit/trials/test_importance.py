"""Which parameters matter."""

import pytest

from tests.unit.trials.make import fail, make_digits_space, make_mixed_space, make_results
from trainstack.sweeps.search.importance import LEAST_TRIALS, importance
from trainstack.sweeps.search.ranking import rank


def test_the_parameter_that_decides_comes_first() -> None:
    """Among numbers, categories and conditional parameters; the shares are those of one whole."""
    space = make_mixed_space()
    found = importance(space, rank(make_results(space), space.objective))
    assert next(iter(found)) == "lr"
    assert found["lr"] > 0.5
    assert sum(found.values()) == pytest.approx(1)
    assert found.keys() == space.parameters.keys()


@pytest.mark.parametrize(("decides", "greatest"), [("batch_size", 128), ("lr", 0.1)])
def test_a_small_grid_tells_it_too(decides: str, greatest: float) -> None:
    """Twelve trials of two parameters."""
    space = make_digits_space()
    results = make_results(space, good=lambda given: float(given[decides]) / greatest)
    assert importance(space, rank(results, space.objective))[decides] > 0.8


def test_nothing_is_told_of_too_few_trials() -> None:
    """Nor where all have the same value; and not of a parameter that is always the same."""
    space = make_digits_space()
    results = make_results(space)
    few = [*(fail(each) for each in results[LEAST_TRIALS - 1 :]), *results[: LEAST_TRIALS - 1]]
    assert importance(space, rank(few, space.objective)) == {}
    equal = make_results(space, epochs=1)
    equal = [each.model_copy(update={"metrics": ({"val_accuracy": 0.5},)}) for each in equal]
    assert importance(space, rank(equal, space.objective)) == {}
    fixed = make_digits_space(parameters={"lr": {"int": {"low": 1, "high": 12}}, "batch_size": {"values": [32]}})
    results = make_results(fixed, good=lambda given: float(given["lr"]))
    assert importance(fixed, rank(results, fixed.objective)) == {"lr": 1}
