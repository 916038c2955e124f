"""Estimate a training's progress and remaining time from the end of its log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.training_log import Position, Reader


@dataclass(frozen=True)
class Progress:
    """The position of the last line that has one."""

    fraction: float | None
    """From 0 to 1, of all epochs; None where their number is unknown."""
    epoch: int | None
    epochs: int | None
    step: int | None
    steps: int | None
    """Of the epoch."""
    seconds_left: float | None
    """None if the lines do not allow an estimate."""
    rows: int | None = None
    rows_of_epoch: int | None = None
    epoch_fraction: float | None = None
    """From 0 to 1, of the epoch."""


def progress(lines: Sequence[LogLine], started: datetime | None, now: datetime) -> Progress | None:
    """Read the progress; None where no line has a position.

    The rate is measured between the first and the last line with a position, so that a run that resumed halfway does
    not appear twice as fast; with only one such line, it is measured since the start.

    Args:
        lines: the end of the log, oldest first.
        started: when the container started; None when that is unknown.
        now: the current time; the time since the last line is deducted from the estimate.

    """
    reader = Reader()
    found = [(line.at, position) for line in lines if (position := reader.read(line.text.strip()))]
    if not found:
        return None
    last = found[-1][1]
    return Progress(
        last.fraction,
        last.epoch,
        last.epochs,
        last.step,
        last.steps,
        _seconds_left(found, started, now),
        last.rows,
        last.rows_of_epoch,
        last.epoch_fraction,
    )


def _seconds_left(found: Sequence[tuple[datetime, Position]], started: datetime | None, now: datetime) -> float | None:
    known = [(at, position.fraction) for at, position in found if position.fraction is not None]
    if not known:
        return None
    at, last = known[-1]
    since, first = next(((when, fraction) for when, fraction in known if fraction < last), (started, 0.0))
    if since is None or last <= first or at <= since:
        return None
    rate = (last - first) / (at - since).total_seconds()
    return max(0.0, (1 - last) / rate - max(0.0, (now - at).total_seconds()))
