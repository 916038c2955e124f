"""Who waits and runs when, and what is used meanwhile: the plain rows of a Gantt chart."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_LANES = 60
"""More of them nobody reads: the first ones are drawn, and the others counted."""
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A time in which something runs, in seconds."""

    start: float
    end: float | None
    """None: no end is known."""
    colours: tuple[int, ...]
    """Places in `reports.charts.COLOURS`, of which further ones begin again; several stand one above the other."""
    words: str
    """What it is."""
    uncertain: bool = False
    """It ends there at the latest."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A run."""

    name: str
    words: str
    """What there is to say of it, in a few words."""
    since: float | None
    """From when on it waits or runs; None: not within what is drawn."""
    pieces: tuple[Piece, ...]
    ends: bool = True
    """False: after the last piece it waits on."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """An amount over time."""

    name: str
    words: str
    colour: int
    """As of a piece."""
    most: float
    """What there is of it."""
    steps: tuple[tuple[float, float], ...]
    """From each of these seconds on so much."""


@dataclass(frozen=True, kw_only=True)
class Gantt:
    """Lanes over levels, on one axis of time."""

    title: str
    until: float
    """Where the axis ends, in seconds."""
    lanes: tuple[Lane, ...]
    levels: tuple[Level, ...]

    @property
    def drawn(self) -> tuple[Lane, ...]:
        """The lanes that have a place."""
        return self.lanes[:MOST_LANES]

    @property
    def left_out(self) -> str:
        """What is not drawn, in words; empty where everything is."""
        more = len(self.lanes) - len(self.drawn)
        return f"and {more:,} more, which start later or never" if more else ""


def ticks(until: float, about: int) -> list[tuple[float, str]]:
    """Round times up to `until`, about so many, each with its name: `30m`, `2h`."""
    step = next((each for each in _STEPS if until / each <= about), 86400 * max(1, round(until / 86400 / about)))
    size, unit = next((size, unit) for size, unit in _UNITS if step % size == 0)
    return [(place * step, f"{place * step // size}{unit}") for place in range(int(until // step) + 1)]


def stairs(steps: Sequence[tuple[float, float]], until: float) -> tuple[list[float], list[float]]:
    """Values, and the edges between which they hold, from 0 to `until`."""
    inside = [(at, used) for at, used in steps if at < until]
    if not inside or inside[0][0] > 0:
        inside.insert(0, (0.0, 0.0))
    edges = [at for at, _ in inside] + [until]
    return [used for _, used in inside], edges
