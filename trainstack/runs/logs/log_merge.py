"""The merge of several logs by time, which neither loses nor repeats lines if a stream is resumed."""

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
    """The position up to which one container's log has been read.

    A log can only be requested from a whole second on (`sinceTime`), so a resumed stream repeats lines of that second.
    They are skipped by count, because a log keeps its order.
    """

    last: int = 0
    """The latest timestamp read, in nanoseconds since 1970; 0 before the first line."""
    count: int = 0
    """The number of lines read whose timestamps are in the second of `last_nanoseconds`."""
    cut: bool = False
    """Whether only the end of the log was read (`tailLines`). The number of earlier lines in that second is then
    unknown, so all lines up to `last_nanoseconds` count as read."""
    _again: int = 0

    @property
    def second(self) -> int | None:
        """The second to request the log from; None before the first line."""
        return self.last // _SECOND if self.last else None

    def begin(self, since: datetime) -> None:
        """Skip the lines before this time if nothing was read yet."""
        self.last = self.last or int(since.timestamp()) * _SECOND

    def resume(self) -> None:
        """Prepare for a stream that starts again from `second`."""
        self._again = sys.maxsize if self.cut else self.count

    def anew(self) -> None:
        """Prepare for the new log of a restarted container, of which nothing was read."""
        self.count, self.cut = 0, False

    def take(self, line: LogLine) -> bool:
        """Return whether a line is new, and count it as read."""
        if self._again and line.nanoseconds <= self.last:
            self._again -= 1
            return False
        self._again = 0
        if line.nanoseconds // _SECOND == self.last // _SECOND:
            self.count += 1
        elif line.nanoseconds > self.last:
            # From the first line of a new second on, all lines are read, so the count is exact even for a tail.
            self.count, self.cut = 1, self.cut and not self.last
        self.last = max(self.last, line.nanoseconds)
        return True


def merged(logs: Mapping[T, Sequence[LogLine]]) -> Iterator[tuple[T, LogLine]]:
    """Yield the lines of all logs by time, with their source. The lines of one log keep their order."""
    streams = ([(line, source) for line in lines] for source, lines in logs.items())
    for line, source in heapq.merge(*streams, key=lambda pair: pair[0].nanoseconds):
        yield source, line
