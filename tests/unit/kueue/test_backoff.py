"""The start times of scheduling cycles."""

from math import inf

import pytest

from trainstack.kueue.backoff import Backoff


def test_pauses_grow_to_a_tenth_of_a_second_until_an_admission() -> None:
    """The pauses are 0, 1, 2, 4, … 64, 100, 100 ms; an admission resets them."""
    backoff = Backoff(instant=False)
    assert ends(backoff, 10) == [0.0, 0.001, 0.003, 0.007, 0.015, 0.031, 0.063, 0.127, 0.227, 0.327]
    backoff.record_cycle(admitted=True)
    assert ends(backoff, 2) == [0.427, 0.428]


def test_an_admission_does_not_shorten_the_current_pause() -> None:
    """The next cycle starts at the same time."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    before = backoff.time
    backoff.record_cycle(admitted=True)
    assert backoff.time == pytest.approx(before + 0.1)


def test_after_an_idle_time_a_cycle_starts_at_once() -> None:
    """Its pause has ended during the idle time."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    backoff.advance_to(9.0)
    assert ends(backoff, 3) == [9.0, 9.1, 9.2]


def ends(backoff: Backoff, cycles: int) -> list[float]:
    """Return the times at which the next cycle may start, after each of some cycles without admissions."""
    times = []
    for _ in range(cycles):
        backoff.record_cycle(admitted=False)
        times.append(round(backoff.time, 3))
    return times


@pytest.mark.parametrize(("cycles", "until"), [(5, inf), (1000, inf), (1000, 50.0), (1000, 0.02), (3, 0.0)])
def test_skipped_cycles_have_the_same_number_and_duration(cycles: int, until: float) -> None:
    """Cycles that start before the next event are skipped."""
    backoff, slow = Backoff(instant=False), Backoff(instant=False)
    passed = 0
    while passed < cycles and slow.time < until:
        slow.record_cycle(admitted=False)
        passed += 1
    assert backoff.skip(cycles, until) == passed
    assert backoff.time == pytest.approx(slow.time)


def test_an_event_does_not_start_a_cycle_earlier() -> None:
    """The cycle processes the event when it starts."""
    backoff = Backoff(instant=False)
    backoff.skip(20, inf)
    scheduled = backoff.time
    backoff.advance_to(scheduled - 0.05)
    assert backoff.time == scheduled
    backoff.advance_to(scheduled + 7)
    assert backoff.time == scheduled + 7


def test_instant_cycles_take_no_time() -> None:
    backoff = Backoff(instant=True)
    backoff.record_cycle(admitted=False)
    assert (backoff.skip(9, inf), backoff.time) == (9, 0.0)
