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

from trainstack.reports.charts import COLORS, MUTED, PANEL_WIDTH, PAPER, shorten, write_text
from trainstack.reports.panels import add_line_legend, set_epoch_axes
from trainstack.reports.scales import Scale, readable_range

_SPREAD_WIDTH = 0.5
"""The width over which the points of a listed value are spread, so that they do not hide each other."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One trial over its epochs; points that are not finite are gaps."""

    points: Mapping[int, float]
    name: str = ""
    """Empty for a background curve, which also lacks the following attributes."""
    color: int = 0
    """An index into the repeated `charts.COLORS`."""
    compared_point: tuple[int, float] | None = None
    """The epoch and value by which the trial is compared."""


@dataclass(frozen=True, kw_only=True)
class CurvePanel:
    """Trials over their epochs. Named trials, the best first, are drawn in front of the others."""

    title: str
    y_axis: str
    curves: tuple[Curve, ...]

    @property
    def height(self) -> float:
        return 346

    def draw(self, axes: Axes) -> str:
        background_curves = [_finite_points(curve.points) for curve in self.curves if not curve.name]
        style: dict[str, Any] = {"color": MUTED, "alpha": 0.45}
        axes.add_collection(
            LineCollection([points for points in background_curves if len(points) > 1], linewidths=0.8, **style)
        )
        axes.plot(*_split_columns([points[0] for points in background_curves if len(points) == 1]), ".", ms=4, **style)
        ends = []
        # The best is drawn last, over the others.
        for curve in reversed([curve for curve in self.curves if curve.name]):
            color, points = COLORS[curve.color % len(COLORS)], _finite_points(curve.points)
            (line,) = axes.plot(*_split_columns(points), color=color, lw=2, marker="" if len(points) > 1 else ".")
            if curve.compared_point is not None:
                axes.plot(*curve.compared_point, "o", color=color, ms=7, markeredgecolor=PAPER, markeredgewidth=1)
                value = curve.compared_point[1]
                line.set_label(f"{shorten(curve.name)}\n{value:{_format_spec(value)}}")
                ends.append((points[-1][1], line))
        has_outliers = self._set_limits(axes)
        set_epoch_axes(axes)
        add_line_legend(axes, ends[::-1])
        return f"{self.y_axis}; some curves are cut" if has_outliers else self.y_axis

    def _set_limits(self, axes: Axes) -> bool:
        """Set the limits of both axes; return whether some curves exceed them."""
        points = [point for curve in self.curves for point in _finite_points(curve.points)]
        xs, ys = _split_columns(points)
        low, high = readable_range(
            ys, [y for curve in self.curves if curve.name for _, y in _finite_points(curve.points)]
        )
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)
        first_epoch, last_epoch = min(xs), max(xs)
        axes.set_xlim(
            first_epoch - 0.02 * (last_epoch - first_epoch or 1), last_epoch + 0.02 * (last_epoch - first_epoch or 1)
        )
        return low > min(ys) or high < max(ys)


class Point(NamedTuple):
    """The objective of one trial at its value of the parameter."""

    x: float | str
    """A label if the scale is listed."""
    y: float


@dataclass(frozen=True, kw_only=True)
class PointPanel:
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
        return 330 if self._has_slanted_labels else 286

    @property
    def _has_slanted_labels(self) -> bool:
        """Whether the labels of a listed scale are too long for one line, at about 7 points per letter."""
        return (
            7 * (max(map(len, self.scale.tick_labels), default=0) + 2) * len(self.scale.tick_labels) > PANEL_WIDTH - 60
        )

    def draw(self, axes: Axes) -> str:
        ys = [point.y for point in self.points]
        low, high = readable_range(ys, [self.best.y] if self.best else [])
        xs = [self._x_position(point, index) for index, point in enumerate(self.points)]
        pairs = list(zip(xs, ys, strict=True))
        style: dict[str, Any] = {"color": COLORS[0], "alpha": 0.55, "ms": 5.5, "markeredgewidth": 0, "clip_on": False}
        for marker, points in (
            ("o", [(x, y) for x, y in pairs if low <= y <= high]),
            ("^", [(x, high) for x, y in pairs if y > high]),
            ("v", [(x, low) for x, y in pairs if y < low]),
        ):
            # matplotlib would reserve space for a marker without points.
            if points:
                axes.plot(*_split_columns(points), marker, **style)
        if self.best is not None:
            x = xs[self.points.index(self.best)]
            axes.plot(x, self.best.y, "D", color=COLORS[1], ms=8, markeredgecolor=PAPER, clip_on=False)
        margin = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)
        self._set_x_labels(axes)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y")
        if self.best is not None:
            write_text(axes, f"\u25c6 {self.best_name}", (1, 1), (-4, -8), color=COLORS[1], ha="right")
        has_outliers = any(not low <= y <= high for y in ys)
        return f"{self.y_axis}; \u25b2 \u25bc out of range" if has_outliers else self.y_axis

    def _x_position(self, point: Point, index: int) -> float:
        x = self.scale.position(point.x)
        # The fractional parts of multiples of the golden ratio are spread evenly, for any number of points.
        return x + _SPREAD_WIDTH * ((index + 1) * 0.618034 % 1 - 0.5) if isinstance(point.x, str) else x

    def _set_x_labels(self, axes: Axes) -> None:
        axes.set_xlabel(shorten(self.scale.label, 48))
        if self.scale.kind == "listed":
            self.scale.set_ticks(axes, -0.5, len(self.scale.labels) - 0.5)
            if self._has_slanted_labels:
                axes.set_xticks(
                    axes.get_xticks(), self.scale.tick_labels, rotation=30, ha="right", rotation_mode="anchor"
                )
            return
        if self.scale.kind == "log":
            axes.set_xscale("log")
        self.scale.set_ticks(axes, *axes.get_xlim())


def _finite_points(points: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(x, points[x]) for x in sorted(points) if math.isfinite(points[x])]


def _split_columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _format_spec(value: float) -> str:
    return ".4f" if 1e-3 <= abs(value) < 100 or not value else ".4g"
