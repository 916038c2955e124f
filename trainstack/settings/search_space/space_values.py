"""The values of a parameter, and its condition."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import FloatRange, Parameter


def active(parameter: Parameter, given: Mapping[str, Value], known: Mapping[str, Parameter]) -> bool:
    """Return whether a set has the parameter: its condition holds, and so do those of the parameters that it names.

    `values`: the set. `parameters`: all parameters of the space.
    """
    cache: dict[str, bool] = {}

    def is_active(condition: Mapping[str, Sequence[Value]]) -> bool:
        for other, required in condition.items():
            if other not in given or not any(same(given[other], value) for value in required):
                return False
            if other not in cache:
                cache[other] = is_active(known[other].when)
            if not cache[other]:
                return False
        return True

    return is_active(parameter.when)


def count(parameter: Parameter) -> int | None:
    """Return the number of a parameter's values; None for a continuous one."""
    if parameter.choices:
        return len(parameter.choices)
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None:
        return (whole.high - whole.low) // whole.step + 1
    return None if numbers is None or numbers.step is None else steps_of(numbers) + 1


def points(parameter: Parameter) -> Sequence[Value]:
    """Return the values of a discrete parameter, in ascending order for a range, else in the file's order."""
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None:
        return range(whole.low, whole.high + 1, whole.step)
    if numbers is not None:
        return [stepped(numbers, index) for index in range(steps_of(numbers) + 1)]
    return parameter.choices


def steps_of(numbers: FloatRange) -> int:
    """Return the number of steps of a range, in decimal arithmetic, where 0.1 is exact."""
    return int((_decimal(numbers.high) - _decimal(numbers.low)) / _decimal(numbers.step or 1))


def stepped(numbers: FloatRange, index: int) -> float:
    """Return the number `index` steps above the low bound."""
    return float(_decimal(numbers.low) + index * _decimal(numbers.step or 1))


def nearest_step(numbers: FloatRange, value: float) -> int:
    """Return the index of the nearest step; the inverse of `value_at_step`."""
    return round((value - numbers.low) / (numbers.step or 1))


def limits(parameter: Parameter) -> tuple[float | None, float | None]:
    """Return the lowest and the highest number of a parameter; None for a bound that it does not have."""
    even = parameter.int_range or parameter.float_range or parameter.uniform or parameter.log_uniform
    bounded = even or parameter.normal or parameter.log_normal
    return (None, None) if bounded is None else (bounded.low, bounded.high)


def contains(parameter: Parameter, value: Value) -> bool:
    """Return whether the parameter may have the value; an int is also valid for a float range."""
    if parameter.choices:
        return (type(value), value) in parameter.typed_choices
    if isinstance(value, bool | str):
        return False
    low, high = limits(parameter)
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None:
        return isinstance(value, int) and (value - whole.low) % whole.step == 0
    if numbers is not None and numbers.step is not None:
        nearest = nearest_step(numbers, value)
        return nearest <= steps_of(numbers) and stepped(numbers, nearest) == value
    return value > 0 or parameter.log_normal is None


def same(one: Value, other: Value) -> bool:
    """Return whether two values are equal and of the same type: 1 is neither 1.0 nor true."""
    return type(one) is type(other) and one == other


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))
