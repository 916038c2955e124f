"""Expand a search space into its sets: reproducibly, on every machine and Python version."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from math import prod

from trainstack.errors import TrainstackError
from trainstack.settings.search_space.constraints import ConstraintError, Value, is_satisfied
from trainstack.settings.search_space.hyperparams import number_sets, set_id
from trainstack.settings.search_space.space import Parameter, ParameterSet, Space
from trainstack.settings.search_space.space_values import count_values, discrete_values, is_parameter_active

_DRAWS_PER_SET = 50
"""The average number of draws per set before giving up on duplicates and constraints."""


class SpaceError(TrainstackError):
    """A space cannot provide the requested sets. The message gives the problem and the remedy."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        """The path of the faulty value, in the notation of `settings.values.paths`."""


def expand(space: Space) -> tuple[ParameterSet, ...]:
    """Return the distinct sets of a space: those of its method, then those that it lists. Raises SpaceError."""
    sets_by_id = _sets_of_method(space)
    if not sets_by_id and space.method == "grid":
        raise SpaceError(
            "constraints", "no point of the grid meets all constraints; remove a constraint, or add values"
        )
    sets_by_id |= {
        set_id(parameters): parameters for parameters in (normalize_set(space, listed_set) for listed_set in space.sets)
    }
    return number_sets(list(sets_by_id.values()))


def _sets_of_method(space: Space) -> dict[str, dict[str, Value]]:
    if space.method == "list":
        return {}
    return grid(space) if space.method == "grid" else _draw_sets(space)


def grid(space: Space) -> dict[str, dict[str, Value]]:
    """Return every combination that meets the constraints, by id."""
    names = list(space.parameters)
    return _distinct_sets(
        space,
        (dict(zip(names, values, strict=True)) for values in product(*map(discrete_values, space.parameters.values()))),
    )


def normalize_set(space: Space, parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Order a set's parameters as in the space, and convert numbers to the types of the space."""
    return {name: _convert(space.parameters[name], parameters[name]) for name in space.parameters if name in parameters}


def meets_constraints(space: Space, parameters: Mapping[str, Value]) -> bool:
    """Return whether a set meets all constraints. Raises SpaceError if they cannot be evaluated."""
    try:
        return all(is_satisfied(constraint, parameters) for constraint in space.constraints)
    except ConstraintError as error:
        raise SpaceError("constraints", f"constraint {error}; correct it, or the values of its parameters") from None


def _draw_sets(space: Space) -> dict[str, dict[str, Value]]:
    from trainstack.sweeps.search.sampling import draw_sets  # noqa: PLC0415 (Optuna takes a moment, and few commands need it)

    requested = space.trials or 0
    counts = [count_values(parameter) for parameter in space.parameters.values()]
    possible = None if None in counts else prod(value_count or 0 for value_count in counts)
    if possible is not None and requested > possible:
        message = f"trials is {requested}, but the space has only {possible} sets; lower it, or use method grid"
        raise SpaceError("trials", message)
    sets_by_id = _distinct_sets(space, islice(draw_sets(space), requested * _DRAWS_PER_SET), requested)
    if len(sets_by_id) < requested:
        raise SpaceError(
            "trials",
            f"trials is {requested}, but {requested * _DRAWS_PER_SET} draws yielded {len(sets_by_id)} distinct sets "
            "that meet the constraints; lower it, or remove a constraint",
        )
    return sets_by_id


def _distinct_sets(
    space: Space, sets: Iterable[Mapping[str, Value]], limit: int | None = None
) -> dict[str, dict[str, Value]]:
    """Return at most `limit` distinct sets that meet the constraints, without inactive parameters."""
    sets_by_id: dict[str, dict[str, Value]] = {}
    for candidate in sets:
        if len(sets_by_id) == limit:
            break
        parameters = dict(active_parameters(space, candidate))
        if meets_constraints(space, parameters):
            sets_by_id[set_id(parameters)] = parameters
    return sets_by_id


def active_parameters(space: Space, candidate: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Yield the parameters of a set whose conditions are met, in the order of the space."""
    # A parameter that depends on an omitted one is omitted too: `active` checks the whole chain.
    for name, parameter in space.parameters.items():
        if is_parameter_active(parameter, candidate, space.parameters):
            yield name, candidate[name]


def _convert(parameter: Parameter, value: Value) -> Value:
    keeps_type = parameter.choices or parameter.int_range is not None
    return value if keeps_type or isinstance(value, str) else float(value)
