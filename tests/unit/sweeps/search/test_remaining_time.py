"""The remaining time of a sweep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.sweeps.search.remaining_time import seconds_left


@pytest.mark.parametrize(
    ("finished", "running", "waiting", "left"),
    [
        ([60.0], [10.0, 30.0], 0, 50.0),
        ([60.0], [10.0, 30.0], 1, 90.0),
        ([50.0, 60.0, 900.0], [0.0, 0.0], 4, 180.0),
        ([60.0], [100.0], 2, 120.0),
        ([], [10.0], 3, None),
        ([60.0], [], 3, None),
        ([60.0], [], 0, 0.0),
        ([], [], 0, 0.0),
    ],
)
def test_the_remaining_trials_take_as_long_as_the_finished_ones(
    finished: list[float], running: list[float], waiting: int, left: float | None
) -> None:
    """The number of parallel trials is constant. The median ignores outliers. Without finished trials it is None."""
    assert seconds_left(finished, running, waiting) == left


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.integers(0, 50))
def test_the_remaining_time_is_within_the_bounds_of_a_queue(running: list[float], waiting: int) -> None:
    """It is at least the work divided by the number of slots, and at most one round longer."""
    left = seconds_left([100.0], running, waiting)
    work = sum(100 - seconds for seconds in running) + 100 * waiting
    assert left is not None
    assert work / len(running) - 1e-6 <= left <= work / len(running) + 100
