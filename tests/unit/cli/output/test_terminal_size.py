"""Output is complete whatever the variables of the terminal's size are."""

import os

import pytest

from trainstack.cli.output import terminal_size
from trainstack.cli.output.terminal_size import set_usable_size


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detach the tests from the terminal of who runs them."""
    monkeypatch.setattr(terminal_size, "_terminal_size", lambda: ())


UNUSABLE = (
    *("0", "1", "9", "-1", "+80", "80.0", "", " 80", "80\n", "abc", "²", "٣٢", "0x50", "nan"),
    *("10001", "9" * 12, "9" * 5000),
)


@pytest.mark.parametrize("name", ["COLUMNS", "LINES", "TERMINAL_WIDTH"])
@pytest.mark.parametrize("value", UNUSABLE)
def test_an_unusable_size_is_ignored(name: str, value: str) -> None:
    """Rich and Typer would print nothing, fail, or take all memory."""
    variables = {name: value, "TERM": "xterm"}
    set_usable_size(variables)
    assert variables == {"TERM": "xterm"}


@pytest.mark.parametrize("value", ["40", "80", "0120", "10000"])
def test_a_usable_size_is_kept(value: str) -> None:
    """The same holds for no size at all."""
    for given in ({"COLUMNS": value, "LINES": value, "TERMINAL_WIDTH": value}, {}):
        variables = dict(given)
        set_usable_size(variables)
        assert variables == given


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 1), {"COLUMNS": "40", "LINES": "10"}),
        ((39, 50), {"COLUMNS": "40"}),
        ((0, 0), {}),
        ((120, 50), {}),
    ],
)
def test_a_terminal_that_is_too_small_counts_as_larger(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], expected: dict[str, str]
) -> None:
    """It wraps lines then; an unknown size is left to the libraries."""
    monkeypatch.setattr(terminal_size, "_terminal_size", lambda: os.terminal_size(size))
    variables = {"COLUMNS": "0"}
    set_usable_size(variables)
    assert variables == expected
