"""Panels of many trials: their curves, and the objective by one parameter.

The best trials are colored and named; the others are the background.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from trainstack.reports.charts import COLORS, MUTED, PAPER, WIDTH, short, write
from trainstack.reports.panels import name_lines, over_epochs
from trainstack.reports.scales import Scale, readable

_SPREAD = 0.5
"""The width over which the points of a listed value are spread, so that they do not hide each other."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One trial over its epochs; points that are not finite are gaps."""

    points: Mapping[int, float]
    name: str = ""
    """Empty for a background curve, which also lacks the following attributes."""
    color: int = 0
    """An index into the repeated `charts.COLORS`."""
    compared: tuple[int, float] | None = None
    """The epoch and value by which the trial is compared."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Trials over their epochs. Named trials, the best first, are drawn in front of the others."""

    title: str
    y_axis: str
    curves: tuple[Curve, ...]

    @property
    def height(self) -> float:
        return 346

    def draw(self, axes: Axes) -> str:
        rest = [_finite(curve.points) for curve in self.curves if not curve.name]
        style: dict[str, Any] = {"color": MUTED, "alpha": 0.45}
        axes.add_collection(LineCollection([points for points in rest if len(points) > 1], linewidths=0.8, **style))
        axes.plot(*_columns([points[0] for points in rest if len(points) == 1]), ".", ms=4, **style)
        ends = []
        # The best is drawn last, over the others.
        for curve in reversed([curve for curve in self.curves if curve.name]):
            color, points = COLORS[curve.color % len(COLORS)], _finite(curve.points)
            (line,) = axes.plot(*_columns(points), color=color, lw=2, marker="" if len(points) > 1 else ".")
            if curve.compared is not None:
                axes.plot(*curve.compared, "o", color=color, ms=7, markeredgecolor=PAPER, markeredgewidth=1)
                value = curve.compared[1]
                line.set_label(f"{short(curve.name)}\n{value:{_form(value)}}")
                ends.append((points[-1][1], line))
        beyond = self._limit(axes)
        over_epochs(axes)
        name_lines(axes, ends[::-1])
        return f"{self.y_axis}; some curves are cut" if beyond else self.y_axis

    def _limit(self, axes: Axes) -> bool:
        """Set the limits of both axes; return whether some curves exceed them."""
        points = [point for curve in self.curves for point in _finite(curve.points)]
        xs, ys = _columns(points)
        low, high = readable(ys, [y for curve in self.curves if curve.name for _, y in _finite(curve.points)])
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        first, last = min(xs), max(xs)
        axes.set_xlim(first - 0.02 * (last - first or 1), last + 0.02 * (last - first or 1))
        return low > min(ys) or high < max(ys)


class Point(NamedTuple):
    """The objective of one trial at its value of the parameter."""

    x: float | str
    """A label if the scale is listed."""
    y: float


@dataclass(frozen=True, kw_only=True)
class Points:
    """The objective by one parameter."""

    title: str
    scale: Scale
    y_axis: str
    points: tuple[Point, ...]
    best: Point | None
    """None if the best trial lacks the parameter."""
    best_name: str

    @property
    def height(self) -> float:
        return 330 if self._slanted else 286

    @property
    def _slanted(self) -> bool:
        """Whether the labels of a listed scale are too long for one line, at about 7 points per letter."""
        return 7 * (max(map(len, self.scale.marks), default=0) + 2) * len(self.scale.marks) > WIDTH - 60

    def draw(self, axes: Axes) -> str:
        ys = [point.y for point in self.points]
        low, high = readable(ys, [self.best.y] if self.best else [])
        xs = [self._x(point, index) for index, point in enumerate(self.points)]
        pairs = list(zip(xs, ys, strict=True))
        style: dict[str, Any] = {"color": COLORS[0], "alpha": 0.55, "ms": 5.5, "markeredgewidth": 0, "clip_on": False}
        for mark, points in (
            ("o", [(x, y) for x, y in pairs if low <= y <= high]),
            ("^", [(x, high) for x, y in pairs if y > high]),
            ("v", [(x, low) for x, y in pairs if y < low]),
        ):
            # matplotlib would reserve space for a marker without points.
            if points:
                axes.plot(*_columns(points), mark, **style)
        if self.best is not None:
            x = xs[self.points.index(self.best)]
            axes.plot(x, self.best.y, "D", color=COLORS[1], ms=8, markeredgecolor=PAPER, clip_on=False)
        room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        self._label_x(axes)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y")
        if self.best is not None:
            write(axes, f"\u25c6 {self.best_name}", (1, 1), (-4, -8), color=COLORS[1], ha="right")
        beyond = any(not low <= y <= high for y in ys)
        return f"{self.y_axis}; \u25b2 \u25bc out of range" if beyond else self.y_axis

    def _x(self, point: Point, index: int) -> float:
        x = self.scale.number(point.x)
        # The fractional parts of multiples of the golden ratio are spread evenly, for any number of points.
        return x + _SPREAD * ((index + 1) * 0.618034 % 1 - 0.5) if isinstance(point.x, str) else x

    def _label_x(self, axes: Axes) -> None:
        axes.set_xlabel(short(self.scale.label, 48))
        if self.scale.kind == "listed":
            self.scale.mark(axes, -0.5, len(self.scale.labels) - 0.5)
            if self._slanted:
                axes.set_xticks(axes.get_xticks(), self.scale.marks, rotation=30, ha="right", rotation_mode="anchor")
            return
        if self.scale.kind == "log":
            axes.set_xscale("log")
        self.scale.mark(axes, *axes.get_xlim())


def _finite(points: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(x, points[x]) for x in sorted(points) if math.isfinite(points[x])]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _form(value: float) -> str:
    return ".4f" if 1e-3 <= abs(value) < 100 or not value else ".4g"
