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
from trainstack.settings.search_space.space_values import active, contains
from trainstack.sweeps.search.expand import SpaceError, allowed, in_order
from trainstack.sweeps.search.results import TrialResult, objective_value
from trainstack.sweeps.search.sampling import Coordinate, distribution, frozen_trial, quietly, seed_of, value

_ASKED_PER_SET = 50
"""The average number of proposals per set before giving up on duplicates and constraints."""


def propose(
    space: Space, sets: Sequence[ParameterSet], results: Sequence[TrialResult], count: int
) -> tuple[dict[str, Value], ...]:
    """Propose `count` new sets; the same results give the same proposals.

    Sets of the sweep without a result count as running. Results of removed sets count too; those without a value of
    the objective are ignored. Raises SpaceError if there are not enough new sets that meet the constraints.
    """
    quietly()
    study = optuna.create_study(
        direction=space.objective.direction,
        sampler=TPESampler(seed=seed_of(space.seed, "next"), constant_liar=True),
    )
    study.add_trials(list(_known(space, sets, results)))
    taken = {each.id for each in sets} | {each.set_id for each in results}
    proposed: list[dict[str, Value]] = []
    for _ in range(count * _ASKED_PER_SET):
        if len(proposed) == count:
            return tuple(proposed)
        # The trial is never completed: later proposals treat it as a bad one and avoid its neighborhood.
        found = in_order(space, _suggested(space, study.ask()))
        if set_id(found) not in taken and allowed(space, found):
            taken.add(set_id(found))
            proposed.append(found)
    raise SpaceError(
        "parameters",
        f"{count * _ASKED_PER_SET} proposals yielded {len(proposed)} new sets that meet the constraints, but "
        f"{count} are requested; request fewer, or widen the space",
    )


def _known(space: Space, sets: Sequence[ParameterSet], results: Sequence[TrialResult]) -> Iterator[FrozenTrial]:
    by_set = {each.set_id: each for each in results}
    parameters = {each.set_id: each.parameters for each in results} | {each.id: each.parameters for each in sets}
    for set_id_, given in sorted(parameters.items()):
        if not _is_of(space, given):
            continue
        result = by_set.get(set_id_)
        ended = result is not None and result.state in ("succeeded", "failed", "stopped")
        figure = objective_value(result.metrics, space.objective) if result and result.state == "succeeded" else None
        if ended and figure is None:
            continue
        yield frozen_trial(space, given, figure)


def _is_of(space: Space, given: Mapping[str, Value]) -> bool:
    """Return whether the current space contains such a set."""
    wanted = {name for name, each in space.parameters.items() if active(each, given, space.parameters)}
    return given.keys() == wanted and all(contains(space.parameters[name], each) for name, each in given.items())


def _suggested(space: Space, trial: Trial) -> dict[str, Value]:
    """Return the set that Optuna suggests; a parameter is drawn after those that its conditions depend on."""
    known = space.parameters
    found: dict[str, Value] = {}
    for name in TopologicalSorter({name: each.when.keys() for name, each in known.items()}).static_order():
        if active(known[name], found, known):
            found[name] = value(known[name], _coordinate(trial, name, distribution(known[name])))
    return found


def _coordinate(trial: Trial, name: str, kind: BaseDistribution) -> Coordinate:
    match kind:
        case CategoricalDistribution():
            return trial.suggest_categorical(name, kind.choices) or 0
        case IntDistribution():
            return trial.suggest_int(name, kind.low, kind.high, step=kind.step, log=kind.log)
        case FloatDistribution():
            return trial.suggest_float(name, kind.low, kind.high, step=kind.step, log=kind.log)
        case _:
            raise TypeError(f"no parameter has a {type(kind).__name__}")
