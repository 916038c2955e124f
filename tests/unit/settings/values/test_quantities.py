"""Quantities keep their amount and get the canonical spelling of the API server."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.settings.values.quantities import amount, canonical_quantity

NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str),
    st.decimals(0, 1000, places=3, allow_nan=False, allow_infinity=False).map(lambda number: f"{number:f}"),
)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E3", "e-2"])
QUANTITIES = st.builds(lambda number, suffix: number + suffix, NUMBERS, SUFFIXES)


@given(QUANTITIES)
def test_canonical_is_idempotent_and_keeps_the_amount(text: str) -> None:
    """The canonical spelling has the same amount, and its own canonical spelling is the same."""
    spelled = canonical_quantity(text)
    assert (amount(spelled), canonical_quantity(spelled)) == (amount(text), spelled)


@given(QUANTITIES, QUANTITIES)
def test_equal_amounts_of_one_format_have_the_same_spelling(one: str, other: str) -> None:
    """Two decimal or two binary spellings of one amount become equal, so that texts can be compared."""
    if amount(one) == amount(other) and one.endswith("i") == other.endswith("i"):
        assert canonical_quantity(one) == canonical_quantity(other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Source: the examples and tests of Kubernetes' apimachinery/pkg/api/resource (Quantity.String).
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("0.5Ki", "512"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1001m", "1001m"),
        (".001Ki", "1024m"),
        ("0Gi", "0"),
        ("100000n", "100u"),
        ("2.", "2"),
        (2, "2"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_canonical_is_what_the_api_server_stores(text: str | int, expected: str) -> None:
    """The spelling is that of Kubernetes' own Quantity.String."""
    assert canonical_quantity(text) == expected


@pytest.mark.parametrize(
    "value", ["", "Gi", "1 Gi", "1GB", "-1", "+1", "1Gi\n", "1e999", 0.5, True, None, "0.1n", "8Ei"]
)
def test_an_invalid_quantity_is_refused(value: object) -> None:
    """Other text, floats (0.1 is not exact), and amounts that the API server would round or cap are errors."""
    with pytest.raises(ValueError, match=r"quantity|Kubernetes"):
        canonical_quantity(value)


def test_amounts_are_exact() -> None:
    """The conversion uses no floats."""
    assert [amount("100m"), amount("1Ki"), amount("1n")] == [Fraction(1, 10), 1024, Fraction(1, 10**9)]
