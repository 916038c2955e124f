"""The merge of several logs by time, which neither loses nor repeats lines if a stream is resumed."""

import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from trainstack.runs.logs.log_lines import LogLine

T = TypeVar("T")
_NANOSECONDS_PER_SECOND = 10**9


@dataclass
class Cursor:
    """The position up to which one container's log has been read.

    A log can only be requested from a whole second on (`sinceTime`), so a resumed stream repeats lines of that second.
    They are skipped by count, because a log keeps its order.
    """

    last_nanoseconds: int = 0
    """The latest timestamp read, in nanoseconds since 1970; 0 before the first line."""
    lines_in_second: int = 0
    """The number of lines read whose timestamps are in the second of `last_nanoseconds`."""
    is_tail: bool = False
    """Whether only the end of the log was read (`tailLines`). The number of earlier lines in that second is then
    unknown, so all lines up to `last_nanoseconds` count as read."""
    _lines_to_skip: int = 0

    @property
    def second(self) -> int | None:
        """The second to request the log from; None before the first line."""
        return self.last_nanoseconds // _NANOSECONDS_PER_SECOND if self.last_nanoseconds else None

    def start_at(self, since: datetime) -> None:
        """Skip the lines before this time if nothing was read yet."""
        self.last_nanoseconds = self.last_nanoseconds or int(since.timestamp()) * _NANOSECONDS_PER_SECOND

    def resume(self) -> None:
        """Prepare for a stream that starts again from `second`."""
        self._lines_to_skip = sys.maxsize if self.is_tail else self.lines_in_second

    def restart(self) -> None:
        """Prepare for the new log of a restarted container, of which nothing was read."""
        self.lines_in_second, self.is_tail = 0, False

    def read_if_new(self, line: LogLine) -> bool:
        """Return whether a line is new, and count it as read."""
        if self._lines_to_skip and line.nanoseconds <= self.last_nanoseconds:
            self._lines_to_skip -= 1
            return False
        self._lines_to_skip = 0
        if line.nanoseconds // _NANOSECONDS_PER_SECOND == self.last_nanoseconds // _NANOSECONDS_PER_SECOND:
            self.lines_in_second += 1
        elif line.nanoseconds > self.last_nanoseconds:
            # From the first line of a new second on, all lines are read, so the count is exact even for a tail.
            self.lines_in_second, self.is_tail = 1, self.is_tail and not self.last_nanoseconds
        self.last_nanoseconds = max(self.last_nanoseconds, line.nanoseconds)
        return True


def merge_logs(logs: Mapping[T, Sequence[LogLine]]) -> Iterator[tuple[T, LogLine]]:
    """Yield the lines of all logs by time, with their source. The lines of one log keep their order."""
    streams = ([(line, source) for line in lines] for source, lines in logs.items())
    for line, source in heapq.merge(*streams, key=lambda pair: pair[0].nanoseconds):
        yield source, line
