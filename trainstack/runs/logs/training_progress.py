"""The progress and remaining time of a training, estimated from the end of its log."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.terminal_text import pieces
from trainstack.runs.logs.training_log import Position, Reader


@dataclass(frozen=True, kw_only=True)
class Progress(Position):
    """The position of the last line that has one."""

    fraction: float | None
    """The finished fraction of all epochs, from 0 to 1; None if their number is unknown."""
    seconds_left: float | None
    """The estimated remaining seconds; None if the lines do not allow an estimate."""


def progress(lines: Sequence[LogLine], started: datetime | None, now: datetime) -> Progress | None:
    """Return the progress according to the end of a log; None if no line has a position.

    The rate is measured between the first and the last line with a position, so that a run that resumed halfway does
    not appear twice as fast. With only one such line, it is measured from `container_start`, if known.
    """
    reader = Reader()
    found = [(line.at, position) for line in lines for piece in pieces(line.text) if (position := reader.read(piece))]
    if not found:
        return None
    last = found[-1][1]
    return Progress(**asdict(last), fraction=_fraction(last), seconds_left=_seconds_left(found, started, now))


def _fraction(position: Position) -> float | None:
    if position.epoch is None or position.epochs is None:
        return None
    return min(1.0, max(0.0, (position.epoch - 1 + position.epoch_fraction) / position.epochs))


def _seconds_left(found: Sequence[tuple[datetime, Position]], started: datetime | None, now: datetime) -> float | None:
    known = [(at, fraction) for at, position in found if (fraction := _fraction(position)) is not None]
    if not known:
        return None
    at, last = known[-1]
    since, first = next(((when, fraction) for when, fraction in known if fraction < last), (started, 0.0))
    if since is None or last <= first or at <= since:
        return None
    rate = (last - first) / (at - since).total_seconds()
    # Part of the remaining time has passed since the last line.
    return max(0.0, (1 - last) / rate - max(0.0, (now - at).total_seconds()))
