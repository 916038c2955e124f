"""Pictures of figures: panels of bars or of lines, as one PNG or as SVG for a page.

A panel is plain data. Every mark is labelled where it stands, so no legend has to be decoded, and series differ by the
shape of their marks too.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b3589a", "#8f6c00", "#3d7ea6", "#7a7a7a", "#7b4fb5")
"""Of series, in this order: told apart also with colour-blind eyes (after Okabe and Ito, darker for text on white)."""
DARK_COLOURS = ("#5ab4f0", "#ff9a5c", "#3ecf9f", "#e79ac9", "#e0bd4f", "#9cc9e6", "#b0b0b0", "#bfa2ee")
"""The same series on a dark page."""
INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6470", "#d9dee3", "#ffffff"
_WIDTH, _POINTS = 400, 72
"""A panel's width in units of 1/72 inch: a phone shows them as pixels, so 12 is a size to read."""
_FONT, _BAR = 12, 24
_MARKS = "os^Dv<>P"
_DASHES = ((0, ()), (0, (5, 2)), (0, (2, 2)), (0, (7, 2, 2, 2)))
"""A line that runs on another lets it be seen."""
_GUTTER = 28
"""Between two panels of one picture."""
_LETTER = 7.2
"""About the width of a letter."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One value."""

    value: float
    text: str
    """What stands at its end: the value with its unit."""
    label: str = ""
    """What stands before it; may be empty."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Bars of one series under its name."""

    name: str
    colour: int
    """The place in COLOURS; further ones begin again."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Horizontal bars, group below group, from zero."""

    title: str
    axis: str
    """What the length means, with its unit."""
    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series over time; points that are no finite numbers are gaps."""

    name: str
    colour: int
    points: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Series over the same whole numbers."""

    title: str
    x_axis: str
    y_axis: str
    lines: tuple[Line, ...]


Panel = Bars | Lines


def png(panels: Sequence[Panel]) -> bytes:
    """All panels in one picture, two in a row, on white."""
    columns, rows = min(2, len(panels)), -(-len(panels) // 2)
    heights = [max(_height(panel) for panel in panels[row * columns : (row + 1) * columns]) for row in range(rows)]
    with mpl.rc_context(_style()):
        figure = Figure(figsize=(_across(columns) / _POINTS, sum(heights) / _POINTS), facecolor=PAPER)
        grid = figure.add_gridspec(rows, columns, height_ratios=heights)
        for index, panel in enumerate(panels):
            _draw(panel, figure.add_subplot(grid[divmod(index, columns)]))
        _place(figure, panels, heights, columns)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=144, bbox_inches="tight", pad_inches=0.25, metadata={"Software": None})
    return file.getvalue()


def svg(panel: Panel, identifier: str) -> str:
    """A panel as SVG for a page: as wide as what holds it, in the page's colours.

    Args:
        panel: what is drawn.
        identifier: begins the ids in it, which have to be unique on the page.

    Its colours are the variables --ink, --muted, --grid, --paper and --series-0 to --series-7; its words are text.
    """
    with mpl.rc_context({**_style(), "svg.fonttype": "none", "svg.hashsalt": identifier}):
        figure = Figure(figsize=(_WIDTH / _POINTS, _height(panel) / _POINTS))
        figure.patch.set_visible(False)
        _draw(panel, figure.add_subplot())
        _place(figure, [panel], [_height(panel)], 1)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r'(id="|href="#|url\(#)', rf"\1{identifier}-", drawn)
    drawn = re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn, count=2)
    for colour, variable in variables().items():
        drawn = drawn.replace(colour, f"var({variable})")
    return drawn


def variables() -> dict[str, str]:
    """The colours that are drawn with, and the page's variables that take their place."""
    named = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"}
    return {**named, **{colour: f"--series-{index}" for index, colour in enumerate(COLOURS)}}


def _style() -> dict[Any, Any]:
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": _FONT,
        "text.color": INK,
        "axes.edgecolor": GRID,
        "axes.labelcolor": MUTED,
        "axes.labelsize": _FONT - 1,
        "axes.facecolor": "none",
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelsize": _FONT - 1,
        "ytick.labelsize": _FONT - 1,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        # Text is text: a name with a dollar sign is no formula.
        "text.parse_math": False,
    }


def _across(columns: int) -> float:
    return columns * (_WIDTH + _GUTTER) - _GUTTER


def _height(panel: Panel) -> float:
    _, _, top, bottom = _margins(panel)
    if isinstance(panel, Lines):
        return top + 200 + bottom
    return top + _BAR * (sum(len(group.bars) + 1 for group in panel.groups) + 0.25) + bottom


def _margins(panel: Panel) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of what is drawn, for the words around it."""
    if isinstance(panel, Lines):
        longest = max((len(short(line.name)) for line in panel.lines), default=0)
        return 44, _LETTER * max(longest, 8) + 8, 58, 48
    bars = [bar for group in panel.groups for bar in group.bars]
    label, text = (max(len(getattr(bar, name)) for bar in bars) for name in ("label", "text"))
    return _LETTER * label, _LETTER * text + 12, 40, 48


def _place(figure: Figure, panels: Sequence[Panel], heights: Sequence[float], columns: int) -> None:
    """Leave the same room in units around every panel, whatever the picture's size."""
    total, width = sum(heights), _across(columns)
    for index, (panel, axes) in enumerate(zip(panels, figure.axes, strict=True)):
        row, column = divmod(index, columns)
        left, right, top, bottom = _margins(panel)
        height = _height(panel)
        axes.set_position(
            (
                (column * (_WIDTH + _GUTTER) + left) / width,
                1 - (sum(heights[:row]) + height - bottom) / total,
                (_WIDTH - left - right) / width,
                (height - top - bottom) / total,
            )
        )


def _draw(panel: Panel, axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=6)
    axes.set_axisbelow(True)
    left, _, top, _ = _margins(panel)
    _write(axes, panel.title, (-left, top - 20), size=_FONT + 1, weight="bold")
    if isinstance(panel, Bars):
        _bars(panel, axes)
    else:
        _lines(panel, axes)


def _write(axes: Axes, text: str, offset: tuple[float, float], **style: Any) -> None:
    """Words above the plot, by their place from its upper left corner."""
    axes.annotate(text, (0, 1), offset, xycoords="axes fraction", textcoords="offset points", **style)


def _bars(panel: Bars, axes: Axes) -> None:
    place, labels = 0, {}
    for group in panel.groups:
        colour = COLOURS[group.colour % len(COLOURS)]
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center_baseline"}
        axes.annotate(short(group.name, 36), (0, place), (0, -2), color=colour, weight="bold", **beside)
        for bar in group.bars:
            place += 1
            axes.barh(place, bar.value, height=0.66, color=colour)
            axes.annotate(bar.text, (bar.value, place), (6, 0), **beside)
            labels[place] = bar.label
        place += 1
    axes.set_ylim(place - 0.25, -0.5)
    axes.set_yticks(list(labels), list(labels.values()), va="center_baseline")
    axes.set_xlim(left=0, right=max(bar.value for group in panel.groups for bar in group.bars))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set_xlabel(panel.axis, loc="left", labelpad=6)
    axes.grid(axis="x")


def _lines(panel: Lines, axes: Axes) -> None:
    ends = []
    for line in panel.lines:
        colour = COLOURS[line.colour % len(COLOURS)]
        places = sorted(line.points)
        values = [line.points[place] for place in places]
        mark, dash = _MARKS[line.colour % len(_MARKS)], _DASHES[line.colour % len(_DASHES)]
        axes.plot(places, values, color=colour, lw=2, linestyle=dash, marker=mark, ms=5.5, markeredgewidth=0)
        finite = [(place, value) for place, value in zip(places, values, strict=True) if math.isfinite(value)]
        if finite:
            ends.append((finite[-1][1], line.name, colour))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(panel.x_axis, loc="left", labelpad=6)
    left, _, top, _ = _margins(panel)
    _write(axes, panel.y_axis, (-left, top - 38), size=_FONT - 1, color=MUTED)
    axes.grid(axis="y")
    _label_ends(axes, sorted(ends), _height(panel) - sum(_margins(panel)[2:]))


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], plot: float) -> None:
    """Names and last values right of the lines, as near to their ends as they fit without touching each other.

    `ends` are last value, name and colour, sorted; `plot` is the plot's height in units.
    """
    low, high = axes.get_ylim()
    gap = 2.6 * _FONT / plot * (high - low)
    places: list[float] = []
    for value, _, _ in ends:
        places.append(max(value, places[-1] + gap) if places else value)
    # What was pushed over the top comes down again, and pushes the others.
    over = high
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], over)
        over = places[index] - gap
    right = axes.get_xlim()[1]
    for place, (value, name, colour) in zip(places, ends, strict=True):
        axes.annotate(
            f"{short(name)}\n{value:{'.4f' if abs(value) < 100 else '.4g'}}",
            (right, place),
            (8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            size=_FONT - 1,
            linespacing=1.2,
            annotation_clip=False,
        )


def short(name: str, length: int = 20) -> str:
    """A name cut in the middle: its beginning and its end tell it from others."""
    head = (length - 1) // 2
    return name if len(name) <= length else f"{name[:head]}…{name[-(length - 1 - head) :]}"
