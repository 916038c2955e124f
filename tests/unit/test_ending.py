"""How the program knows that a command ends a stack."""

import pytest

from stacks.ending import ENDING, ending


@pytest.mark.parametrize(
    ("value", "way"),
    [
        ("teardown:dev", "teardown"),
        ("destroy:dev", "destroy"),
        ("teardown:prod", None),
        ("other:dev", None),
        ("", None),
    ],
)
def test_a_stack_ends_only_by_its_own_name(monkeypatch: pytest.MonkeyPatch, value: str, way: str | None) -> None:
    """A variable that was meant for another stack declares this one as ever."""
    monkeypatch.setenv(ENDING, value)
    assert ending("dev") == way
