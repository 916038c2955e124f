"""A Gantt chart as a page for phones and desktops, without scripts or network access."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainstack.reports import page
from trainstack.reports.charts import COLORS
from trainstack.reports.gantt import Gantt, Lane, Level, RunSegment, stairs, ticks


class CssBar(NamedTuple):
    """A part of a lane as CSS values: class, position and, for a run, colors."""

    kind: str
    left: str
    width: str
    upper: str = ""
    lower: str = ""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table of the page; the first cell of a row names it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    alarms: AbstractSet[int] = frozenset()
    """The indexes of rows that need a change."""
    kind: Literal["few", "many"] = "many"
    """`many` columns scroll sideways on a phone; `few` become a list."""


def html(gantt: Gantt, *, sentences: Sequence[str], tables: Sequence[PageTable], notes: Sequence[str]) -> str:
    """Return the page: `sentences`, the chart, `tables` and `notes`."""
    marks = [(_css_percent(seconds, gantt.until), text) for seconds, text in ticks(gantt.until, 5)]
    return page.render(
        "gantt",
        gantt.title,
        sentences=sentences,
        ticks=marks,
        step=marks[1][0] if len(marks) > 1 else "100%",
        lanes=[(lane, _lane_bars(lane, gantt.until)) for lane in gantt.drawn_lanes],
        left_out=gantt.omission_note,
        levels=[(level, _level_paths(level, gantt.until)) for level in gantt.levels],
        legend=[(entry, _css_color(entry.color)) for entry in gantt.legend],
        tables=tables,
        notes=notes,
    )


def _lane_bars(lane: Lane, until: float) -> list[CssBar]:
    wait_kind = "never" if lane.never_fits else "wait"
    waits = [_line(wait_kind, start, end, until) for start, end in lane.wait_times(until)]
    ranges = [_line("range", *segment.end_range, until) for segment in lane.segments if segment.end_range is not None]
    unchanged_lines = [
        _line("unchanged", max(0.0, start), until if end is None else end, until) for start, end in lane.unchanged_times
    ]
    return [*waits, *(_segment_bar(segment, until) for segment in lane.segments), *ranges, *unchanged_lines]


def _line(kind: str, start: float, end: float, until: float) -> CssBar:
    return CssBar(kind, _css_percent(start, until), _css_percent(end - start, until))


def _segment_bar(segment: RunSegment, until: float) -> CssBar:
    """Return a bar in the first and the last color of the segment, one above the other."""
    visible_start = max(0.0, segment.start)
    return CssBar(
        kind="run endless" if segment.end is None else "run uncertain" if segment.uncertain else "run",
        left=_css_percent(visible_start, until),
        width=_css_percent((until if segment.end is None else segment.end) - visible_start, until),
        upper=_css_color(segment.colors[0]),
        lower=_css_color(segment.colors[-1]),
        label=segment.label,
    )


def _level_paths(level: Level, until: float) -> dict[str, str]:
    """Return the paths and the color of a level, for an SVG of 1000 by 100."""
    values, edges = stairs(level.steps, until)
    top = max([level.capacity, *values]) or 1
    steps = (
        f"H{1000 * left / until:.2f}V{_y_coordinate(used, top)}" for left, used in zip(edges, values, strict=False)
    )
    return {
        "path": f"M0 100{''.join(steps)}H1000V100Z",
        "capacity": f"M0 {_y_coordinate(level.capacity, top)}H1000",
        "color": _css_color(level.color),
    }


def _y_coordinate(amount: float, top: float) -> str:
    return f"{100 - 100 * amount / top:.2f}"


def _css_color(index: int) -> str:
    return f"var(--series-{index % len(COLORS)})"


def _css_percent(seconds: float, until: float) -> str:
    return f"{100 * seconds / until:.3f}%"
