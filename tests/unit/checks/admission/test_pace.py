"""When scheduling cycles begin."""

from math import inf

import pytest

from checks.admission.pace import Pace


def test_pauses_grow_to_a_tenth_of_a_second_until_somebody_is_admitted() -> None:
    """1, 2, 4, … 64, 100, 100 ms; then from the first again."""
    pace = Pace(instant=False)
    times = []
    for _ in range(9):
        pace.after(admitted=False)
        times.append(round(pace.time, 3))
    assert times == [0.001, 0.003, 0.007, 0.015, 0.031, 0.063, 0.127, 0.227, 0.327]
    pace.after(admitted=True)
    pace.after(admitted=False)
    assert round(pace.time, 3) == 0.328


@pytest.mark.parametrize(("cycles", "until"), [(5, inf), (1000, inf), (1000, 50.0), (1000, 0.02), (3, 0.0)])
def test_many_cycles_are_skipped_as_if_each_were_made(cycles: int, until: float) -> None:
    """As many as begin before something else happens, and they take as long."""
    pace, slow = Pace(instant=False), Pace(instant=False)
    passed = 0
    while passed < cycles and slow.time < until:
        slow.after(admitted=False)
        passed += 1
    assert pace.skip(cycles, until) == passed
    assert pace.time == pytest.approx(slow.time)


def test_a_cycle_that_is_waited_for_is_not_begun_earlier() -> None:
    """What happens meanwhile is seen at its beginning."""
    pace = Pace(instant=False)
    pace.skip(20, inf)
    late = pace.time
    pace.come_to(late - 0.05)
    assert pace.time == late
    pace.come_to(late + 7)
    assert pace.time == late + 7


def test_an_instant_lasts() -> None:
    """Cycles that take no time."""
    pace = Pace(instant=True)
    pace.after(admitted=False)
    assert (pace.skip(9, inf), pace.time) == (9, 0.0)
