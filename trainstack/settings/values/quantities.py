"""Kubernetes quantities: "500m", "2", "1.5Gi".

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_FACTORS = {suffix: Fraction(1000) ** power for power, suffix in enumerate(_DECIMAL, -3)} | {
    suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY)
}
_QUANTITY = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_STORED_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<decimals>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
"""The quantities that the API server accepts, except exponents of more digits, which it evaluates for minutes.

Source: parseQuantityString.
"""
MAX_AMOUNT = 2**63 - 1
"""The largest amount that Kubernetes calculates with exactly."""
_HINT = 'write a Kubernetes quantity such as "500m", "2" or "1Gi"'


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """Return the exact value of a quantity in its base unit (cores, bytes, pieces).

    Raises ValueError for an invalid or negative quantity, or one above the API server's limit. The values are cached:
    an environment repeats the same few quantities thousands of times.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; {_HINT}")
    suffix = match["suffix"] or ""
    factor = _FACTORS[suffix] if suffix in _FACTORS else Fraction(10) ** int(suffix[1:])
    exact = Fraction(match["number"]) * factor
    if exact > MAX_AMOUNT:
        raise ValueError(f"{text!r} exceeds the limit of Kubernetes; write at most {MAX_AMOUNT}")
    return exact


@dataclass(frozen=True, slots=True)
class StoredQuantity:
    """A quantity of a live object, in any spelling that the API server accepts: `+4`, `10E`, `5.`."""

    number: int
    """The signed number of all digits, without the point."""
    decimals: int
    """How many digits follow the point."""
    digits: int
    """How many digits there are, without leading zeros."""
    base: int
    exponent: int

    @property
    def exact(self) -> Fraction:
        return Fraction(self.number, 10**self.decimals) * Fraction(self.base) ** self.exponent


def parse_stored(text: str) -> StoredQuantity:
    """Parse a quantity of a live object; `amount` parses those of settings. Raises ValueError for any other text."""
    match = _STORED_QUANTITY.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a quantity")
    whole, decimals, suffix = match["whole"].lstrip("0"), match["decimals"] or "", match["suffix"] or ""
    number = int(f"{match['sign']}{whole}{decimals}") if whole or decimals else 0
    base, exponent = (2, 10 * _BINARY.index(suffix)) if suffix.endswith("i") else (10, _exponent(suffix))
    return StoredQuantity(number, len(decimals), max(1, len(whole)) + len(decimals), base, exponent)


def _exponent(suffix: str) -> int:
    """Return the power of ten of a decimal suffix: 3 for `k`, -2 for `e-2`."""
    return 3 * (_DECIMAL.index(suffix) - 3) if suffix in _DECIMAL else int(suffix[1:])


def canonical_quantity(value: object) -> str:
    """Return the spelling that the API server stores: "1000m" is "1", "1024Mi" is "1Gi", "1.5Gi" is "1536Mi".

    The engine compares custom resources as text, and Kueue's webhook rewrites them, so any other spelling would be
    a permanent diff. YAML integers are accepted; floats are refused, since 0.1 has no exact form.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a quantity; {_HINT}")  # noqa: TRY004 (pydantic reports ValueErrors)
    text = str(value)
    exact = amount(text)
    if text.endswith("i") and exact >= 1024 and exact.denominator == 1:
        return _spell(exact, _BINARY, 1024)
    nano = exact * 1000**3
    if nano.denominator != 1:
        raise ValueError(f"{text!r} is more precise than one nano-unit; {_HINT}")
    return _spell(nano, _DECIMAL, 1000)


def format_amount(value: Fraction) -> str:
    """Format a value in the largest binary unit that gives an integer, from Ki on, or else as a decimal."""
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if value and value % 2**power == 0:
            return f"{value // 2**power}{unit}"
    return f"{float(value):g}"


def _spell(whole: Fraction, suffixes: tuple[str, ...], step: int) -> str:
    if whole == 0:
        return "0"
    number, power = int(whole), 0
    while number % step == 0 and power < len(suffixes) - 1:
        number, power = number // step, power + 1
    return f"{number}{suffixes[power]}"


Quantity = Annotated[str, BeforeValidator(canonical_quantity, json_schema_input_type=str | int)]
"""A Kubernetes quantity in canonical spelling; compare values by `amount`."""
