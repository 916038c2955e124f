"""Two kinds of panel: bars, and lines over whole numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.charts import COLOURS, FONT, LETTER, MUTED, short, write

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
    def margins(self) -> tuple[float, float, float, float]:
        """See `Panel`."""
        bars = [bar for group in self.groups for bar in group.bars]
        label, text = (max(len(getattr(bar, name)) for bar in bars) for name in ("label", "text"))
        return LETTER * label, LETTER * text + 12, 40, 48

    @property
    def plot_height(self) -> float:
        """See `Panel`."""
        return _BAR * (sum(len(group.bars) + 1 for group in self.groups) + 0.25)

    def draw(self, axes: Axes) -> None:
        """See `Panel`."""
        place, labels = 0, {}
        for group in self.groups:
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
        axes.set_xlim(left=0, right=max(bar.value for group in self.groups for bar in group.bars))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.set_xlabel(self.axis, loc="left", labelpad=6)
        axes.grid(axis="x")


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
    def margins(self) -> tuple[float, float, float, float]:
        """See `Panel`."""
        longest = max((len(short(line.name)) for line in self.lines), default=0)
        return 44, LETTER * max(longest, 8) + 8, 58, 48

    @property
    def plot_height(self) -> float:
        """See `Panel`."""
        return 200

    def draw(self, axes: Axes) -> None:
        """See `Panel`."""
        ends = []
        for line in self.lines:
            colour = COLOURS[line.colour % len(COLOURS)]
            places = sorted(line.points)
            values = [line.points[place] for place in places]
            mark, dash = _MARKS[line.colour % len(_MARKS)], _DASHES[line.colour % len(_DASHES)]
            axes.plot(places, values, color=colour, lw=2, linestyle=dash, marker=mark, ms=5.5, markeredgewidth=0)
            finite = [(place, value) for place, value in zip(places, values, strict=True) if math.isfinite(value)]
            if finite:
                value = finite[-1][1]
                ends.append((value, f"{short(line.name)}\n{value:{'.4f' if abs(value) < 100 else '.4g'}}", colour))
        over_epochs(axes, self.x_axis)
        left, _, top, _ = self.margins
        write(axes, self.y_axis, (-left, top - 38), size=FONT - 1, color=MUTED)
        label_ends(axes, sorted(ends), self.plot_height)


def over_epochs(axes: Axes, name: str) -> None:
    """Scales for a value over whole numbers of this name."""
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(name, loc="left", labelpad=6)
    axes.grid(axis="y")


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], plot: float) -> None:
    """Words right of lines, as near to their ends as they fit without touching each other.

    `ends` are last value, words (two lines) and colour, sorted; `plot` is the plot's height in units.
    """
    low, high = axes.get_ylim()
    gap = 2.6 * FONT / plot * (high - low)
    places: list[float] = []
    for value, _, _ in ends:
        places.append(max(value, places[-1] + gap) if places else value)
    # What was pushed over the top comes down again, and pushes the others.
    over = high
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], over)
        over = places[index] - gap
    right = axes.get_xlim()[1]
    for place, (_, words, colour) in zip(places, ends, strict=True):
        axes.annotate(
            words,
            (right, place),
            (8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            size=FONT - 1,
            linespacing=1.2,
            annotation_clip=False,
        )
