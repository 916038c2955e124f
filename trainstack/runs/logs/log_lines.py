"""The lines of a container's log, with their timestamps."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, order=True)
class LogLine:
    """A line of a container's log with its timestamp."""

    nanoseconds: int
    """The timestamp since 1970 in UTC. A datetime would round it: timestamps of logs are finer than a microsecond."""
    text: str
    """The text as a terminal shows it: only the last state of a progress bar that overwrites itself."""

    @property
    def time(self) -> datetime:
        seconds, remaining_nanoseconds = divmod(self.nanoseconds, 10**9)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=remaining_nanoseconds // 1000)


def log_lines(text: str) -> list[LogLine]:
    """Return the lines of a log that was requested with timestamps, without the lines that have none."""
    # splitlines would also split at characters other than line feeds, after which no timestamp follows.
    return [line for line in map(log_line, text.split("\n")) if line is not None]


def log_line(text: str) -> LogLine | None:
    nanoseconds, words = split_timestamp(text)
    return None if nanoseconds is None else LogLine(nanoseconds, words.rstrip("\r").rpartition("\r")[2])


def split_timestamp(text: str) -> tuple[int | None, str]:
    """Split a line into its timestamp in nanoseconds and its text; without a timestamp, None and the whole line."""
    stamp, _, words = text.partition(" ")
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None, text
    second = datetime.fromisoformat(match["second"] + match["zone"])
    return int(second.timestamp()) * 10**9 + int((match["fraction"] or "").ljust(9, "0")), words
