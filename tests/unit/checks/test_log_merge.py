"""Logs of several replicas: merged by time, and resumed without losing or repeating a line."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.log_merge import Cursor, merged

SECOND = 10**9


def test_lines_are_merged_by_time_and_stay_in_their_logs_order() -> None:
    """A log's own order counts, also where its stamps do not rise."""
    logs = {"a": [LogLine(1, "a1"), LogLine(5, "a2"), LogLine(4, "a3")], "b": [LogLine(2, "b1"), LogLine(9, "b2")]}
    assert [line.text for _, line in merged(logs)] == ["a1", "b1", "a2", "a3", "b2"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_a_stream_that_breaks_anywhere_loses_and_repeats_nothing(tenths: list[int], breaks: list[int]) -> None:
    """The server gives whole seconds; lines of one moment are told once."""
    log = [LogLine(SECOND + each * SECOND // 10, str(number)) for number, each in enumerate(sorted(tenths))]
    cursor, told = Cursor(), []
    for lines in [*breaks, len(log)]:
        cursor.resume()
        second = cursor.second or 0
        served = [line for line in log if line.nanoseconds >= second * SECOND]
        told += [line for line in served[:lines] if cursor.take(line)]
    assert told == log


def test_a_rotated_log_hides_no_new_line() -> None:
    """What was told before is not there any more: later lines are new."""
    cursor = Cursor()
    assert all(cursor.take(LogLine(SECOND + each, "")) for each in range(3))
    cursor.resume()
    assert cursor.take(LogLine(SECOND + 7, "after the rotation"))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True), st.integers(1, 30), st.integers(0, 30))
def test_a_log_of_which_only_the_end_was_told_goes_on_after_it(tenths: list[int], tail: int, cut: int) -> None:
    """What went before the end is told neither then nor later, and nothing after it is lost."""
    log = [LogLine(SECOND + each * SECOND // 10, str(each)) for each in sorted(tenths)]
    written = max(1, min(cut, len(log)))
    cursor, end = Cursor(cut=True), log[:written][-tail:]
    told = [line for line in end if cursor.take(line)]
    for _ in range(3):
        cursor.resume()
        told += [line for line in log if line.nanoseconds >= (cursor.second or 0) * SECOND and cursor.take(line)]
    assert told == [*end, *log[written:]]


def test_a_log_that_was_silent_since_a_moment_goes_on_from_there() -> None:
    """And one of which something was told goes on behind that."""
    silent, told = Cursor(), Cursor()
    told.take(LogLine(9 * SECOND, ""))
    for cursor in (silent, told):
        cursor.begin(datetime.fromtimestamp(5, UTC))
    assert (silent.second, told.second) == (5, 9)
    silent.resume()
    assert silent.take(LogLine(5 * SECOND + 1, ""))
