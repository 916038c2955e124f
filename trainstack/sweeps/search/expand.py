"""Expand a search space into its sets: reproducibly, on every machine and Python version."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from math import prod

from trainstack.errors import TrainstackError
from trainstack.settings.search_space.constraints import ConstraintError, Value, holds
from trainstack.settings.search_space.hyperparams import numbered, set_id
from trainstack.settings.search_space.space import Parameter, ParameterSet, Space
from trainstack.settings.search_space.space_values import active, count, points

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
    found = grid(space) if space.method == "grid" else _drawn(space)
    if not found:
        raise SpaceError(
            "constraints", "no point of the grid meets all constraints; remove a constraint, or add values"
        )
    found |= {set_id(each): each for each in (in_order(space, given) for given in space.sets)}
    return numbered(list(found.values()))


def grid(space: Space) -> dict[str, dict[str, Value]]:
    """Return every combination that meets the constraints, by id."""
    names = list(space.parameters)
    return _by_id(
        space,
        (dict(zip(names, values, strict=True)) for values in product(*map(points, space.parameters.values()))),
    )


def in_order(space: Space, given: Mapping[str, Value]) -> dict[str, Value]:
    """Order a set's parameters as in the space, and convert numbers to the types of the space."""
    return {name: _as(space.parameters[name], given[name]) for name in space.parameters if name in given}


def allowed(space: Space, given: Mapping[str, Value]) -> bool:
    """Return whether a set meets all constraints. Raises SpaceError if they cannot be evaluated."""
    try:
        return all(holds(text, given) for text in space.constraints)
    except ConstraintError as error:
        raise SpaceError("constraints", f"constraint {error}; correct it, or the values of its parameters") from None


def _drawn(space: Space) -> dict[str, dict[str, Value]]:
    from trainstack.sweeps.search.sampling import draws  # noqa: PLC0415 (Optuna takes a moment, and few commands need it)

    wanted = space.trials or 0
    counts = [count(each) for each in space.parameters.values()]
    most = None if None in counts else prod(each or 0 for each in counts)
    if most is not None and wanted > most:
        message = f"trials is {wanted}, but the space has only {most} sets; lower it, or use method grid"
        raise SpaceError("trials", message)
    found = _by_id(space, islice(draws(space), wanted * _DRAWS_PER_SET), wanted)
    if len(found) < wanted:
        raise SpaceError(
            "trials",
            f"trials is {wanted}, but {wanted * _DRAWS_PER_SET} draws yielded {len(found)} distinct sets that "
            "meet the constraints; lower it, or remove a constraint",
        )
    return found


def _by_id(space: Space, sets: Iterable[Mapping[str, Value]], wanted: int | None = None) -> dict[str, dict[str, Value]]:
    """Return at most `limit` distinct sets that meet the constraints, without inactive parameters."""
    found: dict[str, dict[str, Value]] = {}
    for drawn in sets:
        if len(found) == wanted:
            break
        kept = dict(present(space, drawn))
        if allowed(space, kept):
            found[set_id(kept)] = kept
    return found


def present(space: Space, drawn: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Yield the parameters of a set whose conditions are met, in the order of the space."""
    # A parameter that depends on an omitted one is omitted too: `active` checks the whole chain.
    for name, parameter in space.parameters.items():
        if active(parameter, drawn, space.parameters):
            yield name, drawn[name]


def _as(parameter: Parameter, value: Value) -> Value:
    counted = parameter.choices or parameter.int_range is not None
    return value if counted or isinstance(value, str) else float(value)
