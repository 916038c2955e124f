"""`sweeps/<name>/space.yaml`: a sweep's parameters, how sets are drawn from them, and how a set reaches the program.

What has to hold between its parts stands in trainstack/settings/search_space/space_rules.py.
"""

from functools import cached_property
from math import isfinite
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from trainstack.settings.base import Section
from trainstack.settings.search_space.constraints import Value

LEAST_WHOLE, GREATEST_WHOLE = -(2**63), 2**63 - 1
"""The whole numbers that programs and tables of results hold."""
_Whole = Annotated[int, Field(ge=LEAST_WHOLE, le=GREATEST_WHOLE)]


def _single(value: object) -> object:
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not isfinite(value)):
        raise ValueError("is no single value; write a number, text, true or false")
    if isinstance(value, int) and not LEAST_WHOLE <= value <= GREATEST_WHOLE:
        raise ValueError(f"is no whole number of 64 bits; write text, or one from {LEAST_WHOLE} to {GREATEST_WHOLE}")
    return value


def _epoch(value: object) -> object:
    if value not in ("best", "last") and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ValueError("is no epoch; write best, last or a number")
    return value


Single = Annotated[Value, BeforeValidator(_single)]
"""A value as the file says it: `1` stays whole, `1.0` does not become so."""
_LOG_AND_STEP = ("log and step exclude each other", "leave one out")
_MOST_LOGARITHM = 700.0
"""Near the natural logarithm of the greatest float; its negative is that of the least."""
_GREATEST_NUMBER = 1e308
"""Nearly that of floats: what is drawn of a distribution that ends below it is one of them."""
_BEYOND = "goes beyond all numbers"
_NO_LOGARITHM = ("low is not above 0, where there is no logarithm", "raise it")


class IntRange(Section):
    """Whole numbers from `low` to `high`, both among them."""

    low: _Whole
    high: _Whole
    step: int = Field(1, ge=1)
    """Between two neighbours, counted from `low`."""
    log: bool = False
    """Drawn evenly in the logarithm."""

    @model_validator(mode="after")
    def _in_order(self) -> "IntRange":
        faults = _order_faults(self.low, self.high, log=self.log)
        if self.log and self.step != 1:
            faults.append(_LOG_AND_STEP)
        _refuse(*faults)
        return self


class FloatRange(Section):
    """Numbers from `low` to `high`, both among them."""

    low: float
    high: float
    step: float | None = Field(None, gt=0)
    """Between two neighbours, counted from `low`; None: any number between."""
    log: bool = False
    """Drawn evenly in the logarithm."""

    @model_validator(mode="after")
    def _in_order(self) -> "FloatRange":
        faults = [*_order_faults(self.low, self.high, log=self.log), *_width_faults(self.low, self.high)]
        if self.log and self.step is not None:
            faults.append(_LOG_AND_STEP)
        _refuse(*faults)
        return self


class Uniform(Section):
    """An even distribution between two numbers; of `logUniform` it is the logarithm that is even."""

    low: float
    high: float

    @model_validator(mode="after")
    def _in_order(self) -> "Uniform":
        _refuse(*_order_faults(self.low, self.high, log=False), *_width_faults(self.low, self.high))
        return self


class Normal(Section):
    """A normal distribution; of `logNormal` it is the logarithm that is normal, and has this mean and deviation."""

    mean: float
    std: float = Field(gt=0)
    low: float | None = None
    """None: no lower bound. What lies beyond a bound is not drawn."""
    high: float | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "Normal":
        if self.low is not None and self.high is not None:
            _refuse(*_order_faults(self.low, self.high, log=False))
        return self


class Parameter(Section):
    """One parameter: what it may be, said in one of eight ways, and when it is there."""

    values: tuple[Single, ...] | None = Field(None, min_length=1)
    """These, in an order that means something."""
    categorical: tuple[Single, ...] | None = Field(None, min_length=1)
    """These, in no order."""
    int_range: IntRange | None = Field(None, alias="int")
    float_range: FloatRange | None = Field(None, alias="float")
    uniform: Uniform | None = None
    log_uniform: Uniform | None = None
    normal: Normal | None = None
    log_normal: Normal | None = None
    when: dict[str, Annotated[tuple[Single, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """The parameter is in a set only where each of the named ones is, and has one of these values."""

    @model_validator(mode="after")
    def _one_way(self) -> "Parameter":
        said = [key for key, name in WAYS.items() if getattr(self, name) is not None]
        if len(said) != 1:
            given = f"says {' and '.join(said)}" if said else "does not say what it may be"
            _refuse((given, f"give one of {', '.join(WAYS)}"))
        if (self.log_uniform and self.log_uniform.low <= 0) or (
            self.log_normal and self.log_normal.low is not None and self.log_normal.low <= 0
        ):
            _refuse(_NO_LOGARITHM)
        if self.normal is not None and _reach(self.normal) > _GREATEST_NUMBER:
            _refuse((_BEYOND, "lower mean or std"))
        if self.log_normal is not None and _reach(self.log_normal) > _MOST_LOGARITHM:
            _refuse((_BEYOND, "mean and std are of the logarithm: lower them"))
        choices = self.choices
        if len(self.typed_choices) < len(choices):
            _refuse(("holds a value twice", "keep one"))
        return self

    @property
    def choices(self) -> tuple[Value, ...]:
        """The values that are listed; empty where they are not."""
        return self.values or self.categorical or ()

    @cached_property
    def typed_choices(self) -> frozenset[tuple[type, Value]]:
        """The same with their types, as `settings.search_space.space_values.same` tells them apart."""
        return frozenset((type(each), each) for each in self.choices)


WAYS = {
    "values": "values",
    "categorical": "categorical",
    "int": "int_range",
    "float": "float_range",
    "uniform": "uniform",
    "logUniform": "log_uniform",
    "normal": "normal",
    "logNormal": "log_normal",
}
"""The ways to say what a parameter may be: by key of the file, the field."""


def of_test_data(metric: str) -> bool:
    """Whether a figure is told of the test data, against which the best trial alone is held: `test_acc`, `test/acc`."""
    return metric.casefold().startswith("test")


class Objective(Section):
    """By what trials are compared: a figure that the program writes to metrics.jsonl for each epoch, or prints."""

    metric: str
    """Its key there, or its name in the log. Not one of the test data, which only the best trial is held against."""
    direction: Literal["minimize", "maximize"]
    epoch: Annotated[Literal["best", "last"] | int, BeforeValidator(_epoch)] = "best"
    """Which line counts: the best value of all, the last one that is told, or that of this `epoch`."""
    metrics_format: str | None = None
    """A regular expression (RE2) that finds the metric in the log, in the group `(?P<value>…)`; it may have a group
    `(?P<epoch>…)` too. None: metrics.jsonl, or, where a trial has none, the known formats and `<metric>=<number>`."""
    target: float | None = None
    """Enough: one trial that reaches it ends the sweep (form `indexed`). None: all trials are run."""


class Space(Section):
    """A search space, and the program's side of it."""

    method: Literal["grid", "random", "sobol", "halton"]
    """`grid`: every combination, the last parameter changing fastest. `random`: independent draws. `sobol`, `halton`:
    scrambled quasi-random sequences, which cover the space more evenly."""
    trials: int | None = Field(None, ge=1)
    """How many sets to draw; a grid has as many as it has."""
    seed: int = Field(0, ge=0)
    parameters: dict[str, Parameter]
    constraints: tuple[str, ...] = ()
    """Comparisons such as `batch_size * lr <= 1`: only sets that are so are drawn."""
    sets: tuple[dict[str, Single], ...] = ()
    """Sets after those of the method: a person's own, and those that `trainstack sweep next` proposes."""
    objective: Objective
    args: tuple[str, ...] = ()
    """Arguments after those of the workload, with `${parameters.<name>}` for a value. One that names a parameter which
    a set lacks is left out."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables over those of the workload, written as `args` are."""
    file: str | None = Field(None, pattern="^/")
    """Where the program finds hyperparams.yml; its own set is the element JOB_ID, counted from 1. None: it is not
    there."""


def _reach(normal: Normal) -> float:
    """How far from 0 the numbers of a normal distribution are, but for one draw in 10^9."""
    return abs(normal.mean) + 6 * normal.std


def _order_faults(low: float, high: float, *, log: bool) -> list[tuple[str, str]]:
    faults = []
    if high < low:
        faults.append((f"high is {high}, below low {low}", "raise high"))
    if log and low <= 0:
        faults.append(_NO_LOGARITHM)
    return faults


def _width_faults(low: float, high: float) -> list[tuple[str, str]]:
    return [] if isfinite(high - low) else [("from low to high is farther than all numbers", "raise low or lower high")]


def _refuse(*faults: tuple[str, str]) -> None:
    if faults:
        raise ValueError("; ".join(f"{problem}: {remedy}" for problem, remedy in faults))
