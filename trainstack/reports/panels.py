"""Panels of horizontal bars, and of lines over integers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trainstack.reports.charts import COLORS, shorten

_BAR_HEIGHT = 24
_LINE_HEIGHT = 18
_MARKERS = "os^Dv<>PX*hp"
_DASHES = ((0, ()), (0, (5, 2)), (0, (2, 2)), (0, (7, 2, 2, 2)))
"""The dashes of lines, which keep a line visible below another one."""
_MAX_BESIDE = 6
"""The maximum number of lines whose legend is beside the plot; further ones would leave it too little width."""
_LEGEND_ENTRY_HEIGHT = 33
"""Points of a line's name and its last value."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One value; `text` is drawn at its end, `label` before it."""

    value: float
    text: str
    """The value with its unit."""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class BarGroup:
    """Bars with one name and color."""

    name: str
    color: int
    """An index into the repeated `charts.COLORS`."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True)
class BarPanel:
    """Horizontal bars from zero, with one group below the other."""

    title: str
    axis: str
    """The meaning of the length, with its unit."""
    groups: tuple[BarGroup, ...]

    @property
    def height(self) -> float:
        return (
            88 + _LINE_HEIGHT * self.title.count("\n") + _BAR_HEIGHT * sum(len(group.bars) + 1 for group in self.groups)
        )

    def draw(self, axes: Axes) -> str:
        row, labels = 0, dict[int, str]()
        for group in self.groups:
            color = COLORS[group.color % len(COLORS)]
            axes.text(0, row, shorten(group.name, 36), color=color, weight="bold", va="center_baseline")
            rows = range(row + 1, row + 1 + len(group.bars))
            bars = axes.barh(rows, [bar.value for bar in group.bars], height=0.66, color=color)
            axes.bar_label(bars, [bar.text for bar in group.bars], padding=6)
            labels.update(zip(rows, [bar.label for bar in group.bars], strict=True))
            row = rows.stop
        axes.set_ylim(row - 0.25, -0.5)
        axes.set_yticks(list(labels), list(labels.values()))
        axes.set_xlim(left=0, right=max(bar.value for group in self.groups for bar in group.bars))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.set_xlabel(self.axis)
        axes.grid(axis="x")
        return ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series; points that are not finite are gaps."""

    name: str
    color: int
    points: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class LinePanel:
    """Series over integers, such as epochs."""

    title: str
    y_axis: str
    lines: tuple[Line, ...]

    @property
    def height(self) -> float:
        if len(self.lines) > _MAX_BESIDE:
            return 350 + _LEGEND_ENTRY_HEIGHT * math.ceil(len(self.lines) / 2)
        return 106 + max(200, _LEGEND_ENTRY_HEIGHT * len(self.lines))

    def draw(self, axes: Axes) -> str:
        ends = []
        for line in self.lines:
            xs = sorted(line.points)
            ys = [line.points[x] for x in xs]
            color = COLORS[line.color % len(COLORS)]
            # Lines whose colors are the same have other dashes.
            dashes = _DASHES[(line.color + line.color // len(COLORS)) % len(_DASHES)]
            marker = _MARKERS[line.color % len(_MARKERS)]
            (curve,) = axes.plot(xs, ys, color=color, lw=2, linestyle=dashes, marker=marker, ms=5.5, markeredgewidth=0)
            finite_values = [y for y in ys if math.isfinite(y)]
            if finite_values:
                curve.set_label(
                    f"{shorten(line.name)}\n{finite_values[-1]:{'.4f' if abs(finite_values[-1]) < 100 else '.4g'}}"
                )
                ends.append((finite_values[-1], curve))
        set_epoch_axes(axes)
        add_line_legend(axes, ends)
        return self.y_axis


def set_epoch_axes(axes: Axes) -> None:
    """Set the ticks, label and grid of a chart with epochs on the x axis."""
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("epoch")
    axes.grid(axis="y")


def add_line_legend(axes: Axes, ends: Sequence[tuple[float, Line2D]]) -> None:
    """Add a legend in the order of the lines' last values, on the right, or of many lines below the plot.

    `ends`: each line with its last value.
    """
    handles = [line for _, line in sorted(ends, key=lambda end: -end[0])]
    if len(handles) > _MAX_BESIDE:
        axes.figure.legend(handles=handles, loc="outside lower left", ncols=2)
    elif handles:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.03, 1))
