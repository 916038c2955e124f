"""Quantities as the integers that Kueue calculates with."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from trainstack.settings.values.quantities import amount
from trainstack.settings.values.quantities import readable as readable_bytes

WHOLE = 10**9
"""One unit in billionths."""
_BYTES = ("memory", "ephemeral-storage", "storage")


@lru_cache(maxsize=4096)
def exact(text: str) -> int:
    """Return a quantity in billionths, the finest scale that Kubernetes keeps, rounded up."""
    value = amount(text) * WHOLE
    return -(-value.numerator // value.denominator)


def counted(resource: str, billionths: int) -> int:
    """Return the amount in Kueue's integers. Source: ResourceValue in pkg/resources/requests.go."""
    return -(-billionths // (10**6 if resource == "cpu" else WHOLE))


def value(resource: str, text: object) -> int:
    """Return a written quantity in Kueue's integers."""
    return counted(resource, exact(str(text)))


def exactly(quantities: Mapping[str, object] | None) -> dict[str, int]:
    """Return a resource list in billionths."""
    return {name: exact(str(text)) for name, text in (quantities or {}).items()}


def readable(resource: str, number: int) -> str:
    """Format an amount for a message: 2500 of cpu is `2.5`, 8589934592 of memory `8Gi`, 4 of a GPU `4`."""
    if resource == "cpu":
        return f"{float(Fraction(number, 1000)):g}"
    return readable_bytes(Fraction(number)) if _in_bytes(resource) else str(number)


def quantity(resource: str, number: int) -> str:
    """Format an amount exactly, as a Kubernetes quantity."""
    if resource == "cpu":
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if _in_bytes(resource) and number and number % 1024 == 0:
        return readable_bytes(Fraction(number))
    return str(number)


def _in_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")
