"""The sets of a space: all of them allowed, each once, and always the same."""

import os
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.trials.spaces import make, spaces
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import text_of
from trainstack.settings.search_space.space import Space
from trainstack.settings.search_space.space_rules import faults
from trainstack.settings.search_space.space_values import active, contains, count
from trainstack.settings.search_space.spaces import load_space, sweeps
from trainstack.sweeps.search.expand import SpaceError, expand

ROOT = Path(__file__).resolve().parents[3]
FEW = settings(max_examples=settings().max_examples // 4)
"""Each example draws from a sampler, and takes some ten milliseconds."""

MIXED = {
    "batch_size": {"values": (32, 64, 128, 512)},
    "optimizer": {"categorical": ("sgd", "adam")},
    "momentum": {"float": {"low": 0.5, "high": 0.9, "step": 0.1}, "when": {"optimizer": ("sgd",)}},
    "lr": {"logUniform": {"low": 0.0001, "high": 0.1}},
    "dropout": {"normal": {"mean": 0.3, "std": 0.1, "low": 0.0, "high": 0.5}},
    "decay": {"logNormal": {"mean": -7.0, "std": 1.0}},
    "width": {"int": {"low": 1, "high": 512, "log": True}},
    "depth": {"int": {"low": 3, "high": 10, "step": 3}},
}
"""A parameter of each kind."""


def sets_of(space: Space) -> list[dict[str, Value]]:
    """The sets without their numbers."""
    return [each.parameters for each in expand(space)]


def ids_of(space: Space) -> list[str]:
    """The ids of the sets."""
    return [each.id for each in expand(space)]


def expanded_if_there_are_enough(space: Space) -> list[str]:
    """The ids; spaces that have fewer sets than they are asked for are not what the test is about."""
    try:
        return ids_of(space)
    except SpaceError:
        assume(False)
        raise


@given(spaces(method="grid", conditions=False))
@FEW
def test_a_grid_has_every_combination(space: Space) -> None:
    """Its size is the product of its parameters' counts."""
    assert len(expand(space)) == prod(count(each) or 0 for each in space.parameters.values())


@given(spaces())
@FEW
def test_every_set_is_of_its_space(space: Space) -> None:
    """Each parameter is there when its condition holds and only then, and in its range and step."""
    assume(not list(faults(space)))
    assume(expanded_if_there_are_enough(space))
    for given_set in sets_of(space):
        wanted = [name for name, each in space.parameters.items() if active(each, given_set, space.parameters)]
        assert list(given_set) == wanted
        assert [name for name in wanted if not contains(space.parameters[name], given_set[name])] == []


@given(spaces())
@FEW
def test_sets_are_numbered_from_1_and_differ(space: Space) -> None:
    """So do their ids; and the same space has the same sets again."""
    ids = expanded_if_there_are_enough(space)
    assert [each.number for each in expand(space)] == list(range(1, len(ids) + 1))
    assert len(set(ids)) == len(ids)
    assert ids_of(space) == ids


@given(spaces(), st.randoms(use_true_random=False))
@FEW
def test_a_reordered_space_keeps_its_ids(space: Space, chance: object) -> None:
    """In whatever order its parameters stand."""
    ids = expanded_if_there_are_enough(space)
    names = list(space.parameters)
    chance.shuffle(names)  # type: ignore[attr-defined]
    reordered = space.model_copy(update={"parameters": {name: space.parameters[name] for name in names}})
    assert sorted(ids_of(reordered)) == sorted(ids)


@given(spaces())
@FEW
def test_more_trials_and_sets_of_ones_own_keep_the_first(space: Space) -> None:
    """What was drawn stays where it was, and a set that is there already is not there twice."""
    ids = expanded_if_there_are_enough(space)
    own = space.model_copy(update={"sets": (sets_of(space)[-1],)})
    assert ids_of(own) == ids
    if space.trials is not None:
        assert ids_of(space.model_copy(update={"trials": max(1, space.trials - 1)})) == ids[: max(1, space.trials - 1)]


def test_a_value_more_keeps_the_sets_that_stay() -> None:
    """A grid with one value more has the new sets beside the old, under other numbers."""
    small = make("grid", {"b": {"values": (32, 128)}, "lr": {"values": (0.1, 0.2)}})
    large = make("grid", {"b": {"values": (32, 64, 128)}, "lr": {"values": (0.1, 0.2)}})
    assert set(ids_of(small)) < set(ids_of(large))
    assert [each.number for each in expand(large) if each.id in ids_of(small)] == [1, 2, 5, 6]


def test_another_parameter_leaves_a_random_search_its_draws() -> None:
    """Each parameter of it has a stream of its own."""
    alone = make("random", {"lr": {"uniform": {"low": 0.0, "high": 1.0}}})
    both = make("random", {"a": {"uniform": {"low": 0.0, "high": 1.0}}, "lr": {"uniform": {"low": 0.0, "high": 1.0}}})
    assert [each["lr"] for each in sets_of(both)] == [each["lr"] for each in sets_of(alone)]
    assert [each["a"] for each in sets_of(both)] != [each["lr"] for each in sets_of(both)]


def test_another_seed_draws_other_sets() -> None:
    """Of every method that draws."""
    for method in ("random", "sobol", "halton"):
        one, other = (ids_of(make(method, MIXED, seed=seed)) for seed in (1, 2))
        assert not {*one} & {*other}


def test_a_quasi_random_search_covers_evenly() -> None:
    """Of 64 Sobol points each of four values has 16, and each quarter of a range 16."""
    space = make("sobol", {"b": {"values": (1, 2, 3, 4)}, "x": {"uniform": {"low": 0.0, "high": 4.0}}}, trials=64)
    drawn = sets_of(space)
    assert [sum(each["b"] == value for each in drawn) for value in (1, 2, 3, 4)] == [16] * 4
    assert [sum(quarter <= float(each["x"]) < quarter + 1 for each in drawn) for quarter in range(4)] == [16] * 4


def test_distributions_are_what_they_say() -> None:
    """Medians and spreads of 400 quasi-random draws, against those of the distributions."""
    kinds = {
        "n": {"normal": {"mean": 5.0, "std": 2.0}},
        "ln": {"logNormal": {"mean": 0.0, "std": 1.0}},
        "lu": {"logUniform": {"low": 0.01, "high": 100.0}},
        "u": {"uniform": {"low": 0.0, "high": 1.0}},
    }
    drawn = sets_of(make("halton", kinds, trials=400))
    quartiles = {name: sorted(float(each[name]) for each in drawn)[99::100][:3] for name in kinds}
    expected = {"n": [3.65, 5, 6.35], "ln": [0.51, 1, 1.963], "lu": [0.1, 1, 10], "u": [0.25, 0.5, 0.75]}
    for name, wanted in expected.items():
        assert quartiles[name] == pytest.approx(wanted, rel=0.05)


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
def test_the_greatest_numbers_are_numbers(method: str, parameter: dict[str, Any]) -> None:
    """What a space may say at most is drawn as numbers of its range."""
    space = make(method, {"x": parameter}, trials=20)
    assert not list(faults(space))
    assert [each["x"] for each in sets_of(space) if not contains(space.parameters["x"], each["x"])] == []


def test_constraints_and_conditions_leave_sets_out() -> None:
    """A grid loses the points that a constraint refuses, and those that differ in what is not there."""
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
    """With the value that is to blame, and what would help."""
    with pytest.raises(SpaceError) as caught:
        expand(space)
    assert (caught.value.path, str(caught.value)) == (path, message)


HASHED = """
import ast, sys
from trainstack.settings.search_space.hyperparams import text_of
from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.expand import expand
for said in ast.literal_eval(sys.stdin.read()):
    space = Space.model_validate(said, by_alias=True, by_name=False)
    print(text_of("mixed", space, expand(space)))
"""


def test_the_file_does_not_depend_on_the_process() -> None:
    """Another one, with another hash seed of Python, writes the same bytes as this one."""
    other = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    here = [make(method, MIXED, seed=7, trials=6) for method in ("random", "sobol", "halton")]
    written = subprocess.run(
        [sys.executable, "-c", HASHED],
        input=repr([each.model_dump(by_alias=True, exclude_unset=True) for each in here]),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert written == "".join(text_of("mixed", each, expand(each)) + "\n" for each in here)


def test_the_draws_of_a_seed_are_known() -> None:
    """So that a library which draws differently is noticed before people's sweeps are another."""
    expected = yaml.safe_load((Path(__file__).parent / "draws.yaml").read_text(encoding="utf-8"))
    drawn = {method: sets_of(make(method, MIXED, seed=7, trials=3)) for method in ("random", "sobol", "halton")}
    assert drawn == expected


@pytest.mark.parametrize("name", sweeps(ROOT))
def test_every_sweep_of_the_repository_is_current(name: str) -> None:
    """Its hyperparams.yml is what `trainstack sweep expand` writes."""
    space = load_space(ROOT, name).space
    assert (ROOT / "sweeps" / name / "hyperparams.yml").read_text(encoding="utf-8") == text_of(
        name, space, expand(space)
    )
