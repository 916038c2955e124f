"""Random and quasi-random sets of a space, by Optuna's samplers and scipy's normal distributions.

The samplers draw uniformly. Each parameter therefore has a uniform coordinate: the number itself or its logarithm, the
index in a list, the number of steps, or the cumulative probability of a normal distribution.
"""

import hashlib
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import QMCSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Normal, Parameter, Space
from trainstack.settings.search_space.space_values import (
    count_values,
    is_same_value,
    limits,
    nearest_step,
    value_at_step,
)

Coordinate = bool | int | float | str
"""A parameter's value in Optuna."""

_SIGNIFICANT_DIGITS = 6
"""Significant digits of drawn numbers, so that libraries that differ in the last bit yield the same sets."""
_PROBABILITY_MARGIN = 1e-9
"""The minimum distance of a cumulative probability from 0 and 1, where the distribution is unbounded."""


def silence_optuna() -> None:
    """Turn off Optuna's log, which is of no use to users of trainstack."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def draw_sets(space: Space) -> Iterator[dict[str, Value]]:
    """Draw sets endlessly by the space's method and seed, ignoring conditions and constraints.

    The first sets stay the same when more are drawn and when parameters are reordered. In a random search, the draws of
    a parameter also stay the same when another one is added.
    """
    silence_optuna()
    points = _random_points(space) if space.method == "random" else _quasi_random_points(space)
    for point in points:
        yield {name: value_at(parameter, point[name]) for name, parameter in space.parameters.items()}


def _random_points(space: Space) -> Iterator[dict[str, Coordinate]]:
    study, trial = optuna.create_study(), create_trial(state=TrialState.RUNNING)
    # One random stream per parameter, so that their draws are independent.
    samplers = {name: RandomSampler(seed=derive_seed(space.seed, name)) for name in space.parameters}
    distributions = {name: distribution(parameter) for name, parameter in space.parameters.items()}
    while True:
        yield {
            name: sampler.sample_independent(study, trial, name, distributions[name])
            for name, sampler in samplers.items()
        }


def _quasi_random_points(space: Space) -> Iterator[dict[str, Coordinate]]:
    study, trial = optuna.create_study(), create_trial(state=TrialState.RUNNING)
    with warnings.catch_warnings():
        # The interface is experimental, and the version is pinned.
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = QMCSampler(qmc_type=space.method, scramble=True, seed=derive_seed(space.seed, ""))
    distributions = {name: distribution(space.parameters[name]) for name in sorted(space.parameters)}
    # The sampler omits parameters with a single value: the first choice, or the lowest number.
    fixed = {name: getattr(kind, "low", 0) for name, kind in distributions.items() if kind.single()}
    free = {name: kind for name, kind in distributions.items() if name not in fixed}
    while True:
        yield {**fixed, **sampler.sample_relative(study, trial, free)}


def derive_seed(seed: int, name: str) -> int:
    """Derive a seed of 32 bits, the size that numpy's RandomState accepts."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")


def distribution(parameter: Parameter) -> BaseDistribution:
    """Return the distribution of the parameter's coordinate."""
    if parameter.categorical is not None:
        return CategoricalDistribution(tuple(range(len(parameter.categorical))))
    int_range, float_range = parameter.int_range, parameter.float_range
    if int_range is not None and int_range.log:
        return IntDistribution(int_range.low, int_range.high, log=True)
    step_count = count_values(parameter)
    if step_count is not None:
        return IntDistribution(0, step_count - 1)
    if parameter.normal is not None or parameter.log_normal is not None:
        return FloatDistribution(_PROBABILITY_MARGIN, 1 - _PROBABILITY_MARGIN)
    low, high = limits(parameter)
    log = parameter.log_uniform is not None or (float_range is not None and float_range.log)
    return FloatDistribution(low or 0.0, high or 0.0, log=log)


def value_at(parameter: Parameter, coordinate: Coordinate) -> Value:
    """Return the parameter's value at a coordinate."""
    int_range, float_range = parameter.int_range, parameter.float_range
    if int_range is not None and int_range.log:
        return int(coordinate)
    if parameter.choices:
        return parameter.choices[int(coordinate)]
    if int_range is not None:
        return int_range.low + int(coordinate) * int_range.step
    if float_range is not None and float_range.step is not None:
        return value_at_step(float_range, int(coordinate))
    number = float(coordinate)
    if parameter.normal is not None:
        number = _quantile(parameter.normal, number)
    elif parameter.log_normal is not None:
        number = math.exp(_quantile(_normal_of_logarithm(parameter.log_normal), number))
    low, high = limits(parameter)
    rounded = float(f"{number:.{_SIGNIFICANT_DIGITS}g}") + 0.0
    # Rounding may exceed the bounds slightly.
    return min(max(rounded, -math.inf if low is None else low), math.inf if high is None else high)


def coordinate_of(parameter: Parameter, parameter_value: Value) -> Coordinate:
    """Return the coordinate of a valid value: the inverse of `value_at`."""
    int_range = parameter.int_range
    if int_range is not None and int_range.log:
        return int(parameter_value)
    if parameter.choices:
        return next(index for index, choice in enumerate(parameter.choices) if is_same_value(parameter_value, choice))
    number = float(parameter_value)
    if int_range is not None:
        return (int(parameter_value) - int_range.low) // int_range.step
    float_range = parameter.float_range
    if float_range is not None and float_range.step is not None:
        return nearest_step(float_range, number)
    if parameter.normal is not None:
        probability = _probability(parameter.normal, number)
    elif parameter.log_normal is not None:
        probability = _probability(_normal_of_logarithm(parameter.log_normal), math.log(number))
    else:
        return number
    return min(max(probability, _PROBABILITY_MARGIN), 1 - _PROBABILITY_MARGIN)


def frozen_trial(space: Space, parameters: Mapping[str, Value], figure: float | None) -> FrozenTrial:
    """Return Optuna's trial with these parameters; without a figure of the objective it counts as running."""
    return create_trial(
        state=TrialState.RUNNING if figure is None else TrialState.COMPLETE,
        value=figure,
        params={
            name: coordinate_of(space.parameters[name], parameter_value) for name, parameter_value in parameters.items()
        },
        distributions={name: distribution(space.parameters[name]) for name in parameters},
    )


def _normal_of_logarithm(normal: Normal) -> Normal:
    """Return the normal distribution of the logarithm, with its bounds."""
    low, high = (None if bound is None else math.log(bound) for bound in (normal.low, normal.high))
    return normal.model_copy(update={"low": low, "high": high})


def _quantile(normal: Normal, probability: float) -> float:
    return float(_truncnorm().ppf(probability, *_bounds(normal), loc=normal.mean, scale=normal.std))


def _probability(normal: Normal, number: float) -> float:
    return float(_truncnorm().cdf(number, *_bounds(normal), loc=normal.mean, scale=normal.std))


def _truncnorm() -> Any:
    """Return scipy's distribution. Freezing its parameters would take three times as long as an evaluation."""
    from scipy.stats import truncnorm  # noqa: PLC0415 (half a second, for those who have such a parameter)

    return truncnorm


def _bounds(normal: Normal) -> tuple[float, float]:
    """Return the bounds in standard deviations from the mean."""
    low = -math.inf if normal.low is None else (normal.low - normal.mean) / normal.std
    high = math.inf if normal.high is None else (normal.high - normal.mean) / normal.std
    return low, high
