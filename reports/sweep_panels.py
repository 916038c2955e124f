"""Panels of many trials: their curves, and what one parameter led to.

Of hundreds of trials nobody can tell every one: a few are coloured and named, the others are what they stand out from.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator, NullFormatter

from reports.charts import COLOURS, FONT, LETTER, MUTED, PAPER, WIDTH, short, write
from reports.panels import label_ends, over_epochs
from reports.scales import Scale, readable, thinned

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
    def margins(self) -> tuple[float, float, float, float]:
        """See `Panel`."""
        longest = max((len(short(curve.name)) for curve in self.curves), default=0)
        return 52, LETTER * max(longest, 8) + 8, 58, 48

    @property
    def plot_height(self) -> float:
        """See `Panel`."""
        return 240

    def draw(self, axes: Axes) -> None:
        """See `Panel`."""
        rest = [_finite(curve.points) for curve in self.curves if not curve.name]
        behind: dict[str, Any] = {"color": MUTED, "alpha": 0.45}
        axes.add_collection(LineCollection([each for each in rest if len(each) > 1], linewidths=0.8, **behind))
        axes.plot(*_columns([each[0] for each in rest if len(each) == 1]), ".", ms=4, **behind)
        ends = []
        # The best is drawn last, over the others.
        for curve in reversed([each for each in self.curves if each.name]):
            colour, points = COLOURS[curve.colour % len(COLOURS)], _finite(curve.points)
            axes.plot(*_columns(points), color=colour, lw=2, marker="" if len(points) > 1 else ".")
            if curve.counts is not None:
                axes.plot(*curve.counts, "o", color=colour, ms=7, markeredgecolor=PAPER, markeredgewidth=1)
                value = curve.counts[1]
                ends.append((points[-1][1], f"{short(curve.name)}\n{value:{_form(value)}}", colour))
        beyond = self._limit(axes)
        over_epochs(axes, self.x_axis)
        left, _, top, _ = self.margins
        words = f"{self.y_axis}; some run out of it" if beyond else self.y_axis
        write(axes, words, (-left, top - 38), size=FONT - 1, color=MUTED)
        label_ends(axes, sorted(ends), self.plot_height)

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
    def margins(self) -> tuple[float, float, float, float]:
        """See `Panel`."""
        return 52, 12, 58, 48 + (self._longest * LETTER * 0.5 if self._slanted else 0)

    @property
    def plot_height(self) -> float:
        """See `Panel`."""
        return 180

    @property
    def _longest(self) -> int:
        return max((len(short(each, 12)) for each in self.scale.labels), default=0)

    @property
    def _slanted(self) -> bool:
        """Whether the labels of a listed scale have no room beside each other."""
        return (self._longest + 1) * LETTER * len(self.scale.labels) > WIDTH - 64

    def draw(self, axes: Axes) -> None:
        """See `Panel`."""
        low, high = readable([each.y for each in self.points], [self.best.y] if self.best else [])
        xs = [self._place(each, number) for number, each in enumerate(self.points)]
        placed = list(zip(xs, (each.y for each in self.points), strict=True))
        style: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.55, "ms": 5.5, "markeredgewidth": 0, "clip_on": False}
        axes.plot(*_columns([each for each in placed if low <= each[1] <= high]), "o", **style)
        axes.plot(*_columns([(x, high) for x, y in placed if y > high]), "^", **style)
        axes.plot(*_columns([(x, low) for x, y in placed if y < low]), "v", **style)
        if self.best is not None:
            x = xs[self.points.index(self.best)]
            axes.plot(x, self.best.y, "D", color=COLOURS[1], ms=8, markeredgecolor=PAPER, clip_on=False)
        room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        self._label_x(axes)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y")
        left, _, top, _ = self.margins
        beyond = any(not low <= each.y <= high for each in self.points)
        words = f"{self.y_axis}; \u25b2 or \u25bc lies further out" if beyond else self.y_axis
        write(axes, words, (-left, top - 38), size=FONT - 1, color=MUTED)
        if self.best is not None:
            words = f"\u25c6 {self.best_name}"
            right = (WIDTH - left - self.margins[1], top - 20)
            write(axes, words, right, color=COLOURS[1], ha="right", size=FONT - 1)

    def _place(self, point: Point, number: int) -> float:
        if not isinstance(point.x, str):
            return point.x
        # The golden ratio strews evenly, however many there are.
        return self.scale.labels.index(point.x) + _SPREAD * ((number + 1) * 0.618034 % 1 - 0.5)

    def _label_x(self, axes: Axes) -> None:
        axes.set_xlabel(short(self.scale.words, 48), loc="left", labelpad=6)
        if self.scale.kind == "listed":
            labels = self.scale.labels
            axes.set_xticks(range(len(labels)), [short(each, 12) for each in labels])
            if self._slanted:
                axes.tick_params(axis="x", labelrotation=30)
                for label in axes.get_xticklabels():
                    label.set(ha="right", rotation_mode="anchor")
            axes.set_xlim(-0.5, len(labels) - 0.5)
            return
        if self.scale.kind == "log":
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.tick_params(which="minor", length=0)
        low, high = axes.get_xlim()
        first, width = self.scale.even(low), self.scale.even(high) - self.scale.even(low)
        ticks = {(self.scale.even(each) - first) / width: (each, text) for each, text in self.scale.ticks(low, high)}
        left, right, _, _ = self.margins
        kept = thinned([(place, text) for place, (_, text) in ticks.items()], WIDTH - left - right)
        axes.set_xticks([ticks[place][0] for place, _ in kept], [text for _, text in kept])


def _finite(points: Mapping[int, float]) -> list[tuple[float, float]]:
    return [(place, points[place]) for place in sorted(points) if math.isfinite(points[place])]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _form(value: float) -> str:
    return ".4f" if 1e-3 <= abs(value) < 100 or not value else ".4g"
