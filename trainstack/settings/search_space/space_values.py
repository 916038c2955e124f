"""What a parameter may be, and when it is in a set."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import FloatRange, Parameter


def active(parameter: Parameter, given: Mapping[str, Value], known: Mapping[str, Parameter]) -> bool:
    """Whether the parameter is in a set with the given values: each that its condition names is, and as it wants it."""
    return _active(parameter, given, known, {})


def _active(
    parameter: Parameter, given: Mapping[str, Value], known: Mapping[str, Parameter], found: dict[str, bool]
) -> bool:
    """`found`: the answers so far. Conditions that share others would ask for these again and again."""
    for other, wanted in parameter.when.items():
        if other not in given or not any(same(given[other], each) for each in wanted):
            return False
        if other not in found:
            found[other] = _active(known[other], given, known, found)
        if not found[other]:
            return False
    return True


def count(parameter: Parameter) -> int | None:
    """How many values the parameter may have; None where it has no steps."""
    if parameter.choices:
        return len(parameter.choices)
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None:
        return (whole.high - whole.low) // whole.step + 1
    return None if numbers is None or numbers.step is None else steps_of(numbers) + 1


def points(parameter: Parameter) -> Sequence[Value]:
    """What the parameter may be, in order, where that can be counted."""
    whole, numbers = parameter.int_range, parameter.float_range
    if whole is not None:
        return range(whole.low, whole.high + 1, whole.step)
    if numbers is not None:
        return [stepped(numbers, index) for index in range(steps_of(numbers) + 1)]
    return parameter.choices


def steps_of(numbers: FloatRange) -> int:
    """How many steps fit between the bounds of a range that has them, counted in decimals, where 0.1 is a tenth."""
    return int((_decimal(numbers.high) - _decimal(numbers.low)) / _decimal(numbers.step or 1))


def stepped(numbers: FloatRange, index: int) -> float:
    """The number so many steps above the low bound."""
    return float(_decimal(numbers.low) + index * _decimal(numbers.step or 1))


def nearest_step(numbers: FloatRange, value: float) -> int:
    """How many steps above the low bound the nearest number is; the inverse of `stepped`."""
    return round((value - numbers.low) / (numbers.step or 1))


def limits(parameter: Parameter) -> tuple[float | None, float | None]:
    """The least and the greatest number that the parameter may be; None where there is no such bound."""
    even = parameter.int_range or parameter.float_range or parameter.uniform or parameter.log_uniform
    bounded = even or parameter.normal or parameter.log_normal
    return (None, None) if bounded is None else (bounded.low, bounded.high)


def contains(parameter: Parameter, value: Value) -> bool:
    """Whether the parameter may be this; a whole number will do for any number."""
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
    """Whether two values are the same and of the same type: 1 is neither 1.0 nor true."""
    return type(one) is type(other) and one == other


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))
