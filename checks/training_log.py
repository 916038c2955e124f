"""The lines of a training's log: when each was written, what epoch and step it tells, how long it will still take."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_POSITION = re.compile(
    r"(?P<begins>\b(?:[Ss]tart|[Bb]egin)\w*:? )?"
    r"\bepoch (?P<epoch>\d+)/(?P<epochs>\d+)(?: step (?P<step>\d+)/(?P<steps>\d+))?"
)
_STAMP = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, order=True)
class LogLine:
    """A line of a container's log with the moment at which it was written."""

    nanoseconds: int
    """Since 1970, in UTC: a log's order is finer than a microsecond."""
    text: str
    """As a terminal shows it: of a progress bar, which overwrites itself, what it said last."""

    @property
    def at(self) -> datetime:
        """The moment, to the microsecond."""
        seconds, rest = divmod(self.nanoseconds, 10**9)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


@dataclass(frozen=True)
class Position:
    """Where a line says that the training is."""

    epoch: int
    """From 1."""
    epochs: int
    step: int | None
    steps: int | None
    """Of the epoch; None where the line tells of the epoch alone."""
    begins: bool = False
    """It says that the epoch begins; else a line that tells of the epoch alone says that it is done."""

    @property
    def fraction(self) -> float:
        """From 0 to 1, of all epochs."""
        within = 0.0 if self.begins else 1.0
        if self.step is not None and self.steps:
            within = self.step / self.steps
        return min(1.0, max(0.0, (self.epoch - 1 + within) / self.epochs))


@dataclass(frozen=True)
class Progress:
    """What the last line that tells it says."""

    fraction: float
    """From 0 to 1, of all epochs."""
    epoch: int
    epochs: int
    step: int | None
    steps: int | None
    """Of the epoch; None where the log counts epochs alone."""
    seconds_left: float | None
    """None while there is nothing to reckon it from."""


def log_lines(text: str) -> list[LogLine]:
    """The lines of a log that was asked for with timestamps; what bears none is left out."""
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


def progress(lines: Sequence[LogLine], started: datetime | None, now: datetime) -> Progress | None:
    """Read the progress; None where no line tells any.

    The rate is that between the first and the last of these lines, so a run that resumed at a half is not taken for
    twice as fast; with one such line alone, that since the start.

    Args:
        lines: the end of the log, oldest first.
        started: when the container started; None when that is unknown.
        now: a line that is some time old has been followed by work of which nothing is told yet.

    """
    told = [(line.at, found) for line in lines if (found := position(line.text)) is not None]
    if not told:
        return None
    at, last = told[-1]
    before = ((when, each.fraction) for when, each in told if each.fraction < last.fraction)
    since, fraction = next(before, (started, 0.0))
    left = None
    if since is not None and last.fraction > fraction and at > since:
        rate = (last.fraction - fraction) / (at - since).total_seconds()
        left = max(0.0, (1 - last.fraction) / rate - max(0.0, (now - at).total_seconds()))
    return Progress(last.fraction, last.epoch, last.epochs, last.step, last.steps, seconds_left=left)


def position(text: str) -> Position | None:
    """The position that a line tells, also behind what a logger puts before it; None where it tells none."""
    match = _POSITION.search(text)
    if match is None:
        return None
    epoch, epochs = int(match["epoch"]), int(match["epochs"])
    step, steps = (int(match["step"]), int(match["steps"])) if match["step"] else (None, None)
    if not epochs or steps == 0:
        return None
    return Position(epoch, epochs, step, steps, begins=match["begins"] is not None)
