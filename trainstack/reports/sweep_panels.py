"""Panels of many trials: their curves, and what one parameter led to.

Of hundreds of trials nobody can tell every one: a few are coloured and named, the others are what they stand out from.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from trainstack.reports.charts import COLOURS, MUTED, PAPER, WIDTH, short, write
from trainstack.reports.panels import name_lines, over_epochs
from trainstack.reports.scales import Scale, readable

_SPREAD = 0.5
"""Of the place of a value: how widely its points are strewn, so that they do not hide each other."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One trial over its epochs; points that are no finite numbers are gaps."""

    points: Mapping[int, float]
    name: str = ""
    """Empty for one of the many."""
    colour: int = 0
    """Of a named one: the place in COLOURS."""
    counts: tuple[int, float] | None = None
    """Of a named one: the epoch and the value by which it is compared."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Trials over their epochs: those with a name, the best first, in front of the others."""

    title: str
    x_axis: str
    y_axis: str
    curves: tuple[Curve, ...]

    @property
    def height(self) -> float:
        """See `Panel`."""
        return 346

    def draw(self, axes: Axes) -> str:
        """See `Panel`."""
        rest = [_finite(curve.points) for curve in self.curves if not curve.name]
        behind: dict[str, Any] = {"color": MUTED, "alpha": 0.45}
        axes.add_collection(LineCollection([each for each in rest if len(each) > 1], linewidths=0.8, **behind))
        axes.plot(*_columns([each[0] for each in rest if len(each) == 1]), ".", ms=4, **behind)
        ends = []
        # The best is drawn last, over the others.
        for curve in reversed([each for each in self.curves if each.name]):
            colour, points = COLOURS[curve.colour % len(COLOURS)], _finite(curve.points)
            (drawn,) = axes.plot(*_columns(points), color=colour, lw=2, marker="" if len(points) > 1 else ".")
            if curve.counts is not None:
                axes.plot(*curve.counts, "o", color=colour, ms=7, markeredgecolor=PAPER, markeredgewidth=1)
                value = curve.counts[1]
                drawn.set_label(f"{short(curve.name)}\n{value:{_form(value)}}")
                ends.append((points[-1][1], drawn))
        beyond = self._limit(axes)
        over_epochs(axes, self.x_axis)
        name_lines(axes, ends[::-1])
        return f"{self.y_axis}; some run out of it" if beyond else self.y_axis

    def _limit(self, axes: Axes) -> bool:
        """Set both scales; True where some curves leave the picture."""
        shown = [(x, y) for curve in self.curves for x, y in _finite(curve.points)]
        ys = [y for _, y in shown]
        low, high = readable(ys, [y for curve in self.curves if curve.name for _, y in _finite(curve.points)])
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        first, last = min(x for x, _ in shown), max(x for x, _ in shown)
        axes.set_xlim(first - 0.02 * (last - first or 1), last + 0.02 * (last - first or 1))
        return low > min(ys) or high < max(ys)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One trial: a value of the parameter and what it led to."""

    x: float | str
    """A label where the scale is listed."""
    y: float


@dataclass(frozen=True, kw_only=True)
class Points:
    """A figure against one parameter."""

    title: str
    scale: Scale
    y_axis: str
    points: tuple[Point, ...]
    best: Point | None
    """One of them; None where the best trial lacks the parameter."""
    best_name: str

    @property
    def height(self) -> float:
        """See `Panel`."""
        return 330 if self._slanted else 286

    @property
    def _slanted(self) -> bool:
        """Whether the labels of a listed scale have no room beside each other, at about 7 points a letter."""
        return 7 * (max(map(len, self.scale.marks), default=0) + 2) * len(self.scale.marks) > WIDTH - 60

    def draw(self, axes: Axes) -> str:
        """See `Panel`."""
        low, high = readable([each.y for each in self.points], [self.best.y] if self.best else [])
        xs = [self._place(each, number) for number, each in enumerate(self.points)]
        placed = list(zip(xs, (each.y for each in self.points), strict=True))
        style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.55, "ms": 5.5, "markeredgewidth": 0, "clip_on": False}
        for mark, points in (
            ("o", [(x, y) for x, y in placed if low <= y <= high]),
            ("^", [(x, high) for x, y in placed if y > high]),
            ("v", [(x, low) for x, y in placed if y < low]),
        ):
            # Without points a mark has no place, and matplotlib makes room for it everywhere.
            if points:
                axes.plot(*_columns(points), mark, **style)
        if self.best is not None:
            x = xs[self.points.index(self.best)]
            axes.plot(x, self.best.y, "D", color=COLOURS[1], ms=8, markeredgecolor=PAPER, clip_on=False)
        room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        self._label_x(axes)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y")
        if self.best is not None:
            write(axes, f"\u25c6 {self.best_name}", (1, 1), (-4, -8), color=COLOURS[1], ha="right")
        beyond = any(not low <= point.y <= high for point in self.points)
        return f"{self.y_axis}; \u25b2 or \u25bc lies further out" if beyond else self.y_axis

    def _place(self, point: Point, number: int) -> float:
        place = self.scale.number(point.x)
        # The golden ratio strews evenly, however many there are.
        return place + _SPREAD * ((number + 1) * 0.618034 % 1 - 0.5) if isinstance(point.x, str) else place

    def _label_x(self, axes: Axes) -> None:
        axes.set_xlabel(short(self.scale.words, 48))
        if self.scale.kind == "listed":
            self.scale.mark(axes, -0.5, len(self.scale.labels) - 0.5)
            if self._slanted:
                axes.set_xticks(axes.get_xticks(), self.scale.marks, rotation=30, ha="right", rotation_mode="anchor")
            return
        if self.scale.kind == "log":
            axes.set_xscale("log")
        self.scale.mark(axes, *axes.get_xlim())


def _finite(points: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(place, points[place]) for place in sorted(points) if math.isfinite(points[place])]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _form(value: float) -> str:
    return ".4f" if 1e-3 <= abs(value) < 100 or not value else ".4g"
