"""A Gantt chart as a PNG."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from trainstack.reports.charts import COLORS, FONT, INK, MUTED, STYLE, as_png, short, sized
from trainstack.reports.gantt import Gantt, Level, Piece, stairs, ticks

_WIDTH, _LANE, _LEVEL, _AROUND = 900, 30, 84, 40
"""Sizes in points: the chart's width, the heights of a lane and of a level, and the space above and below each plot."""
_BAR = 0.76
"""The position of a bar in its lane, from 0 at the top to 1."""


def png(gantt: Gantt) -> bytes:
    heights = [_LANE * (len(gantt.drawn) + bool(gantt.left_out)), *([_LEVEL] * len(gantt.levels))]
    with mpl.rc_context({**STYLE, "axes.spines.bottom": False}):
        figure = sized(_WIDTH, sum(heights) + _AROUND * (len(heights) + 1))
        figure.suptitle(gantt.title, x=0, ha="left", size=FONT + 3)
        plots = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes in plots:
            axes.set_yticks([])
            axes.grid(axis="x")
        plots[0].tick_params(labeltop=True, labelbottom=len(plots) == 1)
        marks = ticks(gantt.until, 10)
        plots[0].set_xticks([time for time, _ in marks], [name for _, name in marks])
        plots[0].set_xlim(0, gantt.until)
        _lanes(plots[0], gantt)
        for axes, level in zip(plots[1:], gantt.levels, strict=True):
            _level(axes, level, gantt.until)
        return as_png(figure)


def _lanes(axes: Axes, gantt: Gantt) -> None:
    rows = len(gantt.drawn) + int(bool(gantt.left_out))
    axes.set_ylim(rows, 0)
    for row, lane in enumerate(gantt.drawn):
        offset: dict[str, Any] = {"textcoords": "offset points"}
        name = axes.annotate(short(lane.name, 44), (0, row), (0, -4), size=FONT - 1, weight="bold", va="top", **offset)
        axes.annotate(
            short(lane.label, 84), (1, 0), (8, 0.5), xycoords=name, size=FONT - 2, color=MUTED, va="bottom", **offset
        )
        for times in lane.waits(gantt.until):
            axes.plot(times, (row + _BAR, row + _BAR), color=MUTED, lw=1.2, dashes=(3, 2))
        for piece in lane.pieces:
            _piece(axes, piece, gantt.until, row)
    if gantt.left_out:
        axes.annotate(gantt.left_out, (0, rows - 0.5), va="center", color=MUTED)


def _piece(axes: Axes, piece: Piece, until: float, row: int) -> None:
    begin = max(0.0, piece.start)
    # A short piece remains visible.
    width = max((until if piece.end is None else piece.end) - begin, 1.5 * until / _WIDTH)
    height = 0.3 / len(piece.colors)
    for index, color in enumerate(piece.colors):
        axes.barh(
            row + _BAR - 0.15 + (index + 0.5) * height,
            width,
            left=begin,
            height=height,
            color=COLORS[color % len(COLORS)],
            hatch="////" if piece.uncertain else None,
            linewidth=0,
        )
    if piece.end is None:
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate("\u2026", (until, row + _BAR), (4, 0), **style)


def _level(axes: Axes, level: Level, until: float) -> None:
    color = COLORS[level.color % len(COLORS)]
    top = max([level.capacity, *(used for _, used in level.steps)])
    axes.set_ylim(0, 1.02 * top or 1)
    axes.stairs(*stairs(level.steps, until), fill=True, color=color, alpha=0.85, linewidth=0)
    axes.axhline(level.capacity, color=INK, lw=1, dashes=(4, 2))
    name = axes.set_title(level.name, color=color, size=FONT, weight="bold", pad=8)
    position: dict[str, Any] = {"xycoords": name, "textcoords": "offset points", "va": "bottom"}
    axes.annotate(level.label, (1, 0), (8, 0.5), size=FONT - 1, color=MUTED, **position)
