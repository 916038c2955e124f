"""Logs of several replicas: merged by time, and resumed without losing or repeating a line."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.log_merge import Cursor, merge_logs

SECOND = 10**9


def test_lines_are_merged_by_time_and_keep_the_order_of_their_log() -> None:
    """They keep it even if the timestamps of a log decrease."""
    logs = {"a": [LogLine(1, "a1"), LogLine(5, "a2"), LogLine(4, "a3")], "b": [LogLine(2, "b1"), LogLine(9, "b2")]}
    assert [line.text for _, line in merge_logs(logs)] == ["a1", "b1", "a2", "a3", "b2"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_a_broken_stream_loses_and_repeats_nothing(tenths: list[int], breaks: list[int]) -> None:
    """The server filters by whole seconds; lines with the same timestamp are printed once."""
    log = [LogLine(SECOND + tenth * SECOND // 10, str(number)) for number, tenth in enumerate(sorted(tenths))]
    cursor, printed = Cursor(), []
    for lines in [*breaks, len(log)]:
        cursor.resume()
        second = cursor.second or 0
        served = [line for line in log if line.nanoseconds >= second * SECOND]
        printed += [line for line in served[:lines] if cursor.read_if_new(line)]
    assert printed == log


def test_a_rotated_log_hides_no_new_line() -> None:
    """The printed lines are no longer in the log: later lines are new."""
    cursor = Cursor()
    assert all(cursor.read_if_new(LogLine(SECOND + nanosecond, "")) for nanosecond in range(3))
    cursor.resume()
    assert cursor.read_if_new(LogLine(SECOND + 7, "after the rotation"))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True), st.integers(1, 30), st.integers(0, 30))
def test_a_log_continues_after_its_printed_tail(tenths: list[int], tail: int, cut: int) -> None:
    """Lines before the tail are never printed, and no line after it is lost."""
    log = [LogLine(SECOND + tenth * SECOND // 10, str(tenth)) for tenth in sorted(tenths)]
    written = max(1, min(cut, len(log)))
    cursor, end = Cursor(is_tail=True), log[:written][-tail:]
    printed = [line for line in end if cursor.read_if_new(line)]
    for _ in range(3):
        cursor.resume()
        printed += [
            line for line in log if line.nanoseconds >= (cursor.second or 0) * SECOND and cursor.read_if_new(line)
        ]
    assert printed == [*end, *log[written:]]


def test_a_log_without_printed_lines_continues_from_the_given_time() -> None:
    """A log with printed lines continues after the last one."""
    unread, printed = Cursor(), Cursor()
    printed.read_if_new(LogLine(9 * SECOND, ""))
    for cursor in (unread, printed):
        cursor.start_at(datetime.fromtimestamp(5, UTC))
    assert (unread.second, printed.second) == (5, 9)
    unread.resume()
    assert unread.read_if_new(LogLine(5 * SECOND + 1, ""))
