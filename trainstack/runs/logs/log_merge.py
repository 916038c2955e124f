"""The lines of several logs: merged by time, and none lost or told twice when a stream is taken up again."""

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

    A log is asked for from a whole second on (`sinceTime`), and holds lines of the same moment, so some lines come
    again. They are those that were told before since that second, in the log's own order: they are counted.
    """

    last: int = 0
    """The latest moment told, in nanoseconds since 1970; 0 before the first line."""
    told: int = 0
    """Lines told of the second that it is in."""
    cut: bool = False
    """Only the end of the log was told (`tailLines`): how many lines of that second went before is not known, so what
    is not later than the last is taken for told."""
    _again: int = 0

    @property
    def second(self) -> int | None:
        """The second to ask from; None before the first line."""
        return self.last // _SECOND if self.last else None

    def begin(self, since: datetime) -> None:
        """Where nothing was told yet, go on from this moment, not from the log's beginning."""
        self.last = self.last or int(since.timestamp()) * _SECOND

    def resume(self) -> None:
        """The stream begins anew, from `second`."""
        self._again = sys.maxsize if self.cut else self.told

    def anew(self) -> None:
        """Another log goes on from here, that of the container as it was started again: nothing of it was told."""
        self.told, self.cut = 0, False

    def take(self, line: LogLine) -> bool:
        """Whether a line is new; it counts as told from then on."""
        if self._again and line.nanoseconds <= self.last:
            self._again -= 1
            return False
        self._again = 0
        if line.nanoseconds // _SECOND == self.last // _SECOND:
            self.told += 1
        elif line.nanoseconds > self.last:
            # All that is written from here on is told, so counting is exact again after the first line was.
            self.told, self.cut = 1, self.cut and not self.last
        self.last = max(self.last, line.nanoseconds)
        return True


def merged(logs: Mapping[T, Sequence[LogLine]]) -> Iterator[tuple[T, LogLine]]:
    """All lines by time; those of one log stay in its order."""
    streams = ([(line, source) for line in lines] for source, lines in logs.items())
    for line, source in heapq.merge(*streams, key=lambda pair: pair[0].nanoseconds):
        yield source, line
