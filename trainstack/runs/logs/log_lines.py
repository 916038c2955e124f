"""The lines of a container's log, with the time at which each was written."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, order=True)
class LogLine:
    """A line of a container's log with the moment at which it was written."""

    nanoseconds: int
    """Since 1970, in UTC: a log's order is finer than a microsecond."""
    text: str
    """As a terminal shows it: of a progress bar, which overwrites itself, its last state."""

    @property
    def at(self) -> datetime:
        """The moment, to the microsecond."""
        seconds, rest = divmod(self.nanoseconds, 10**9)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def log_lines(text: str) -> list[LogLine]:
    """The lines of a log that was requested with timestamps; a line without one is left out."""
    # Not splitlines, for which more than the line feed ends a line: what follows has no stamp.
    return [line for line in map(log_line, text.split("\n")) if line is not None]


def log_line(text: str) -> LogLine | None:
    """One line, `2026-01-31T12:00:00.123456789Z words`."""
    nanoseconds, words = timed(text)
    return None if nanoseconds is None else LogLine(nanoseconds, words.rstrip("\r").rpartition("\r")[2])


def timed(text: str) -> tuple[int | None, str]:
    """A line's moment, as `LogLine` has it, and its words; without a stamp None and all of it."""
    stamp, _, words = text.partition(" ")
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None, text
    second = datetime.fromisoformat(match["second"] + match["zone"])
    return int(second.timestamp()) * 10**9 + int((match["fraction"] or "").ljust(9, "0")), words
