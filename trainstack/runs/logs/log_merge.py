"""Merge the lines of several logs by time, without losing or repeating lines when a stream is resumed."""

import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from trainstack.runs.logs.log_lines import LogLine

T = TypeVar("T")
_SECOND = 10**9


@dataclass
class Cursor:
    """How far one container's log has been read.

    A log is requested from a whole second on (`sinceTime`), so a resumed stream repeats lines of that second. They are
    skipped by count, since a log keeps its order.
    """

    last: int = 0
    """The latest timestamp read, in nanoseconds since 1970; 0 before the first line."""
    count: int = 0
    """Lines read with a timestamp in the same second as `last`."""
    cut: bool = False
    """Only the end of the log was read (`tailLines`). The number of earlier lines in that second is unknown, so all
    lines up to `last` count as read."""
    _again: int = 0

    @property
    def second(self) -> int | None:
        """The second to request the log from; None before the first line."""
        return self.last // _SECOND if self.last else None

    def begin(self, since: datetime) -> None:
        """Start at this time instead of at the beginning of the log if nothing was read yet."""
        self.last = self.last or int(since.timestamp()) * _SECOND

    def resume(self) -> None:
        """The stream starts again, from `second`."""
        self._again = sys.maxsize if self.cut else self.count

    def anew(self) -> None:
        """The container has restarted with a new log, of which nothing was read."""
        self.count, self.cut = 0, False

    def take(self, line: LogLine) -> bool:
        """Whether a line is new; it counts as read afterwards."""
        if self._again and line.nanoseconds <= self.last:
            self._again -= 1
            return False
        self._again = 0
        if line.nanoseconds // _SECOND == self.last // _SECOND:
            self.count += 1
        elif line.nanoseconds > self.last:
            # All later lines are read, so the count is exact again after the first line.
            self.count, self.cut = 1, self.cut and not self.last
        self.last = max(self.last, line.nanoseconds)
        return True


def merged(logs: Mapping[T, Sequence[LogLine]]) -> Iterator[tuple[T, LogLine]]:
    """All lines by time; those of one log stay in its order."""
    streams = ([(line, source) for line in lines] for source, lines in logs.items())
    for line, source in heapq.merge(*streams, key=lambda pair: pair[0].nanoseconds):
        yield source, line
