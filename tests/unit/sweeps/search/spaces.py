"""Hypothesis strategies of spaces with every kind of parameter, conditions, and every method."""

from typing import Any

from hypothesis import strategies as st

from trainstack.settings.search_space.space import Space

NUMBERS = st.integers(-1000, 1000)
SCALES = st.sampled_from([1e-6, 0.001, 0.25, 1.0, 32.0])
WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=6)
LISTED = st.lists(st.one_of(st.booleans(), NUMBERS, SCALES, WORDS), min_size=1, max_size=4)
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
"""One parameter of each kind."""


def distinct(values: list[Any]) -> tuple[Any, ...]:
    """Return the values without duplicates of the same type."""
    return tuple({(type(value), value): value for value in values}.values())


@st.composite
def stepped(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a range of at most five points."""
    low, step, points = draw(NUMBERS), draw(st.integers(1, 9)), draw(st.integers(1, 5))
    if draw(st.booleans()):
        return {"int": {"low": low, "high": low + step * (points - 1) + draw(st.integers(0, step - 1)), "step": step}}
    scale = draw(st.sampled_from([0.1, 0.01, 2.5]))
    return {"float": {"low": low * scale, "high": low * scale + step * scale * points, "step": step * scale}}


@st.composite
def between(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a continuous or large range."""
    low = draw(SCALES)
    bounds = {"low": low, "high": low * draw(st.sampled_from([1.0, 1.5, 10.0, 1000.0]))}
    whole = {"low": draw(st.integers(1, 20)), "high": draw(st.integers(20, 5000)), "log": True}
    bell = {"mean": draw(st.floats(-3, 3)), "std": draw(SCALES)}
    return draw(
        st.sampled_from(
            [
                {"int": whole},
                {"float": bounds},
                {"float": {**bounds, "log": True}},
                {"uniform": bounds},
                {"logUniform": bounds},
                {"normal": bell},
                {"normal": {**bell, "low": bell["mean"] - 1.0, "high": bell["mean"] + 0.5}},
                {"logNormal": {**bell, "std": 0.5}},
            ]
        )
    )


def parameters(countable: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of one parameter in the form of a file."""
    listed = LISTED.map(distinct)
    kinds = [
        listed.map(lambda values: {"values": values}),
        listed.map(lambda values: {"categorical": values}),
        stepped(),
    ]
    return st.one_of(*kinds, *([] if countable else [between()]))


@st.composite
def spaces(draw: st.DrawFn, method: str | None = None, conditions: bool = True) -> Space:
    """Draw a space of one to four parameters, some of which may depend on values of the first."""
    chosen = method or draw(st.sampled_from(["grid", "random", "sobol", "halton"]))
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4, unique=True))
    drawn = {name: dict(draw(parameters(countable=chosen == "grid"))) for name in names}
    listed = drawn[names[0]].get("values") or drawn[names[0]].get("categorical") or ()
    for name in names[1:] if conditions and listed else ():
        if draw(st.booleans()):
            drawn[name]["when"] = {names[0]: (draw(st.sampled_from(listed)),)}
    return make(chosen, drawn, seed=draw(st.integers(0, 2**40)), trials=draw(st.integers(1, 5)))


def make(method: str, parameters: dict[str, Any], *, seed: int = 0, trials: int = 4, **changes: Any) -> Space:
    """Return a space with parameters in the form of a file."""
    return Space.model_validate(
        {
            "method": method,
            "seed": seed,
            "trials": None if method == "grid" else trials,
            "parameters": parameters,
            "objective": {"metric": "val_accuracy", "direction": "maximize"},
            "file": "/work/hyperparams.yml",
            **changes,
        },
        by_alias=True,
        by_name=False,
    )
