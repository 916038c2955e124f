"""Parallel coordinates: all parameters of many trials side by side.

Optuna draws one scale per parameter, side by side. The values overlap the lines and the colour bar, no line is marked
as the best, and one loss that runs away squeezes all others into a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from trainstack.reports.charts import COLOURS, FONT, INK, MUTED, PAPER, SCALE, short
from trainstack.reports.scales import Scale, readable

_NONE = 0.16
"""The share of a scale's width that is left for trials that lack the parameter."""
_ROW = 74
"""Between two scales, in points."""
_FEW = 40
"""Up to so many lines may be thick."""
_GROUND: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
"""Behind words that lie on lines."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """One trial on all scales."""

    places: tuple[float | str | None, ...]
    """By scale its value, or the label of it; None where the set lacks it."""
    strength: float
    """From 0, the worst of all, to 1, the best."""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """The scales lie below each other, so that their values can be read on a phone too."""

    title: str
    words: str
    """What the strength of a line means."""
    scales: tuple[Scale, ...]
    tracks: tuple[Track, ...]

    @property
    def height(self) -> float:
        """See `Panel`."""
        return 136 + _ROW * (len(self.scales) - 1)

    def draw(self, axes: Axes) -> str:
        """See `Panel`."""
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(len(self.scales) - 1, 0))
        columns = [
            _ruler(axes, row, scale, [track.places[row] for track in self.tracks])
            for row, scale in enumerate(self.scales)
        ]
        thin = 1.2 if len(self.tracks) <= _FEW else 0.7
        drawn = sorted(zip(self.tracks, zip(*columns, strict=True), strict=True), key=lambda pair: _rank(pair[0]))
        for track, xs in drawn:
            strength = min(int(track.strength * len(SCALE)), len(SCALE) - 1)
            colour, width, alpha = (COLOURS[1], 2.6, 1.0) if track.best else (SCALE[strength], thin, 0.8)
            axes.plot(xs, range(len(xs)), color=colour, lw=width, alpha=alpha, solid_joinstyle="round", clip_on=False)
        return self.words


def _rank(track: Track) -> tuple[bool, float]:
    """The best is drawn last, over the others."""
    return track.best, track.strength


def _ruler(axes: Axes, row: int, scale: Scale, values: Sequence[float | str | None]) -> list[float]:
    """Draw a scale, and give the places of values on it, from 0 to 1; those beyond it lie at its end."""
    numbers = [scale.number(value) for value in values if value is not None]
    low, high = readable(numbers) if scale.cut else (min(numbers), max(numbers))
    left = _NONE if None in values else 0.0
    # As flat as matplotlib makes its secondary axes.
    ruler = axes.inset_axes((left, row, 1 - left, 1e-10), transform=axes.transData)
    ruler.set_yticks([])
    ruler.spines.bottom.set_color(INK)
    ruler.tick_params(axis="x", length=5, pad=3, direction="inout", color=INK)
    scale.mark(ruler, low, high)
    for label in ruler.get_xticklabels():
        label.set_bbox(_GROUND)
    words: dict[str, Any] = {"textcoords": "offset points", "size": FONT - 1, "bbox": _GROUND}
    axes.annotate(short(scale.words, 40), (0, row), (0, 6), weight="bold", va="bottom", zorder=6, **words)
    if left:
        axes.annotate("none", (0, row), (0, -6), color=MUTED, ha="center", va="top", zorder=6, **words)
        axes.plot((0, left), (row, row), color=INK, lw=0.8, clip_on=False)
    even = ruler.transScale + ruler.transLimits
    placed = even.transform([(low if value is None else scale.number(value), 0.0) for value in values])[:, 0]
    return [
        0.0 if value is None else left + (1 - left) * min(max(float(place), 0.0), 1.0)
        for value, place in zip(values, placed, strict=True)
    ]
