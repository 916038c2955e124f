"""A Gantt chart as a PNG."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from trainstack.reports.charts import COLORS, FONT_SIZE, INK, MUTED, STYLE, empty_figure, encode_png, shorten
from trainstack.reports.gantt import Gantt, Level, RunSegment, stairs, ticks

_WIDTH, _LANE_HEIGHT, _LEVEL_HEIGHT, _PADDING = 900, 30, 84, 40
"""Sizes in points: the chart's width, the heights of a lane and of a level, and the space above and below each plot."""
_BAR_POSITION = 0.76
"""The position of a bar in its lane, from 0 at the top to 1."""


def png(gantt: Gantt) -> bytes:
    heights = [
        _LANE_HEIGHT * (len(gantt.drawn_lanes) + bool(gantt.omission_note)),
        *([_LEVEL_HEIGHT] * len(gantt.levels)),
    ]
    with mpl.rc_context({**STYLE, "axes.spines.bottom": False}):
        figure = empty_figure(_WIDTH, sum(heights) + _PADDING * (len(heights) + 1))
        figure.suptitle(gantt.title, x=0, ha="left", size=FONT_SIZE + 3)
        plots = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes in plots:
            axes.set_yticks([])
            axes.grid(axis="x")
        plots[0].tick_params(labeltop=True, labelbottom=len(plots) == 1)
        marks = ticks(gantt.until, 10)
        plots[0].set_xticks([time for time, _ in marks], [name for _, name in marks])
        plots[0].set_xlim(0, gantt.until)
        _draw_lanes(plots[0], gantt)
        for axes, level in zip(plots[1:], gantt.levels, strict=True):
            _draw_level(axes, level, gantt.until)
        return encode_png(figure)


def _draw_lanes(axes: Axes, gantt: Gantt) -> None:
    rows = len(gantt.drawn_lanes) + int(bool(gantt.omission_note))
    axes.set_ylim(rows, 0)
    for row, lane in enumerate(gantt.drawn_lanes):
        offset: dict[str, Any] = {"textcoords": "offset points"}
        name = axes.annotate(
            shorten(lane.name, 44), (0, row), (0, -4), size=FONT_SIZE - 1, weight="bold", va="top", **offset
        )
        axes.annotate(
            shorten(lane.label, 84),
            (1, 0),
            (8, 0.5),
            xycoords=name,
            size=FONT_SIZE - 2,
            color=MUTED,
            va="bottom",
            **offset,
        )
        for times in lane.wait_times(gantt.until):
            axes.plot(times, (row + _BAR_POSITION, row + _BAR_POSITION), color=MUTED, lw=1.2, dashes=(3, 2))
        for segment in lane.segments:
            _draw_segment(axes, segment, gantt.until, row)
    if gantt.omission_note:
        axes.annotate(gantt.omission_note, (0, rows - 0.5), va="center", color=MUTED)


def _draw_segment(axes: Axes, segment: RunSegment, until: float, row: int) -> None:
    visible_start = max(0.0, segment.start)
    # A short piece remains visible.
    width = max((until if segment.end is None else segment.end) - visible_start, 1.5 * until / _WIDTH)
    height = 0.3 / len(segment.colors)
    for index, color in enumerate(segment.colors):
        axes.barh(
            row + _BAR_POSITION - 0.15 + (index + 0.5) * height,
            width,
            left=visible_start,
            height=height,
            color=COLORS[color % len(COLORS)],
            hatch="////" if segment.uncertain else None,
            linewidth=0,
        )
    if segment.end is None:
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate("\u2026", (until, row + _BAR_POSITION), (4, 0), **style)


def _draw_level(axes: Axes, level: Level, until: float) -> None:
    color = COLORS[level.color % len(COLORS)]
    top = max([level.capacity, *(used for _, used in level.steps)])
    axes.set_ylim(0, 1.02 * top or 1)
    axes.stairs(*stairs(level.steps, until), fill=True, color=color, alpha=0.85, linewidth=0)
    axes.axhline(level.capacity, color=INK, lw=1, dashes=(4, 2))
    name = axes.set_title(level.name, color=color, size=FONT_SIZE, weight="bold", pad=8)
    position: dict[str, Any] = {"xycoords": name, "textcoords": "offset points", "va": "bottom"}
    axes.annotate(level.label, (1, 0), (8, 0.5), size=FONT_SIZE - 1, color=MUTED, **position)
