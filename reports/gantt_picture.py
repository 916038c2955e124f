"""A Gantt chart as a PNG."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.charts import COLOURS, GRID, INK, MUTED, PAPER, short
from reports.gantt import Gantt, Level, Piece, stairs, ticks

_WIDTH, _LANE, _LEVEL, _POINTS = 900, 30, 84, 72
_LEFT, _RIGHT, _TOP, _BETWEEN, _BOTTOM = 24, 24, 72, 46, 40
"""Units of 1/72 inch, around and between the plots."""
_FONT, _BAR = 12, 0.76
"""The size of the letters, and where a bar stands in its lane."""


def png(gantt: Gantt) -> bytes:
    """The picture, on white."""
    lanes, extra = gantt.drawn, int(bool(gantt.left_out))
    heights = [_LANE * (len(lanes) + extra), *([_LEVEL] * len(gantt.levels))]
    total = _TOP + sum(heights) + _BETWEEN * len(gantt.levels) + _BOTTOM
    with mpl.rc_context(_style()):
        figure = Figure(figsize=(_WIDTH / _POINTS, total / _POINTS), facecolor=PAPER)
        figure.text(_LEFT / _WIDTH, 1 - 30 / total, gantt.title, size=_FONT + 3, weight="bold")
        top = float(_TOP)
        for index, height in enumerate(heights):
            axes = figure.add_axes((_LEFT / _WIDTH, 1 - (top + height) / total, _across() / _WIDTH, height / total))
            _frame(axes, gantt.until, named=index in (0, len(heights) - 1), above=index == 0)
            if index == 0:
                _lanes(axes, gantt)
            else:
                _level(axes, gantt.levels[index - 1], gantt.until)
            top += height + _BETWEEN
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
    return file.getvalue()


def _style() -> dict[Any, Any]:
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": _FONT,
        "text.color": INK,
        "axes.edgecolor": GRID,
        "axes.facecolor": "none",
        "xtick.color": MUTED,
        "xtick.labelsize": _FONT - 1,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "hatch.color": PAPER,
        # Text is text: a name with a dollar sign is no formula.
        "text.parse_math": False,
    }


def _across() -> float:
    return _WIDTH - _LEFT - _RIGHT


def _frame(axes: Axes, until: float, *, named: bool, above: bool) -> None:
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlim(0, until)
    axes.set_yticks([])
    axes.tick_params(length=0, pad=6, labeltop=named and above, labelbottom=named and not above)
    places = ticks(until, 10)
    axes.set_xticks([at for at, _ in places], [name for _, name in places])
    axes.set_axisbelow(True)
    axes.grid(axis="x")


def _lanes(axes: Axes, gantt: Gantt) -> None:
    rows = len(gantt.drawn) + int(bool(gantt.left_out))
    axes.set_ylim(rows, 0)
    for place, lane in enumerate(gantt.drawn):
        below: dict[str, Any] = {"textcoords": "offset points", "va": "top"}
        name = axes.annotate(short(lane.name, 44), (0, place), (0, -4), size=_FONT - 1, weight="bold", **below)
        beside: dict[str, Any] = {"xycoords": name, "textcoords": "offset points", "va": "bottom"}
        axes.annotate(short(lane.words, 84), (1, 0), (8, 0.5), size=_FONT - 2, color=MUTED, **beside)
        since = lane.since
        for piece in lane.pieces:
            _wait(axes, since, piece.start, place)
            _piece(axes, piece, gantt.until, place)
            since = piece.end
        if not lane.ends:
            _wait(axes, since, gantt.until, place)
    if gantt.left_out:
        axes.annotate(gantt.left_out, (0, rows - 0.5), va="center", color=MUTED)


def _wait(axes: Axes, since: float | None, until: float, place: int) -> None:
    if since is not None and until > since:
        axes.plot((max(0.0, since), until), (place + _BAR, place + _BAR), color=MUTED, lw=1.2, dashes=(3, 2))


def _piece(axes: Axes, piece: Piece, until: float, place: int) -> None:
    begin = max(0.0, piece.start)
    # Something is to be seen of what is short.
    long = max((until if piece.end is None else piece.end) - begin, 1.5 * until / _across())
    height = 0.3 / len(piece.colours)
    for index, colour in enumerate(piece.colours):
        axes.barh(
            place + _BAR - 0.15 + (index + 0.5) * height,
            long,
            left=begin,
            height=height,
            color=COLOURS[colour % len(COLOURS)],
            hatch="////" if piece.uncertain else None,
            linewidth=0,
        )
    if piece.end is None:
        on: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate("\u2026", (until, place + _BAR), (4, 0), **on)


def _level(axes: Axes, level: Level, until: float) -> None:
    colour = COLOURS[level.colour % len(COLOURS)]
    top = max([level.most, *(used for _, used in level.steps)])
    axes.set_ylim(0, 1.02 * top or 1)
    axes.stairs(*stairs(level.steps, until), fill=True, color=colour, alpha=0.85, linewidth=0)
    axes.axhline(level.most, color=INK, lw=1, dashes=(4, 2))
    axes.annotate(
        level.name, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=colour, weight="bold"
    )
    place = (7.8 * len(level.name) + 12, 8)
    axes.annotate(
        level.words, (0, 1), place, xycoords="axes fraction", textcoords="offset points", color=MUTED, size=_FONT - 1
    )
