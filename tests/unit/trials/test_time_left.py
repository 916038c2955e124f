"""How long a sweep will still take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainstack.sweeps.search.progress import seconds_left


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
def test_the_rest_takes_as_long_as_what_has_ended(
    finished: list[float], running: list[float], waiting: int, left: float | None
) -> None:
    """As many at once as run now; the median is not moved by one that took long. What nothing tells is None."""
    assert seconds_left(finished, running, waiting) == left


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.integers(0, 50))
def test_it_is_as_a_queue_would_have_it(running: list[float], waiting: int) -> None:
    """Never less than the work divided among the places, never more than one round longer."""
    left = seconds_left([100.0], running, waiting)
    work = sum(100 - each for each in running) + 100 * waiting
    assert left is not None
    assert work / len(running) - 1e-6 <= left <= work / len(running) + 100
