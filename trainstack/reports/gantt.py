"""The data of a Gantt chart: the waits and executions of runs, and the resources in use. Times are in seconds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

MAX_LANES = 60
"""The maximum number of drawn lanes; further ones are only counted."""
_TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, kw_only=True)
class RunSegment:
    """A time in which a run is running."""

    start: float
    end: float | None
    """None if unknown."""
    colors: tuple[int, ...]
    """Indexes into the repeated `charts.COLORS`, drawn one above the other."""
    label: str
    uncertain: bool = False
    """Whether `end` is only the latest possible end."""
    end_range: tuple[float, float] | None = None
    """The earliest and the latest end; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A run on the chart."""

    name: str
    label: str
    """A short description of the run."""
    waits_from: float | None
    """The start of its first wait; None if the wait is not on the chart."""
    segments: tuple[RunSegment, ...]
    has_end: bool = True
    """Whether the run ends with its last segment; otherwise it waits again."""
    never_fits: bool = False
    """Whether the run waits forever."""
    unchanged_times: tuple[tuple[float, float | None], ...] = ()
    """The starts and ends of the segments without the changes that the chart is about; an end is None if unknown."""

    def wait_times(self, until: float) -> list[tuple[float, float]]:
        """Return the starts and ends of the waits before and between the segments, up to `until`."""
        starts = [self.waits_from, *(segment.end for segment in self.segments)]
        ends = [*(segment.start for segment in self.segments), *([] if self.has_end else [until])]
        times = [(max(0.0, start), end) for start, end in zip(starts, ends, strict=False) if start is not None]
        return [(start, end) for start, end in times if start < end]


@dataclass(frozen=True, kw_only=True)
class Level:
    """The use of a resource over time."""

    name: str
    label: str
    color: int
    capacity: float
    steps: tuple[tuple[float, float], ...]
    """Pairs of a time and the amount in use from then on."""


Mark = Literal["run", "uncertain", "endless", "range", "wait", "never", "unchanged", "capacity"]
"""A kind of bar or line."""
_MARK_TEXTS: Mapping[Mark, str] = {
    "uncertain": "latest end",
    "endless": "no known end",
    "range": "range of the end, if durations and order differ a little",
    "wait": "waits",
    "never": "never fits",
    "unchanged": "without the changes",
    "capacity": "quota",
}


@dataclass(frozen=True, kw_only=True)
class LegendEntry:
    mark: Mark
    text: str
    color: int = 0
    """Of a run; the other marks have none."""


@dataclass(frozen=True, kw_only=True)
class Gantt:
    """Lanes above levels on one time axis."""

    title: str
    until: float
    """The end of the axis."""
    lanes: tuple[Lane, ...]
    levels: tuple[Level, ...]
    color_names: Mapping[int, str] = field(default_factory=dict)
    """The meanings of the segments' colors."""

    @property
    def legend(self) -> list[LegendEntry]:
        """The entries for the colors and the marks in the chart."""
        entries = [LegendEntry(mark="run", text=name, color=color) for color, name in self.color_names.items()]
        marks = set(self._marks())
        return [*entries, *(LegendEntry(mark=mark, text=text) for mark, text in _MARK_TEXTS.items() if mark in marks)]

    def _marks(self) -> Iterator[Mark]:
        for lane in self.drawn_lanes:
            if lane.wait_times(self.until):
                yield "never" if lane.never_fits else "wait"
            if lane.unchanged_times:
                yield "unchanged"
            for segment in lane.segments:
                if segment.end is None:
                    yield "endless"
                elif segment.uncertain:
                    yield "uncertain"
                if segment.end_range is not None:
                    yield "range"
        if self.levels:
            yield "capacity"

    @property
    def drawn_lanes(self) -> tuple[Lane, ...]:
        return self.lanes[:MAX_LANES]

    @property
    def omission_note(self) -> str:
        """The note on the lanes beyond the limit; empty if there are none."""
        omitted_count = len(self.lanes) - len(self.drawn_lanes)
        return f"and {omitted_count:,} more, which start later or never" if omitted_count else ""


def ticks(until: float, target_count: int) -> list[tuple[float, str]]:
    """Return about `target_count` round times up to `until`, with labels such as `30m` or `2h`."""
    step = next(
        (step for step in _TICK_STEPS if until / step <= target_count),
        86400 * max(1, round(until / 86400 / target_count)),
    )
    size, unit = next((size, unit) for size, unit in _UNITS if step % size == 0)
    return [(index * step, f"{index * step // size}{unit}") for index in range(int(until // step) + 1)]


def stairs(steps: Sequence[tuple[float, float]], until: float) -> tuple[list[float], list[float]]:
    """Return the values of a step function from 0 to `until`, and the edges between them."""
    visible_steps = [(time, value) for time, value in steps if time < until]
    if not visible_steps or visible_steps[0][0] > 0:
        visible_steps.insert(0, (0.0, 0.0))
    return [value for _, value in visible_steps], [*(time for time, _ in visible_steps), until]
