"""Quantities as the integers that Kueue calculates with."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from trainstack.settings.values.quantities import MAX_AMOUNT, parse_stored
from trainstack.settings.values.quantities import format_amount as readable_bytes

WHOLE = 10**9
"""One unit in billionths."""
_BYTE_RESOURCES = ("memory", "ephemeral-storage", "storage")


@lru_cache(maxsize=4096)
def to_billionths(text: str) -> int:
    """Return a quantity in billionths, the finest scale that Kubernetes keeps, rounded up."""
    value = parse_stored(text).exact * WHOLE
    return -(-value.numerator // value.denominator)


def from_billionths(resource: str, billionths: int) -> int:
    """Return the amount in Kueue's integers, rounded away from 0.

    Source: ResourceValue in pkg/resources/requests.go.
    """
    step = 10**6 if resource == "cpu" else WHOLE
    return -(-billionths // step) if billionths > 0 else billionths // step


@lru_cache(maxsize=4096)
def resource_value(resource: str, text: object) -> int:
    """Return a written quantity in Kueue's integers; above 64 bits as in Kubernetes: `10E` of memory is 0."""
    written = str(text)
    number = from_billionths(resource, to_billionths(written))
    return number if -MAX_AMOUNT <= number <= MAX_AMOUNT else _overflow_value(resource, written)


def _overflow_value(resource: str, text: str) -> int:
    """Return the integer that Kubernetes calculates from an amount that exceeds 64 bits.

    Source: ParseQuantity and ScaledValue in k8s.io/apimachinery/pkg/api/resource.
    """
    quantity, billionths = parse_stored(text), to_billionths(text)
    decimal_exponent = quantity.exponent - quantity.decimals
    if quantity.base == 2:
        billionths = max(-MAX_AMOUNT * WHOLE, min(MAX_AMOUNT * WHOLE, billionths))
    elif quantity.digits <= _FEW_DIGITS and decimal_exponent >= _FINEST:
        # Kept with its exponent. Usual powers of ten are multiplied in one step, which wraps around; all others are
        # multiplied ten by ten, until the overflow is noticed.
        shift = decimal_exponent + (3 if resource == "cpu" else 0)
        return wrap_around(from_billionths(resource, billionths)) if shift in _ONE_STEP else 0
    return wrap_around(from_billionths(resource, billionths))


_FEW_DIGITS, _FINEST, _ONE_STEP = 18, -9, (1, 2, 3, 6, 9)


def wrap_around(number: int) -> int:
    """Return an integer as it overflows in 64 bits."""
    if -MAX_AMOUNT <= number <= MAX_AMOUNT:
        return number
    return (number + MAX_AMOUNT + 1) % (2 * MAX_AMOUNT + 2) - MAX_AMOUNT - 1


def saturate(number: int) -> int:
    """Return an integer, or the nearest one of 64 bits."""
    return max(-MAX_AMOUNT - 1, min(MAX_AMOUNT, number))


def quota_value(resource: str, text: object) -> int:
    """Return a written quota in Kueue's integers; above 64 bits the largest, which counts as unlimited.

    Source: AmountFromQuantity in pkg/resources/amount.go of v0.18.
    """
    return saturate(from_billionths(resource, to_billionths(str(text))))


def resources_to_billionths(quantities: Mapping[str, object] | None) -> dict[str, int]:
    """Return a resource list in billionths."""
    return {name: to_billionths(str(text)) for name, text in (quantities or {}).items()}


def format_readable(resource: str, number: int) -> str:
    """Format an amount for a message: 2500 of cpu is `2.5`, 8589934592 of memory `8Gi`, 4 of a GPU `4`."""
    if resource == "cpu":
        return f"{float(Fraction(number, 1000)):g}"
    return readable_bytes(Fraction(number)) if _is_in_bytes(resource) else str(number)


def format_quantity(resource: str, number: int) -> str:
    """Format an amount exactly, as a Kubernetes quantity."""
    if resource == "cpu":
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if _is_in_bytes(resource) and number and number % 1024 == 0:
        return readable_bytes(Fraction(number))
    return str(number)


def _is_in_bytes(resource: str) -> bool:
    return resource in _BYTE_RESOURCES or resource.startswith("hugepages-")
