"""The launches that a word on the command line selects."""

from datetime import UTC, datetime

import pytest
import typer

from trainstack.cli.run_selection import select_launches
from trainstack.runs.launches import LiveLaunch, SweepOfLaunch


def make_launch(run_id: str, name: str | None = None, number: int | None = None) -> LiveLaunch:
    """Return a running launch.

    Args:
        run_id: the id of its run.
        name: the name of its object; None: that of the launch.
        number: the number of its trial in the sweep `search`; None: it is no trial.

    """
    launch, sweep = (
        f"{run_id}-abcdef",
        None if number is None else SweepOfLaunch(name="search", set_id="0f3c9a1b2d", number=number, file=None),
    )
    return LiveLaunch(run_id, name or launch, "Job", "team", "running", datetime.now(UTC), launch, sweep)


ALL = [
    make_launch("digits-0123456789"),
    make_launch("digits-small-0123456789"),
    make_launch("digits-small-abcdef0123"),
    make_launch("search-3f0c9a1b2d", "search-1", 1),
    make_launch("search-27e2bb7c11", "search-x7k2p", 3),
]


@pytest.mark.parametrize(
    ("word", "indices"),
    [
        (None, [0, 1, 2, 3, 4]),
        ("digits", [0]),
        ("digits-small", [1, 2]),
        ("digits-small-abcdef0123", [2]),
        ("digits-small-a", [2]),
        ("digits-s", [1, 2]),
        ("search", [3, 4]),
        ("search-3", [4]),
        ("search-x7k2p", [4]),
        ("search-1", [3]),
        ("search-3f", [3]),
        ("digits-0123456789-abcdef", [0]),
    ],
)
def test_a_word_names_a_workload_or_an_object_before_the_beginning_of_ids(word: str | None, indices: list[int]) -> None:
    """`digits` does not select a run of `digits-small`, and `search-3` is the third trial."""
    assert select_launches(ALL, word) == [ALL[index] for index in indices]


def test_an_unknown_word_is_an_error_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the ids."""
    with pytest.raises(typer.Exit):
        select_launches(ALL, "mnist")
    assert "digits-0123456789" in capsys.readouterr().err
