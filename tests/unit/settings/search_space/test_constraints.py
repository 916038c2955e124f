"""Constraints compare parameters, and no expression takes long or much memory."""

import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.settings.search_space.constraints import (
    MAX_CHARACTERS,
    MAX_NUMBER,
    ConstraintError,
    Value,
    is_satisfied,
    parameter_names,
)

PARAMETERS: dict[str, Value] = {"n": 2, "lr": 0.5, "name": "adam", "flag": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n * lr <= 1", True),
        ("1 < n < 3", True),
        ("1 < n < 2", False),
        ("n in [1, 2]", True),
        ("n not in (1, 2)", False),
        ("name == 'adam' and not n > 2", True),
        ("name != 'adam' or n // 2 == 1", True),
        ("-n < lr - 1", True),
        ("flag == True", True),
        ("n % 2 == 0 and flag", True),
        ("name == 2", False),
    ],
)
def test_a_constraint_has_the_meaning_of_the_python_expression(text: str, *, expected: bool) -> None:
    """The syntax is Python's too."""
    assert is_satisfied(text, PARAMETERS) is expected
    assert bool(eval(text, {}, dict(PARAMETERS))) is expected


@pytest.mark.parametrize(
    "text",
    [
        "'x' * n * 2000000000 == 'y'",
        "'%1000000000d' % n == 'y'",
        "[0] * 1000000000 == n",
        "n in [0] * 1000000000",
        "n in 'x' * 1000000000",
        "10 ** 10 ** 9 > n",
        "1 << 10000000000 > n",
        "n * " * 200 + "10000000000 > 1",
        "9e307 * 9e307 > n",
        "(lambda: n)() > 1",
        "f'{n:>1000000000}' == 'y'",
        "[x for x in range(10 ** 10)] == n",
        "n.__class__ == 1",
        "-" * 900 + "n > 1",
        "not " * 200 + "n > 1",
        "(" * 300 + "n" + ")" * 300 + " > 1",
        "n" + " + n" * 200 + " > 1",
        "9" * 999 + " * n > 1",
        "n > " + "9" * 5000,
        "n > 1" + " " * MAX_CHARACTERS,
        "n % 0 == 1",
        "n < name",
        "n ==",
        "",
    ],
)
def test_expensive_or_unsupported_expressions_are_refused_at_once(text: str) -> None:
    """No text, list or number can grow without bounds."""
    start, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConstraintError):
        is_satisfied(text, PARAMETERS)
    assert time.process_time() - start < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 20_000


_LEAF = st.sampled_from(["n", "lr", "name", "flag", "1", "0", "-3", "2.5", "1e308", "'x'", "True"])
_OPERATIONS = ("+", "-", "*", "/", "//", "%", "==", "<", ">=", "in", "and", "or", "**", "<<", "@", "if")
_TEXTS = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(_OPERATIONS), inner),
        st.builds("not {}".format, inner),
        st.builds("[{}]".format, st.lists(inner, max_size=3).map(", ".join)),
    ),
    max_leaves=30,
)


@given(_TEXTS)
def test_any_expression_is_evaluated_like_python_or_refused(text: str) -> None:
    """The only error is ConstraintError, and the result is always Python's."""
    try:
        answer = is_satisfied(text, PARAMETERS)
    except ConstraintError:
        return
    assert answer is bool(eval(text, {}, dict(PARAMETERS)))


def test_a_set_without_the_parameter_satisfies_the_constraint() -> None:
    """A set has no parameter whose condition does not hold."""
    assert parameter_names("n * other < 1") == {"n", "other"}
    assert is_satisfied("n * other < 1", PARAMETERS)
    assert is_satisfied(f"n < {MAX_NUMBER}", PARAMETERS)
