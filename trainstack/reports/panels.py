"""Two kinds of panel: bars, and lines over whole numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trainstack.reports.charts import COLOURS, short

_BAR = 24
_MARKS = "os^Dv<>P"
_DASHES = ((0, ()), (0, (5, 2)), (0, (2, 2)), (0, (7, 2, 2, 2)))
"""A line that runs on another lets it be seen."""


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

    @property
    def height(self) -> float:
        """See `Panel`."""
        return 88 + _BAR * sum(len(group.bars) + 1 for group in self.groups)

    def draw(self, axes: Axes) -> str:
        """See `Panel`."""
        place, labels = 0, dict[int, str]()
        for group in self.groups:
            colour = COLOURS[group.colour % len(COLOURS)]
            axes.text(0, place, short(group.name, 36), color=colour, weight="bold", va="center_baseline")
            places = range(place + 1, place + 1 + len(group.bars))
            drawn = axes.barh(places, [bar.value for bar in group.bars], height=0.66, color=colour)
            axes.bar_label(drawn, [bar.text for bar in group.bars], padding=6)
            labels.update(zip(places, [bar.label for bar in group.bars], strict=True))
            place = places.stop
        axes.set_ylim(place - 0.25, -0.5)
        axes.set_yticks(list(labels), list(labels.values()))
        axes.set_xlim(left=0, right=max(bar.value for group in self.groups for bar in group.bars))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.set_xlabel(self.axis)
        axes.grid(axis="x")
        return ""


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

    @property
    def height(self) -> float:
        """See `Panel`. The legend has two lines for each series."""
        return 106 + max(200, 36 * len(self.lines))

    def draw(self, axes: Axes) -> str:
        """See `Panel`."""
        ends = []
        for line in self.lines:
            places = sorted(line.points)
            values = [line.points[place] for place in places]
            (drawn,) = axes.plot(
                places,
                values,
                color=COLOURS[line.colour % len(COLOURS)],
                lw=2,
                linestyle=_DASHES[line.colour % len(_DASHES)],
                marker=_MARKS[line.colour % len(_MARKS)],
                ms=5.5,
                markeredgewidth=0,
            )
            finite = [value for value in values if math.isfinite(value)]
            if finite:
                drawn.set_label(f"{short(line.name)}\n{finite[-1]:{'.4f' if abs(finite[-1]) < 100 else '.4g'}}")
                ends.append((finite[-1], drawn))
        over_epochs(axes, self.x_axis)
        name_lines(axes, ends)
        return self.y_axis


def over_epochs(axes: Axes, name: str) -> None:
    """Scales for a value over whole numbers of this name."""
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(name)
    axes.grid(axis="y")


def name_lines(axes: Axes, ends: Sequence[tuple[float, Line2D]]) -> None:
    """A legend right of the plot, in the order in which the lines end: `ends` are their last values."""
    handles = [line for _, line in sorted(ends, key=lambda end: -end[0])]
    if handles:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.03, 1))
