"""The file `sweeps/<name>/space.yaml`: a sweep's parameters, the method that draws sets, and the program's arguments.

The rules across several keys are in space_rules.py.
"""

from functools import cached_property
from math import isfinite
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from trainstack.settings.base import Section, raise_faults
from trainstack.settings.search_space.constraints import Value

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
"""The range of 64-bit integers, which programs and tables of results support."""
_Int64 = Annotated[int, Field(ge=MIN_INT64, le=MAX_INT64)]


def _check_scalar(value: object) -> object:
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not isfinite(value)):
        raise ValueError("is not a scalar; write a number, a string, true or false")
    if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
        raise ValueError(f"is not a 64-bit integer; write a string, or an integer from {MIN_INT64} to {MAX_INT64}")
    return value


def _check_epoch(value: object) -> object:
    if value not in ("best", "last") and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ValueError("is not an epoch; write best, last or a number")
    return value


ScalarValue = Annotated[Value, BeforeValidator(_check_scalar)]
"""A scalar, with its type in the file: `1` is an int, `1.0` a float."""
ManifestPath = Annotated[str, Field(pattern=r"^(metadata|spec)([.\[].+)$")]
"""The path of a value in an object; keys with other characters than letters, digits, '-' and '_' are in brackets."""
_MAX_LOGARITHM = 700.0
"""Near the natural logarithm of the greatest float, and near the negative one of the least."""
_MAX_NUMBER = 1e308
"""Near the greatest float."""
_OVERFLOW = "exceeds the range of floating-point numbers"
_NO_LOGARITHM = "low must be above 0 for a logarithm: raise it"


class IntRange(Section):
    """Integers from `low` to `high`, inclusive."""

    low: _Int64
    high: _Int64
    step: int = Field(1, ge=1)
    """The distance between values, from `low`."""
    log: bool = False
    """Draw uniformly in the logarithm."""

    @model_validator(mode="after")
    def _check_order(self) -> "IntRange":
        _check_range(self.low, self.high, log=self.log, has_step=self.step != 1)
        return self


class FloatRange(Section):
    """Numbers from `low` to `high`, inclusive."""

    low: float
    high: float
    step: float | None = Field(None, gt=0)
    """The distance between values, from `low`; None: any number in the range."""
    log: bool = False
    """Draw uniformly in the logarithm."""

    @model_validator(mode="after")
    def _check_order(self) -> "FloatRange":
        _check_range(self.low, self.high, log=self.log, has_step=self.step is not None)
        return self


class Uniform(Section):
    """A uniform distribution; for `logUniform`, of the logarithm."""

    low: float
    high: float

    @model_validator(mode="after")
    def _check_order(self) -> "Uniform":
        _check_range(self.low, self.high)
        return self


class Normal(Section):
    """A normal distribution; for `logNormal`, of the logarithm, with its mean and deviation."""

    mean: float
    std: float = Field(gt=0)
    low: float | None = None
    """None: no lower bound. Values outside the bounds are not drawn."""
    high: float | None = None

    @model_validator(mode="after")
    def _check_order(self) -> "Normal":
        if self.low is not None and self.high is not None:
            raise_faults(_order_faults(self.low, self.high))
        return self


class Parameter(Section):
    """A parameter: its values, given by exactly one of eight keys, and its condition."""

    values: tuple[ScalarValue, ...] | None = Field(None, min_length=1)
    """Ordered values."""
    categorical: tuple[ScalarValue, ...] | None = Field(None, min_length=1)
    """Unordered values."""
    int_range: IntRange | None = Field(None, alias="int")
    float_range: FloatRange | None = Field(None, alias="float")
    uniform: Uniform | None = None
    log_uniform: Uniform | None = None
    normal: Normal | None = None
    log_normal: Normal | None = None
    when: dict[str, Annotated[tuple[ScalarValue, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """A condition: the parameter is in a set only if each named parameter is, with one of the listed values."""

    @model_validator(mode="after")
    def _check_values(self) -> "Parameter":
        used_keys = [key for key, name in VALUE_FIELDS.items() if getattr(self, name) is not None]
        if len(used_keys) != 1:
            problem = f"sets {' and '.join(used_keys)}" if used_keys else "has no values"
            raise ValueError(f"{problem}: set exactly one of {', '.join(VALUE_FIELDS)}")
        if (self.log_uniform and self.log_uniform.low <= 0) or (
            self.log_normal and self.log_normal.low is not None and self.log_normal.low <= 0
        ):
            raise ValueError(_NO_LOGARITHM)
        if self.normal is not None and _max_magnitude(self.normal) > _MAX_NUMBER:
            raise ValueError(f"{_OVERFLOW}: lower mean or std")
        if self.log_normal is not None and _max_magnitude(self.log_normal) > _MAX_LOGARITHM:
            raise ValueError(f"{_OVERFLOW}: lower mean or std, which are of the logarithm")
        if len(self.typed_choices) < len(self.choices):
            raise ValueError("has a duplicate value: keep one")
        return self

    @property
    def choices(self) -> tuple[Value, ...]:
        return self.values or self.categorical or ()

    @property
    def string_choices(self) -> dict[int, str]:
        """The listed values that are strings, by their index in `choices`."""
        return {index: value for index, value in enumerate(self.choices) if isinstance(value, str)}

    @cached_property
    def typed_choices(self) -> frozenset[tuple[type, Value]]:
        """The listed values with their types: 1 is neither 1.0 nor true."""
        return frozenset((type(value), value) for value in self.choices)


VALUE_FIELDS = {field.alias or name: name for name, field in Parameter.model_fields.items() if name != "when"}
"""The fields that define a parameter's values, by their keys in the file."""


def is_test_metric(metric: str) -> bool:
    """Return whether a metric, such as `test/acc`, is of the test data, on which only the best trial is evaluated."""
    return metric.casefold().startswith("test")


class Objective(Section):
    """The metric that trials are compared by, which the program writes to metrics.jsonl for each epoch, or prints."""

    metric: str
    """Its key in metrics.jsonl, or its name in the log. It must not be a metric of the test data."""
    direction: Literal["minimize", "maximize"]
    epoch: Annotated[Literal["best", "last"] | int, BeforeValidator(_check_epoch)] = "best"
    """Which value counts: the best, the last, or that of this epoch."""
    metrics_format: str | None = None
    """A regular expression (RE2) that finds the metric in the log, with the group `(?P<value>…)`, and optionally
    `(?P<epoch>…)`. None: metrics.jsonl, or for a trial without it the known log formats and `<metric>=<number>`."""
    target: float | None = None
    """A trial that reaches this value ends the sweep (form `indexed`). None: all trials run."""


class Space(Section):
    """A search space, and how its sets are passed to the program."""

    method: Literal["grid", "random", "sobol", "halton", "list"]
    """`grid`: every combination, the last parameter changing fastest. `random`: independent draws. `sobol`, `halton`:
    scrambled quasi-random sequences, which cover the space more evenly. `list`: only the listed `sets`."""
    trials: int | None = Field(None, ge=1)
    """How many sets to draw; not for a grid or a list."""
    seed: int = Field(0, ge=0)
    parameters: dict[str, Parameter]
    constraints: tuple[str, ...] = ()
    """Comparisons such as `batch_size * lr <= 1`, which every set meets."""
    sets: tuple[dict[str, ScalarValue], ...] = ()
    """Additional sets, after those of the method. `trainstack sweep next` adds its proposals here."""
    objective: Objective
    args: tuple[str, ...] = ()
    """Arguments after those of the workload, with `${parameters.<name>}` for a value. An argument with a parameter that
    a set lacks is left out."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables that override the workload's, with the same references as in `args`."""
    fields: dict[ManifestPath, str] = Field(default_factory=dict)
    """Values of the workload's manifest by their paths, such as `spec.template.spec.containers[0].args[1]`, with the
    same references as in `args`. The manifest must have the fields."""
    file: str | None = Field(None, pattern="^/")
    """The program's path of hyperparams.yml; a trial's set is element JOB_ID, from 1. None: it is not mounted."""


class ParameterSet(Section):
    """One set of parameters."""

    number: int = Field(ge=1)
    """The position in the list, from 1. It may change when sets are added or reordered."""
    id: str = Field(pattern=r"^[0-9a-f]{10}$")
    """A hash of the parameters, whatever the set's position."""
    parameters: dict[str, ScalarValue] = Field(alias="hyperparam_set")


def _max_magnitude(normal: Normal) -> float:
    """Return the greatest absolute value of a draw: at most about one draw in 10^9 exceeds it."""
    return abs(normal.mean) + 6 * normal.std


def _order_faults(low: float, high: float) -> list[str]:
    return [f"high is {high}, below low {low}: raise high"] if high < low else []


def _check_range(low: float, high: float, *, log: bool = False, has_step: bool = False) -> None:
    faults = _order_faults(low, high)
    if log and low <= 0:
        faults.append(_NO_LOGARITHM)
    if not isfinite(high - low):
        faults.append(f"high minus low {_OVERFLOW}: raise low or lower high")
    if log and has_step:
        faults.append("log and step exclude each other: leave one out")
    raise_faults(faults)
