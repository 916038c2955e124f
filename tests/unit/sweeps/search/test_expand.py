"""The sets of a space are valid, distinct and reproducible."""

from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.sweeps.search.spaces import MIXED, make, spaces
from trainstack.settings.loading.sweep_files import list_sweeps, load_space
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import format_sets
from trainstack.settings.search_space.space import Space
from trainstack.settings.search_space.space_rules import faults_of_space
from trainstack.settings.search_space.space_values import contains, count_values, is_parameter_active
from trainstack.sweeps.search.expand import SpaceError, expand

ROOT = Path(__file__).resolve().parents[4]
FEW = settings(max_examples=settings().max_examples // 4)
"""Fewer examples: each one draws from a sampler, which takes about ten milliseconds."""


def sets_of(space: Space) -> list[dict[str, Value]]:
    """Return the parameters of the sets."""
    return [parameter_set.parameters for parameter_set in expand(space)]


def ids_of(space: Space) -> list[str]:
    """Return the ids of the sets."""
    return [parameter_set.id for parameter_set in expand(space)]


def expanded_if_there_are_enough(space: Space) -> list[str]:
    """Return the ids; reject spaces with fewer sets than `trials`."""
    try:
        return ids_of(space)
    except SpaceError:
        assume(False)
        raise


@given(spaces(method="grid", conditions=False))
@FEW
def test_a_grid_has_every_combination(space: Space) -> None:
    """Its size is the product of its parameters' counts."""
    assert len(expand(space)) == prod(count_values(parameter) or 0 for parameter in space.parameters.values())


@given(spaces())
@FEW
def test_every_set_is_valid_in_its_space(space: Space) -> None:
    """A set has a parameter if and only if its condition holds, with a value in its range and step."""
    assume(not list(faults_of_space(space)))
    assume(expanded_if_there_are_enough(space))
    for values in sets_of(space):
        names = [name for name, item in space.parameters.items() if is_parameter_active(item, values, space.parameters)]
        assert list(values) == names
        assert [name for name in names if not contains(space.parameters[name], values[name])] == []


@given(spaces())
@FEW
def test_sets_are_numbered_from_1_and_differ(space: Space) -> None:
    """Their ids differ too. Another expansion of the same space has the same sets."""
    ids = expanded_if_there_are_enough(space)
    assert [parameter_set.number for parameter_set in expand(space)] == list(range(1, len(ids) + 1))
    assert len(set(ids)) == len(ids)
    assert ids_of(space) == ids


@given(spaces(), st.randoms(use_true_random=False))
@FEW
def test_a_reordered_space_keeps_its_ids(space: Space, chance: object) -> None:
    """The order of its parameters does not matter."""
    ids = expanded_if_there_are_enough(space)
    names = list(space.parameters)
    chance.shuffle(names)  # type: ignore[attr-defined]
    reordered = space.model_copy(update={"parameters": {name: space.parameters[name] for name in names}})
    assert sorted(ids_of(reordered)) == sorted(ids)


@given(spaces())
@FEW
def test_more_trials_and_explicit_sets_keep_the_first_sets(space: Space) -> None:
    """Drawn sets keep their order, and an explicit set that was drawn is not duplicated."""
    ids = expanded_if_there_are_enough(space)
    own = space.model_copy(update={"sets": (sets_of(space)[-1],)})
    assert ids_of(own) == ids
    if space.trials is not None:
        assert ids_of(space.model_copy(update={"trials": max(1, space.trials - 1)})) == ids[: max(1, space.trials - 1)]


def test_an_added_value_keeps_the_other_sets() -> None:
    """A grid with an added value has the old sets and new ones, with other numbers."""
    small = make("grid", {"b": {"values": (32, 128)}, "lr": {"values": (0.1, 0.2)}})
    large = make("grid", {"b": {"values": (32, 64, 128)}, "lr": {"values": (0.1, 0.2)}})
    assert set(ids_of(small)) < set(ids_of(large))
    small_ids = ids_of(small)
    assert [parameter_set.number for parameter_set in expand(large) if parameter_set.id in small_ids] == [1, 2, 5, 6]


def test_an_added_parameter_does_not_change_the_draws_of_a_random_search() -> None:
    """Each parameter has its own random stream."""
    alone = make("random", {"lr": {"uniform": {"low": 0.0, "high": 1.0}}})
    both = make("random", {"a": {"uniform": {"low": 0.0, "high": 1.0}}, "lr": {"uniform": {"low": 0.0, "high": 1.0}}})
    assert [values["lr"] for values in sets_of(both)] == [values["lr"] for values in sets_of(alone)]
    assert [values["a"] for values in sets_of(both)] != [values["lr"] for values in sets_of(both)]


def test_another_seed_draws_other_sets() -> None:
    """This holds for every random method."""
    for method in ("random", "sobol", "halton"):
        one, other = (ids_of(make(method, MIXED, seed=seed)) for seed in (1, 2))
        assert not {*one} & {*other}


def test_a_quasi_random_search_covers_evenly() -> None:
    """Each of four values, and each quarter of a range, has 16 of 64 Sobol points."""
    space = make("sobol", {"b": {"values": (1, 2, 3, 4)}, "x": {"uniform": {"low": 0.0, "high": 4.0}}}, trials=64)
    drawn = sets_of(space)
    assert [sum(point["b"] == value for point in drawn) for value in (1, 2, 3, 4)] == [16] * 4
    assert [sum(quarter <= float(point["x"]) < quarter + 1 for point in drawn) for quarter in range(4)] == [16] * 4


def test_draws_have_the_quartiles_of_their_distributions() -> None:
    """There are 400 quasi-random draws."""
    kinds = {
        "n": {"normal": {"mean": 5.0, "std": 2.0}},
        "ln": {"logNormal": {"mean": 0.0, "std": 1.0}},
        "lu": {"logUniform": {"low": 0.01, "high": 100.0}},
        "u": {"uniform": {"low": 0.0, "high": 1.0}},
    }
    drawn = sets_of(make("halton", kinds, trials=400))
    quartiles = {name: sorted(float(point[name]) for point in drawn)[99::100][:3] for name in kinds}
    expected = {"n": [3.65, 5, 6.35], "ln": [0.51, 1, 1.963], "lu": [0.1, 1, 10], "u": [0.25, 0.5, 0.75]}
    for name, values in expected.items():
        assert quartiles[name] == pytest.approx(values, rel=0.05)


@pytest.mark.parametrize("method", ["random", "sobol", "halton"])
@pytest.mark.parametrize(
    "parameter",
    [
        {"normal": {"mean": 9e307, "std": 1e306}},
        {"normal": {"mean": 0.0, "std": 1.6e307}},
        {"logNormal": {"mean": 600.0, "std": 16.0}},
        {"uniform": {"low": -8e307, "high": 9e307}},
        {"logUniform": {"low": 5e-324, "high": 1.7e308}},
        {"float": {"low": -8e307, "high": 8e307, "step": 1e300}},
        {"int": {"low": -(2**63), "high": 2**63 - 1}},
        {"int": {"low": 1, "high": 2**63 - 1, "log": True}},
    ],
)
def test_the_largest_ranges_are_drawn_without_overflow(method: str, parameter: dict[str, Any]) -> None:
    """The largest allowed bounds give numbers in their range."""
    space = make(method, {"x": parameter}, trials=20)
    assert not list(faults_of_space(space))
    assert [values["x"] for values in sets_of(space) if not contains(space.parameters["x"], values["x"])] == []


def test_a_list_has_only_its_sets() -> None:
    """Whatever values its parameters have."""
    space = make("list", {"b": {"int": {"low": 1, "high": 9}}}, sets=({"b": 7}, {"b": 2}))
    assert sets_of(space) == [{"b": 7}, {"b": 2}]


def test_constraints_and_conditions_exclude_sets() -> None:
    """A grid excludes points that a constraint refuses, and those that differ only in an inactive parameter."""
    parameters = {
        "b": {"values": (1, 2, 3)},
        "o": {"categorical": ("sgd", "adam")},
        "m": {"values": (0.5, 0.9), "when": {"o": ("sgd",)}},
    }
    space = make("grid", parameters, constraints=("b < 3 or o == 'adam'", "m * b < 1"))
    assert sets_of(space) == [
        {"b": 1, "o": "sgd", "m": 0.5},
        {"b": 1, "o": "sgd", "m": 0.9},
        {"b": 1, "o": "adam"},
        {"b": 2, "o": "adam"},
        {"b": 3, "o": "adam"},
    ]


@pytest.mark.parametrize(
    ("space", "path", "message"),
    [
        (
            make("grid", {"b": {"values": (1, 2)}}, constraints=("b > 2",)),
            "constraints",
            "no point of the grid meets all constraints; remove a constraint, or add values",
        ),
        (
            make("random", {"b": {"values": (1, 2)}}, trials=3),
            "trials",
            "trials is 3, but the space has only 2 sets; lower it, or use method grid",
        ),
        (
            make("sobol", {"b": {"values": (1, 2)}}, trials=2, constraints=("b == 1",)),
            "trials",
            (
                "trials is 2, but 100 draws yielded 1 distinct sets that meet the constraints; lower it, or remove a "
                "constraint"
            ),
        ),
        (
            make("grid", {"b": {"values": (0, 1)}}, constraints=("1 / b > 0",)),
            "constraints",
            (
                "constraint '1 / b > 0' cannot be evaluated for {'b': 0}: division by zero; correct it, or "
                "the values of its parameters"
            ),
        ),
    ],
)
def test_a_space_without_enough_sets_is_refused(space: Space, path: str, message: str) -> None:
    """The error has the faulty setting and the remedy."""
    with pytest.raises(SpaceError) as error:
        expand(space)
    assert (error.value.path, str(error.value)) == (path, message)


def test_the_draws_of_a_seed_are_known() -> None:
    """The test fails if a new version of a library draws different sets, which would change existing sweeps."""
    expected = yaml.safe_load((Path(__file__).parent / "draws.yaml").read_text(encoding="utf-8"))
    drawn = {method: sets_of(make(method, MIXED, seed=7, trials=3)) for method in ("random", "sobol", "halton")}
    assert drawn == expected


@pytest.mark.parametrize("name", list_sweeps(ROOT))
def test_every_sweep_of_the_repository_is_current(name: str) -> None:
    """Its hyperparams.yml is what `trainstack sweep expand` writes."""
    space = load_space(ROOT, name).space
    assert (ROOT / "sweeps" / name / "hyperparams.yml").read_text(encoding="utf-8") == format_sets(
        name, space, expand(space)
    )
