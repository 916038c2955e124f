"""Quantities as the integers that Kueue calculates with."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from trainstack.settings.values.quantities import amount
from trainstack.settings.values.quantities import readable as spelled

WHOLE = 10**9
"""Billionths."""
_BYTES = ("memory", "ephemeral-storage", "storage")


@lru_cache(maxsize=4096)
def exact(text: str) -> int:
    """A quantity in billionths of its unit, the finest that Kubernetes keeps; finer is rounded up."""
    value = amount(text) * WHOLE
    return -(-value.numerator // value.denominator)


def counted(resource: str, billionths: int) -> int:
    """What Kueue counts: thousandths of a core, or whole bytes and pieces; rounded up.

    Source: ResourceValue in pkg/resources/requests.go.
    """
    return -(-billionths // (10**6 if resource == "cpu" else WHOLE))


def value(resource: str, text: object) -> int:
    """A written quantity of a resource as Kueue counts it."""
    return counted(resource, exact(str(text)))


def exactly(quantities: Mapping[str, object] | None) -> dict[str, int]:
    """A list of resources in billionths."""
    return {name: exact(str(text)) for name, text in (quantities or {}).items()}


def readable(resource: str, number: int) -> str:
    """For people: 2500 of cpu is `2.5`, 8589934592 of memory `8Gi`, 4 of a GPU `4`."""
    if resource == "cpu":
        return f"{float(Fraction(number, 1000)):g}"
    return spelled(Fraction(number)) if _in_bytes(resource) else str(number)


def quantity(resource: str, number: int) -> str:
    """As it is written in a file, exactly."""
    if resource == "cpu":
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if _in_bytes(resource) and number and number % 1024 == 0:
        return spelled(Fraction(number))
    return str(number)


def _in_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")
