"""The progress and remaining time of a training, estimated from the end of its log."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.terminal_text import terminal_texts
from trainstack.runs.logs.training_log import Position, TrainingLogReader


@dataclass(frozen=True, kw_only=True)
class TrainingProgress(Position):
    """The position of the last line that has one."""

    fraction: float | None
    """The finished fraction of all epochs, from 0 to 1; None if their number is unknown."""
    seconds_left: float | None
    """The estimated remaining seconds; None if the lines do not allow an estimate."""


def estimate_progress(
    lines: Sequence[LogLine], container_start: datetime | None, now: datetime
) -> TrainingProgress | None:
    """Return the progress according to the end of a log; None if no line has a position.

    The rate is measured between the first and the last line with a position, so that a run that resumed halfway does
    not appear twice as fast. With only one such line, it is measured from `container_start`, if known.
    """
    reader = TrainingLogReader()
    positions = [
        (line.time, position)
        for line in lines
        for piece in terminal_texts(line.text)
        if (position := reader.read(piece))
    ]
    if not positions:
        return None
    last_position = positions[-1][1]
    return TrainingProgress(
        **asdict(last_position),
        fraction=_fraction(last_position),
        seconds_left=_seconds_left(positions, container_start, now),
    )


def _fraction(position: Position) -> float | None:
    if position.epoch is None or position.epochs is None:
        return None
    return min(1.0, max(0.0, (position.epoch - 1 + position.epoch_fraction) / position.epochs))


def _seconds_left(
    positions: Sequence[tuple[datetime, Position]], container_start: datetime | None, now: datetime
) -> float | None:
    fractions = [(time, fraction) for time, position in positions if (fraction := _fraction(position)) is not None]
    if not fractions:
        return None
    time, last_fraction = fractions[-1]
    start, first_fraction = next(
        ((earlier_time, fraction) for earlier_time, fraction in fractions if fraction < last_fraction),
        (container_start, 0.0),
    )
    if start is None or last_fraction <= first_fraction or time <= start:
        return None
    rate = (last_fraction - first_fraction) / (time - start).total_seconds()
    # Part of the remaining time has passed since the last line.
    return max(0.0, (1 - last_fraction) / rate - max(0.0, (now - time).total_seconds()))
