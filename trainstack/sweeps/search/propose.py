"""Proposals of the next sets from the results so far, by Optuna's tree-structured Parzen estimator."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, Trial

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import set_id
from trainstack.settings.search_space.space import ParameterSet, Space
from trainstack.settings.search_space.space_values import contains, is_parameter_active
from trainstack.sweeps.search.expand import SpaceError, meets_constraints, normalize_set
from trainstack.sweeps.search.results import TrialResult, objective_value
from trainstack.sweeps.search.sampling import (
    Coordinate,
    derive_seed,
    distribution,
    frozen_trial,
    silence_optuna,
    value_at,
)

_PROPOSALS_PER_SET = 50
"""The average number of proposals per set before giving up on duplicates and constraints."""


def propose(
    space: Space, sets: Sequence[ParameterSet], results: Sequence[TrialResult], count: int
) -> tuple[dict[str, Value], ...]:
    """Propose `count` new sets; the same results give the same proposals.

    Sets of the sweep without a result count as running. Results of removed sets count too; those without a value of
    the objective are ignored. Raises SpaceError if there are not enough new sets that meet the constraints.
    """
    silence_optuna()
    study = optuna.create_study(
        direction=space.objective.direction,
        sampler=TPESampler(seed=derive_seed(space.seed, "next"), constant_liar=True),
    )
    study.add_trials(list(_previous_trials(space, sets, results)))
    taken_set_ids = {parameter_set.id for parameter_set in sets} | {trial_result.set_id for trial_result in results}
    proposed: list[dict[str, Value]] = []
    for _ in range(count * _PROPOSALS_PER_SET):
        if len(proposed) == count:
            return tuple(proposed)
        # The trial is never completed: later proposals treat it as a bad one and avoid its neighborhood.
        candidate = normalize_set(space, _suggest_set(space, study.ask()))
        if set_id(candidate) not in taken_set_ids and meets_constraints(space, candidate):
            taken_set_ids.add(set_id(candidate))
            proposed.append(candidate)
    raise SpaceError(
        "parameters",
        f"{count * _PROPOSALS_PER_SET} proposals yielded {len(proposed)} new sets that meet the constraints, but "
        f"{count} are requested; request fewer, or widen the space",
    )


def _previous_trials(
    space: Space, sets: Sequence[ParameterSet], results: Sequence[TrialResult]
) -> Iterator[FrozenTrial]:
    results_by_set = {trial_result.set_id: trial_result for trial_result in results}
    parameters = {trial_result.set_id: trial_result.parameters for trial_result in results} | {
        parameter_set.id: parameter_set.parameters for parameter_set in sets
    }
    for identifier, set_values in sorted(parameters.items()):
        if not _is_in_space(space, set_values):
            continue
        result = results_by_set.get(identifier)
        ended = result is not None and result.state in ("succeeded", "failed", "stopped")
        figure = objective_value(result.metrics, space.objective) if result and result.state == "succeeded" else None
        if ended and figure is None:
            continue
        yield frozen_trial(space, set_values, figure)


def _is_in_space(space: Space, set_values: Mapping[str, Value]) -> bool:
    """Return whether the current space contains such a set."""
    active_names = {
        name
        for name, parameter in space.parameters.items()
        if is_parameter_active(parameter, set_values, space.parameters)
    }
    return set_values.keys() == active_names and all(
        contains(space.parameters[name], set_value) for name, set_value in set_values.items()
    )


def _suggest_set(space: Space, trial: Trial) -> dict[str, Value]:
    """Return the set that Optuna suggests; a parameter is drawn after those that its conditions depend on."""
    parameters = space.parameters
    set_values: dict[str, Value] = {}
    for name in TopologicalSorter(
        {name: parameter.when.keys() for name, parameter in parameters.items()}
    ).static_order():
        if is_parameter_active(parameters[name], set_values, parameters):
            set_values[name] = value_at(
                parameters[name], _suggest_coordinate(trial, name, distribution(parameters[name]))
            )
    return set_values


def _suggest_coordinate(trial: Trial, name: str, coordinate_distribution: BaseDistribution) -> Coordinate:
    match coordinate_distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, coordinate_distribution.choices) or 0
        case IntDistribution():
            return trial.suggest_int(
                name,
                coordinate_distribution.low,
                coordinate_distribution.high,
                step=coordinate_distribution.step,
                log=coordinate_distribution.log,
            )
        case FloatDistribution():
            return trial.suggest_float(
                name,
                coordinate_distribution.low,
                coordinate_distribution.high,
                step=coordinate_distribution.step,
                log=coordinate_distribution.log,
            )
        case _:
            raise TypeError(f"no parameter has a {type(coordinate_distribution).__name__}")
