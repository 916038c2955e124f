"""Which launches a word on the command line names."""

from datetime import UTC, datetime

import pytest
import typer

from checks.launches import LiveLaunch
from cli.runs import chosen


def make_launch(run_id: str) -> LiveLaunch:
    """A launch that runs."""
    name = f"{run_id}-abcdef"
    return LiveLaunch(run_id, name, "Job", "team", "running", datetime.now(UTC), name)


ALL = [make_launch("digits-0123456789"), make_launch("digits-small-0123456789"), make_launch("digits-small-abcdef0123")]


@pytest.mark.parametrize(
    ("word", "indices"),
    [
        (None, [0, 1, 2]),
        ("digits", [0]),
        ("digits-small", [1, 2]),
        ("digits-small-abcdef0123", [2]),
        ("digits-small-a", [2]),
        ("digits-s", [1, 2]),
    ],
)
def test_a_word_names_a_workload_before_the_beginning_of_ids(word: str | None, indices: list[int]) -> None:
    """`digits` is no run of `digits-small`."""
    assert chosen(ALL, word) == [ALL[index] for index in indices]


def test_a_word_that_names_nothing_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """By id."""
    with pytest.raises(typer.Exit):
        chosen(ALL, "mnist")
    assert "digits-0123456789" in capsys.readouterr().err
