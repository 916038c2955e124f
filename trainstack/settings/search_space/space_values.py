"""The values of a parameter, and its condition."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import FloatRange, Parameter


def is_parameter_active(parameter: Parameter, values: Mapping[str, Value], parameters: Mapping[str, Parameter]) -> bool:
    """Return whether a set has the parameter: its condition holds, and so do those of the parameters that it names.

    `values`: the set. `parameters`: all parameters of the space.
    """
    cache: dict[str, bool] = {}

    def is_met(condition: Mapping[str, Sequence[Value]]) -> bool:
        for name, required_values in condition.items():
            if name not in values or not any(is_same_value(values[name], value) for value in required_values):
                return False
            if name not in cache:
                cache[name] = is_met(parameters[name].when)
            if not cache[name]:
                return False
        return True

    return is_met(parameter.when)


def count_values(parameter: Parameter) -> int | None:
    """Return the number of a parameter's values; None for a continuous one."""
    if parameter.choices:
        return len(parameter.choices)
    int_range, float_range = parameter.int_range, parameter.float_range
    if int_range is not None:
        return (int_range.high - int_range.low) // int_range.step + 1
    return None if float_range is None or float_range.step is None else count_steps(float_range) + 1


def discrete_values(parameter: Parameter) -> Sequence[Value]:
    """Return the values of a discrete parameter, in ascending order for a range, else in the file's order."""
    int_range, float_range = parameter.int_range, parameter.float_range
    if int_range is not None:
        return range(int_range.low, int_range.high + 1, int_range.step)
    if float_range is not None:
        return [value_at_step(float_range, index) for index in range(count_steps(float_range) + 1)]
    return parameter.choices


def count_steps(float_range: FloatRange) -> int:
    """Return the number of steps of a range, in decimal arithmetic, where 0.1 is exact."""
    return int((_decimal(float_range.high) - _decimal(float_range.low)) / _decimal(float_range.step or 1))


def value_at_step(float_range: FloatRange, index: int) -> float:
    """Return the number `index` steps above the low bound."""
    return float(_decimal(float_range.low) + index * _decimal(float_range.step or 1))


def nearest_step(float_range: FloatRange, value: float) -> int:
    """Return the index of the nearest step; the inverse of `value_at_step`."""
    return round((value - float_range.low) / (float_range.step or 1))


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
    int_range, float_range = parameter.int_range, parameter.float_range
    if int_range is not None:
        return isinstance(value, int) and (value - int_range.low) % int_range.step == 0
    if float_range is not None and float_range.step is not None:
        nearest = nearest_step(float_range, value)
        return nearest <= count_steps(float_range) and value_at_step(float_range, nearest) == value
    return value > 0 or parameter.log_normal is None


def is_same_value(first: Value, second: Value) -> bool:
    """Return whether two values are equal and of the same type: 1 is neither 1.0 nor true."""
    return type(first) is type(second) and first == second


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))
