"""A Gantt chart as a PNG."""

import textwrap
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from trainstack.reports.charts import ALARM, COLORS, FONT_SIZE, INK, MUTED, STYLE, empty_figure, encode_png, shorten
from trainstack.reports.gantt import Gantt, Lane, LegendEntry, Level, RunSegment, stairs, ticks

_WIDTH = 560
"""The chart's width in points. A phone shows it at two thirds of this width, so that its text is still legible."""
_LANE_HEIGHT, _LEVEL_HEIGHT, _PADDING = 37, 72, 40
"""Heights in points: of a lane, of a level, and of the space above and below each plot."""
_LINE_HEIGHT, _LINE_LENGTH = 14, 84
"""The points between two lines of a lane's text, and the characters of a line."""
_MAX_NAME, _MAX_LINES = 40, 3
_BAR_HEIGHT, _RANGE_CAP = 9, 3.5
_LINE_STYLES: dict[str, dict[str, Any]] = {
    "wait": {"color": MUTED, "lw": 1.2, "dashes": (3, 2)},
    "never": {"color": ALARM, "lw": 1.8, "dashes": (3, 2)},
    "range": {"color": INK, "lw": 1.2},
    "unchanged": {"color": MUTED, "lw": 2.5, "solid_capstyle": "butt"},
    "capacity": {"color": INK, "lw": 1, "dashes": (4, 2)},
}


def png(gantt: Gantt) -> bytes:
    texts = [_lane_text(lane) for lane in gantt.drawn_lanes]
    lane_heights = [_LANE_HEIGHT + _LINE_HEIGHT * text.count("\n") for text in texts]
    heights = [
        sum(lane_heights) + _LANE_HEIGHT * bool(gantt.omission_note),
        *([_LEVEL_HEIGHT] * len(gantt.levels)),
    ]
    legend_height = _LINE_HEIGHT * (len(gantt.legend) + 1) / 2
    with mpl.rc_context({**STYLE, "axes.spines.bottom": False}):
        figure = empty_figure(_WIDTH, sum(heights) + legend_height + _PADDING * (len(heights) + 1))
        figure.suptitle(gantt.title, x=0, ha="left", size=FONT_SIZE + 3)
        plots = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes in plots:
            axes.set_yticks([])
            axes.grid(axis="x")
        plots[0].tick_params(labeltop=True, labelbottom=len(plots) == 1)
        marks = ticks(gantt.until, 8)
        plots[0].set_xticks([time for time, _ in marks], [name for _, name in marks])
        plots[0].set_xlim(0, gantt.until)
        plots[0].set_ylim(heights[0], 0)
        top = 0.0
        for lane, text, height in zip(gantt.drawn_lanes, texts, lane_heights, strict=True):
            _draw_lane(plots[0], lane, text, top, top + height, gantt.until)
            top += height
        if gantt.omission_note:
            plots[0].annotate(gantt.omission_note, (0, top + _LANE_HEIGHT / 2), va="center", color=MUTED)
        for axes, level in zip(plots[1:], gantt.levels, strict=True):
            _draw_level(axes, level, gantt.until)
        if gantt.legend:
            handles = [_legend_handle(entry) for entry in gantt.legend]
            figure.legend(
                handles=handles,
                loc="outside lower left",
                ncols=2,
                labelcolor=MUTED,
                handlelength=2,
                numpoints=2,
                borderaxespad=1.5,
            )
        return encode_png(figure)


def _lane_text(lane: Lane) -> str:
    """Return the text of a lane in lines; the first one leaves room for the lane's name."""
    # A bold name is wider than other text of the same length.
    name_length = round(1.2 * len(shorten(lane.name, _MAX_NAME)))
    lines = textwrap.wrap(
        lane.label,
        _LINE_LENGTH,
        initial_indent="x" * name_length,
        max_lines=_MAX_LINES,
        placeholder="\u2026",
    )
    return "\n".join(lines)[name_length:]


def _draw_lane(axes: Axes, lane: Lane, text: str, top: float, bottom: float, until: float) -> None:
    """Draw a lane between two positions in points from the top of the plot: its text above its bars."""
    offset: dict[str, Any] = {"textcoords": "offset points"}
    name_color, text_color = (ALARM, ALARM) if lane.never_fits else (INK, MUTED)
    name = axes.annotate(
        shorten(lane.name, _MAX_NAME),
        (0, top),
        (0, -3),
        size=FONT_SIZE - 1,
        weight="bold",
        color=name_color,
        va="top",
        **offset,
    )
    first_line, _, other_lines = text.partition("\n")
    style: dict[str, Any] = {"size": FONT_SIZE - 2, "color": text_color}
    axes.annotate(first_line, (1, 0), (8, 0.5), xycoords=name, va="bottom", **style, **offset)
    axes.annotate(other_lines, (0, top + _LINE_HEIGHT), (0, -4), va="top", linespacing=1.25, **style, **offset)
    middle = bottom - 12
    for times in lane.wait_times(until):
        axes.plot(times, (middle, middle), **_LINE_STYLES["never" if lane.never_fits else "wait"])
    for segment in lane.segments:
        _draw_segment(axes, segment, until, middle)
    for start, end in lane.unchanged_times:
        position = middle + _BAR_HEIGHT / 2 + 3
        axes.plot((max(0.0, start), until if end is None else end), (position, position), **_LINE_STYLES["unchanged"])


def _draw_segment(axes: Axes, segment: RunSegment, until: float, middle: float) -> None:
    visible_start = max(0.0, segment.start)
    # A short piece remains visible.
    width = max((until if segment.end is None else segment.end) - visible_start, 1.5 * until / _WIDTH)
    height = _BAR_HEIGHT / len(segment.colors)
    for index, color in enumerate(segment.colors):
        axes.barh(
            middle - _BAR_HEIGHT / 2 + (index + 0.5) * height,
            width,
            left=visible_start,
            height=height,
            color=COLORS[color % len(COLORS)],
            hatch="////" if segment.uncertain else None,
            linewidth=0,
        )
    if segment.end is None:
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate("\u2026", (until, middle), (4, 0), **style)
    if segment.end_range is not None:
        axes.plot(segment.end_range, (middle, middle), marker="|", ms=2 * _RANGE_CAP, **_LINE_STYLES["range"])


def _draw_level(axes: Axes, level: Level, until: float) -> None:
    color = COLORS[level.color % len(COLORS)]
    top = max([level.capacity, *(used for _, used in level.steps)])
    axes.set_ylim(0, 1.02 * top or 1)
    axes.stairs(*stairs(level.steps, until), fill=True, color=color, alpha=0.85, linewidth=0)
    axes.axhline(level.capacity, **_LINE_STYLES["capacity"])
    name = axes.set_title(level.name, color=color, size=FONT_SIZE, weight="bold", pad=8)
    position: dict[str, Any] = {"xycoords": name, "textcoords": "offset points", "va": "bottom"}
    axes.annotate(level.label, (1, 0), (8, 0.5), size=FONT_SIZE - 1, color=MUTED, **position)


def _legend_handle(entry: LegendEntry) -> Artist:
    if entry.mark == "endless":
        return Line2D([], [], ls="", marker="$\u2026$", ms=9, color=INK, label=entry.text)
    if entry.mark == "uncertain":
        return Patch(facecolor=INK, hatch="////", linewidth=0, label=entry.text)
    if entry.mark == "run":
        return Patch(facecolor=COLORS[entry.color % len(COLORS)], linewidth=0, label=entry.text)
    marker: dict[str, Any] = {"marker": "|", "ms": 2 * _RANGE_CAP} if entry.mark == "range" else {}
    return Line2D([0, 1], [0, 0], label=entry.text, **_LINE_STYLES[entry.mark], **marker)
