"""When scheduling cycles begin."""

from math import inf

import pytest

from trainstack.kueue.backoff import Backoff


def test_pauses_grow_to_a_tenth_of_a_second_until_somebody_is_admitted() -> None:
    """None, 1, 2, 4, … 64, 100, 100 ms; then from the first again."""
    backoff = Backoff(instant=False)
    assert ends(backoff, 10) == [0.0, 0.001, 0.003, 0.007, 0.015, 0.031, 0.063, 0.127, 0.227, 0.327]
    backoff.cycle_ended(admitted=True)
    assert ends(backoff, 2) == [0.427, 0.428]


def test_who_is_admitted_shortens_no_pause_that_has_begun() -> None:
    """The cycle after it comes when it would have come anyway."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    late = backoff.time
    backoff.cycle_ended(admitted=True)
    assert backoff.time == pytest.approx(late + 0.1)


def test_after_a_rest_two_cycles_come_at_once() -> None:
    """The pause of the first was over before there was anything to do."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    backoff.advance_to(9.0)
    assert ends(backoff, 3) == [9.0, 9.1, 9.2]


def ends(backoff: Backoff, cycles: int) -> list[float]:
    """When the next one may begin after each of so many cycles that admit nobody."""
    times = []
    for _ in range(cycles):
        backoff.cycle_ended(admitted=False)
        times.append(round(backoff.time, 3))
    return times


@pytest.mark.parametrize(("cycles", "until"), [(5, inf), (1000, inf), (1000, 50.0), (1000, 0.02), (3, 0.0)])
def test_many_cycles_are_skipped_as_if_each_were_made(cycles: int, until: float) -> None:
    """As many as begin before something else happens, and they take as long."""
    backoff, slow = Backoff(instant=False), Backoff(instant=False)
    passed = 0
    while passed < cycles and slow.time < until:
        slow.cycle_ended(admitted=False)
        passed += 1
    assert backoff.skip(cycles, until) == passed
    assert backoff.time == pytest.approx(slow.time)


def test_a_cycle_that_is_waited_for_is_not_begun_earlier() -> None:
    """What happens meanwhile is seen at its beginning."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    late = backoff.time
    backoff.advance_to(late - 0.05)
    assert backoff.time == late
    backoff.advance_to(late + 7)
    assert backoff.time == late + 7


def test_an_instant_lasts() -> None:
    """Cycles that take no time."""
    backoff = Backoff(instant=True)
    backoff.cycle_ended(admitted=False)
    assert (backoff.skip(9, inf), backoff.time) == (9, 0.0)
