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
from trainstack.settings.search_space.space_values import count, limits, nearest_step, same, stepped

Coordinate = bool | int | float | str
"""A parameter's value in Optuna."""

_DIGITS = 6
"""Significant digits of drawn numbers, so that libraries that differ in the last bit yield the same sets."""
_EDGE = 1e-9
"""The minimum distance of a cumulative probability from 0 and 1, where the distribution is unbounded."""


def quietly() -> None:
    """Turn off Optuna's log, which is of no use to users of trainstack."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def draws(space: Space) -> Iterator[dict[str, Value]]:
    """Draw sets endlessly by the space's method and seed, ignoring conditions and constraints.

    The first sets stay the same when more are drawn and when parameters are reordered. In a random search, the draws of
    a parameter also stay the same when another one is added.
    """
    quietly()
    coordinates = _independent(space) if space.method == "random" else _sequence(space)
    for each in coordinates:
        yield {name: value(parameter, each[name]) for name, parameter in space.parameters.items()}


def _independent(space: Space) -> Iterator[dict[str, Coordinate]]:
    study, trial = optuna.create_study(), create_trial(state=TrialState.RUNNING)
    # One random stream per parameter, so that their draws are independent.
    samplers = {name: RandomSampler(seed=seed_of(space.seed, name)) for name in space.parameters}
    kinds = {name: distribution(parameter) for name, parameter in space.parameters.items()}
    while True:
        yield {name: each.sample_independent(study, trial, name, kinds[name]) for name, each in samplers.items()}


def _sequence(space: Space) -> Iterator[dict[str, Coordinate]]:
    study, trial = optuna.create_study(), create_trial(state=TrialState.RUNNING)
    with warnings.catch_warnings():
        # The interface is experimental, and the version is pinned.
        warnings.simplefilter("ignore", ExperimentalWarning)
        sampler = QMCSampler(qmc_type=space.method, scramble=True, seed=seed_of(space.seed, ""))
    kinds = {name: distribution(space.parameters[name]) for name in sorted(space.parameters)}
    # The sampler omits parameters with a single value: the first choice, or the lowest number.
    fixed = {name: getattr(kind, "low", 0) for name, kind in kinds.items() if kind.single()}
    free = {name: kind for name, kind in kinds.items() if name not in fixed}
    while True:
        yield {**fixed, **sampler.sample_relative(study, trial, free)}


def seed_of(seed: int, name: str) -> int:
    """Derive a seed of 32 bits, the size that numpy's RandomState accepts."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")


def distribution(parameter: Parameter) -> BaseDistribution:
    """Return the distribution of the parameter's coordinate."""
    if parameter.categorical is not None:
        return CategoricalDistribution(tuple(range(len(parameter.categorical))))
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None and whole.log:
        return IntDistribution(whole.low, whole.high, log=True)
    steps = count(parameter)
    if steps is not None:
        return IntDistribution(0, steps - 1)
    if parameter.normal is not None or parameter.log_normal is not None:
        return FloatDistribution(_EDGE, 1 - _EDGE)
    low, high = limits(parameter)
    log = parameter.log_uniform is not None or (numbers is not None and numbers.log)
    return FloatDistribution(low or 0.0, high or 0.0, log=log)


def value(parameter: Parameter, coordinate: Coordinate) -> Value:
    """Return the parameter's value at a coordinate."""
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None and whole.log:
        return int(coordinate)
    if parameter.choices:
        return parameter.choices[int(coordinate)]
    if whole is not None:
        return whole.low + int(coordinate) * whole.step
    if numbers is not None and numbers.step is not None:
        return stepped(numbers, int(coordinate))
    number = float(coordinate)
    if parameter.normal is not None:
        number = _quantile(parameter.normal, number)
    elif parameter.log_normal is not None:
        number = math.exp(_quantile(_of_logarithm(parameter.log_normal), number))
    low, high = limits(parameter)
    rounded = float(f"{number:.{_DIGITS}g}") + 0.0
    # Rounding may exceed the bounds slightly.
    return min(max(rounded, -math.inf if low is None else low), math.inf if high is None else high)


def coordinate(parameter: Parameter, given: Value) -> Coordinate:
    """Return the coordinate of a valid value: the inverse of `value_at`."""
    whole = parameter.int_range
    if whole is not None and whole.log:
        return int(given)
    if parameter.choices:
        return next(index for index, each in enumerate(parameter.choices) if same(given, each))
    number = float(given)
    if whole is not None:
        return (int(given) - whole.low) // whole.step
    numbers = parameter.float_range
    if numbers is not None and numbers.step is not None:
        return nearest_step(numbers, number)
    if parameter.normal is not None:
        share = _probability(parameter.normal, number)
    elif parameter.log_normal is not None:
        share = _probability(_of_logarithm(parameter.log_normal), math.log(number))
    else:
        return number
    return min(max(share, _EDGE), 1 - _EDGE)


def frozen_trial(space: Space, given: Mapping[str, Value], figure: float | None) -> FrozenTrial:
    """Return Optuna's trial with these parameters; without a figure of the objective it counts as running."""
    return create_trial(
        state=TrialState.RUNNING if figure is None else TrialState.COMPLETE,
        value=figure,
        params={name: coordinate(space.parameters[name], each) for name, each in given.items()},
        distributions={name: distribution(space.parameters[name]) for name in given},
    )


def _of_logarithm(normal: Normal) -> Normal:
    """Return the normal distribution of the logarithm, with its bounds."""
    low, high = (None if each is None else math.log(each) for each in (normal.low, normal.high))
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
