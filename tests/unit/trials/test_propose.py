"""The next sets: new ones, better ones than chance gives, and the same for the same results."""

import math
from collections.abc import Callable, Sequence

import pytest

from tests.unit.trials.spaces import make
from tests.unit.trials.test_expand import MIXED
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import numbered, set_id
from trainstack.settings.search_space.space import FloatRange, IntRange, Parameter, ParameterSet
from trainstack.settings.search_space.space_values import active, contains
from trainstack.sweeps.search.expand import SpaceError, expand
from trainstack.sweeps.search.propose import propose
from trainstack.sweeps.search.results import TrialResult
from trainstack.sweeps.search.sampling import coordinate, value

SPACE = make("random", MIXED, seed=3, trials=24, constraints=("batch_size * lr < 20",))


def score(parameters: dict[str, Value]) -> float:
    """Best at a learning rate of 0.001 with sgd."""
    return -((math.log10(float(parameters["lr"])) + 3) ** 2) - (parameters["optimizer"] != "sgd")


def results(sets: Sequence[ParameterSet], figure: Callable[[dict[str, Value]], float] = score) -> list[TrialResult]:
    """Every set tried; the first failed, and the second is under way."""
    states = ("failed", "running", *["succeeded"] * len(sets))
    return [
        TrialResult(
            number=each.number,
            set_id=each.id,
            run_id=f"search-{each.id}",
            parameters=each.parameters,
            state=state,
            metrics=({"epoch": 1, "val_accuracy": figure(each.parameters)},) if state == "succeeded" else (),
        )
        for each, state in zip(sets, states, strict=False)
    ]


def test_proposals_are_new_sets_of_the_space() -> None:
    """Each with what its conditions want, in range and step, and within the constraints; the same ones again."""
    sets = expand(SPACE)
    proposed = propose(SPACE, sets, results(sets), 6)
    assert propose(SPACE, sets, results(sets), 6) == proposed
    ids = {set_id(each) for each in proposed}
    assert len(ids) == 6
    assert not ids & {each.id for each in sets}
    for each in proposed:
        wanted = [name for name, one in SPACE.parameters.items() if active(one, each, SPACE.parameters)]
        assert list(each) == wanted
        assert [name for name in wanted if not contains(SPACE.parameters[name], each[name])] == []
        assert float(each["batch_size"]) * float(each["lr"]) < 20


def test_proposals_learn_from_results() -> None:
    """Half of them are better than the median of what was tried at random."""
    sets = expand(SPACE)
    tried = sorted(score(each.parameters) for each in sets)
    proposed = sorted(score(each) for each in propose(SPACE, sets, results(sets), 8))
    assert proposed[4] > tried[len(tried) // 2]


def test_proposals_keep_constraints() -> None:
    """Also where what is best so far lies at their edge."""
    space = make("random", {"x": {"uniform": {"low": 0.0, "high": 1.0}}}, trials=14, constraints=("x < 0.5",))
    sets = expand(space)
    told = results(sets, lambda parameters: float(parameters["x"]))
    assert max(float(each["x"]) for each in propose(space, sets, told, 12)) < 0.5


def test_results_of_sets_that_are_gone_count() -> None:
    """A set that was taken out is not proposed again, and one that the space does not have any more is no matter."""
    sets = expand(SPACE)
    left = numbered([each.parameters for each in sets[12:]])
    gone = [each.model_copy(update={"parameters": {"x": 1}, "set_id": "0" * 10}) for each in results(sets)[5:6]]
    proposed = propose(SPACE, left, [*results(sets), *gone], 3)
    assert not {set_id(each) for each in proposed} & {each.id for each in sets}


def test_a_space_that_is_used_up_is_said_to_be() -> None:
    """Instead of proposing what is there."""
    space = make("grid", {"b": {"values": (1, 2, 3)}})
    with pytest.raises(SpaceError) as caught:
        propose(space, expand(space), [], 1)
    assert str(caught.value).endswith("but 1 are requested; request fewer, or widen the space")


def test_coordinates_are_undone() -> None:
    """What Optuna is told of a set is what it would have drawn for it."""
    for each in expand(SPACE):
        for name, given in each.parameters.items():
            parameter = SPACE.parameters[name]
            back = value(parameter, coordinate(parameter, given))
            assert back == (pytest.approx(given, rel=1e-5) if isinstance(given, float) else given)


def test_coordinates_of_a_long_range_are_reckoned() -> None:
    """Not looked for: nobody waits for a million million steps to be counted."""
    whole = Parameter(int_range=IntRange(low=1, high=10**12, step=3))
    tenths = Parameter(float_range=FloatRange(low=0, high=1e11, step=0.1))
    assert coordinate(whole, 10**12) == 333333333333
    assert coordinate(tenths, 12345678.9) == 123456789
