"""Parallel coordinates: all parameters of many trials.

Optuna's chart is not used: its labels cover the lines and the color bar, it does not mark the best line, and one
diverged loss compresses all other values into a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from trainstack.reports.charts import COLORS, FONT_SIZE, INK, MUTED, PAPER, SCALE_COLORS, shorten
from trainstack.reports.scales import Scale, readable_range

_NONE_WIDTH = 0.16
"""The share of a scale's width for trials that lack the parameter."""
_ROW_HEIGHT = 74
"""The distance between two scales, in points."""
_MAX_THICK_LINES = 40
"""The maximum number of thick lines."""
_TEXT_BACKGROUND: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
"""The box behind text over lines."""


@dataclass(frozen=True, kw_only=True)
class TrialLine:
    """One trial on all scales."""

    values: tuple[float | str | None, ...]
    """The value or its label on each scale; None if the trial lacks the parameter."""
    strength: float
    """The intensity of the line's color, from 0 for the worst trial to 1 for the best."""
    is_best: bool = False


@dataclass(frozen=True, kw_only=True)
class ParallelPanel:
    """Horizontal scales, one below the other, so that their values are legible on a phone."""

    title: str
    subtitle: str
    scales: tuple[Scale, ...]
    trial_lines: tuple[TrialLine, ...]

    @property
    def height(self) -> float:
        return 136 + _ROW_HEIGHT * (len(self.scales) - 1)

    def draw(self, axes: Axes) -> str:
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(len(self.scales) - 1, 0))
        positions_by_scale = [
            _draw_ruler(axes, row, scale, [trial_line.values[row] for trial_line in self.trial_lines])
            for row, scale in enumerate(self.scales)
        ]
        line_width = 1.2 if len(self.trial_lines) <= _MAX_THICK_LINES else 0.7
        lines = zip(self.trial_lines, zip(*positions_by_scale, strict=True), strict=True)
        # The best is drawn last, over the others.
        for trial_line, xs in sorted(lines, key=lambda line: (line[0].is_best, line[0].strength)):
            strength = min(int(trial_line.strength * len(SCALE_COLORS)), len(SCALE_COLORS) - 1)
            color, width, alpha = (
                (COLORS[1], 2.6, 1.0) if trial_line.is_best else (SCALE_COLORS[strength], line_width, 0.8)
            )
            axes.plot(xs, range(len(xs)), color=color, lw=width, alpha=alpha, solid_joinstyle="round", clip_on=False)
        return self.subtitle


def _draw_ruler(axes: Axes, row: int, scale: Scale, values: Sequence[float | str | None]) -> list[float]:
    """Draw a scale; return the positions of the values on it, from 0 to 1, clipped to its ends."""
    numbers = [scale.position(value) for value in values if value is not None]
    low, high = readable_range(numbers) if scale.excludes_outliers else (min(numbers), max(numbers))
    left = _NONE_WIDTH if None in values else 0.0
    # As flat as matplotlib's secondary axes.
    ruler = axes.inset_axes((left, row, 1 - left, 1e-10), transform=axes.transData)
    ruler.set_yticks([])
    ruler.spines.bottom.set_color(INK)
    ruler.tick_params(axis="x", length=5, pad=3, direction="inout", color=INK)
    scale.set_ticks(ruler, low, high)
    for label in ruler.get_xticklabels():
        label.set_bbox(_TEXT_BACKGROUND)
    style: dict[str, Any] = {
        "textcoords": "offset points",
        "size": FONT_SIZE - 1,
        "bbox": _TEXT_BACKGROUND,
        "zorder": 6,
    }
    axes.annotate(shorten(scale.label, 40), (0, row), (0, 6), weight="bold", va="bottom", **style)
    if left:
        axes.annotate("none", (0, row), (0, -6), color=MUTED, ha="center", va="top", **style)
        axes.plot((0, left), (row, row), color=INK, lw=0.8, clip_on=False)
    transform = ruler.transScale + ruler.transLimits
    xs = transform.transform([(low if value is None else scale.position(value), 0.0) for value in values])[:, 0]
    return [
        0.0 if value is None else left + (1 - left) * min(max(float(x), 0.0), 1.0)
        for value, x in zip(values, xs, strict=True)
    ]
