"""Proposed sets are new, better than random ones, and reproducible."""

import math
from collections.abc import Callable, Sequence

import pytest

from tests.unit.sweeps.search.spaces import MIXED, make
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import number_sets, set_id
from trainstack.settings.search_space.space import FloatRange, IntRange, Parameter, ParameterSet
from trainstack.settings.search_space.space_values import contains, is_parameter_active
from trainstack.sweeps.search.expand import SpaceError, expand
from trainstack.sweeps.search.propose import propose
from trainstack.sweeps.search.results import TrialResult
from trainstack.sweeps.search.sampling import coordinate_of, value_at

SPACE = make("random", MIXED, seed=3, trials=24, constraints=("batch_size * lr < 20",))


def score(parameters: dict[str, Value]) -> float:
    """Return a score whose maximum is at a learning rate of 0.001 with sgd."""
    return -((math.log10(float(parameters["lr"])) + 3) ** 2) - (parameters["optimizer"] != "sgd")


def results(sets: Sequence[ParameterSet], figure: Callable[[dict[str, Value]], float] = score) -> list[TrialResult]:
    """Return a result for every set: the first failed, and the second is running."""
    states = ("failed", "running", *["succeeded"] * len(sets))
    return [
        TrialResult(
            number=item.number,
            set_id=item.id,
            run_id=f"search-{item.id}",
            parameters=item.parameters,
            state=state,
            metrics=({"epoch": 1, "val_accuracy": figure(item.parameters)},) if state == "succeeded" else (),
        )
        for item, state in zip(sets, states, strict=False)
    ]


def test_proposals_are_new_sets_of_the_space() -> None:
    """They satisfy conditions, ranges, steps and constraints, and are reproducible."""
    sets = expand(SPACE)
    proposed = propose(SPACE, sets, results(sets), 6)
    assert propose(SPACE, sets, results(sets), 6) == proposed
    ids = {set_id(values) for values in proposed}
    assert len(ids) == 6
    assert not ids & {item.id for item in sets}
    for values in proposed:
        names = [name for name, item in SPACE.parameters.items() if is_parameter_active(item, values, SPACE.parameters)]
        assert list(values) == names
        assert [name for name in names if not contains(SPACE.parameters[name], values[name])] == []
        assert float(values["batch_size"]) * float(values["lr"]) < 20


def test_proposals_learn_from_results() -> None:
    """Half of them are better than the median of the random sets."""
    sets = expand(SPACE)
    tried = sorted(score(item.parameters) for item in sets)
    proposed = sorted(score(values) for values in propose(SPACE, sets, results(sets), 8))
    assert proposed[4] > tried[len(tried) // 2]


def test_proposals_keep_constraints() -> None:
    """The best results are at their boundary."""
    space = make("random", {"x": {"uniform": {"low": 0.0, "high": 1.0}}}, trials=14, constraints=("x < 0.5",))
    sets = expand(space)
    tried = results(sets, lambda parameters: float(parameters["x"]))
    assert max(float(values["x"]) for values in propose(space, sets, tried, 12)) < 0.5


def test_results_of_removed_sets_count() -> None:
    """A removed set is not proposed again, and a set outside the space causes no error."""
    sets = expand(SPACE)
    remaining = number_sets([item.parameters for item in sets[12:]])
    foreign = [result.model_copy(update={"parameters": {"x": 1}, "set_id": "0" * 10}) for result in results(sets)[5:6]]
    proposed = propose(SPACE, remaining, [*results(sets), *foreign], 3)
    assert not {set_id(values) for values in proposed} & {item.id for item in sets}


def test_an_exhausted_space_is_an_error() -> None:
    """No existing set is proposed."""
    space = make("grid", {"b": {"values": (1, 2, 3)}})
    with pytest.raises(SpaceError) as error:
        propose(space, expand(space), [], 1)
    assert str(error.value).endswith("but 1 are requested; request fewer, or widen the space")


def test_coordinates_are_inverted() -> None:
    """Optuna gets the coordinates of a set that it would have drawn for it."""
    for item in expand(SPACE):
        for name, original in item.parameters.items():
            parameter = SPACE.parameters[name]
            inverted = value_at(parameter, coordinate_of(parameter, original))
            assert inverted == (pytest.approx(original, rel=1e-5) if isinstance(original, float) else original)


def test_coordinates_of_a_long_range_are_calculated() -> None:
    """A search over 10^12 steps would take too long."""
    whole = Parameter(int_range=IntRange(low=1, high=10**12, step=3))
    tenths = Parameter(float_range=FloatRange(low=0, high=1e11, step=0.1))
    assert coordinate_of(whole, 10**12) == 333333333333
    assert coordinate_of(tenths, 12345678.9) == 123456789
