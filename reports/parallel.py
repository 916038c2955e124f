"""Parallel coordinates: all parameters of many trials side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from reports.charts import COLOURS, FONT, INK, MUTED, PAPER, SCALE, WIDTH, short, write
from reports.scales import Scale, readable, thinned

_NONE = "none"
"""Stands where a set lacks a parameter."""
_NONE_SHARE = 0.16
"""Of a scale: the room for it, left of the values."""
_ROW = 74
"""Between two scales, in units."""
_MARGIN = 12
_FEW = 40
"""Up to so many lines may be thick."""


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
    def margins(self) -> tuple[float, float, float, float]:
        """See `Panel`."""
        return _MARGIN, _MARGIN, 84, 30

    @property
    def plot_height(self) -> float:
        """See `Panel`."""
        return _ROW * (len(self.scales) - 1)

    def draw(self, axes: Axes) -> None:
        """See `Panel`."""
        rows, thin = range(len(self.scales)), 1.2 if len(self.tracks) <= _FEW else 0.7
        placed = [_Placed(self.scales[row], [track.places[row] for track in self.tracks]) for row in rows]
        for track in sorted(self.tracks, key=lambda each: (each.best, each.strength)):
            xs = [scale.place(value) for scale, value in zip(placed, track.places, strict=True)]
            strength = min(int(track.strength * len(SCALE)), len(SCALE) - 1)
            colour, width, alpha = (COLOURS[1], 2.6, 1.0) if track.best else (SCALE[strength], thin, 0.8)
            axes.plot(xs, rows, color=colour, lw=width, alpha=alpha, solid_joinstyle="round", clip_on=False)
        # On the lines, words are read on a ground of the paper's colour.
        ground = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
        for row, scale in zip(rows, placed, strict=True):
            axes.plot((0, 1), (row, row), color=INK, lw=1, clip_on=False)
            axes.annotate(
                short(scale.scale.words, 40),
                (0, row),
                (0, 6),
                textcoords="offset points",
                size=FONT - 1,
                weight="bold",
                va="bottom",
                bbox=ground,
                annotation_clip=False,
            )
            for place, text in scale.ticks():
                axes.plot((place, place), (row - 0.04, row + 0.04), color=INK, lw=1, clip_on=False)
                axes.annotate(
                    text,
                    (place, row),
                    (0, -5),
                    textcoords="offset points",
                    size=FONT - 1,
                    color=MUTED,
                    ha="left" if place < 0.04 else "right" if place > 0.96 else "center",
                    va="top",
                    bbox=ground,
                    annotation_clip=False,
                )
        axes.set_xlim(0, 1)
        axes.set_ylim(len(self.scales) - 1, 0)
        axes.set_axis_off()
        left, _, top, _ = self.margins
        write(axes, self.words, (-left, top - 38), size=FONT - 1, color=MUTED)


class _Placed:
    """A scale from 0 to 1, and what is marked on it."""

    def __init__(self, scale: Scale, values: Sequence[float | str | None]) -> None:
        self.scale = scale
        numbers = [float(each) for each in values if each is not None and not isinstance(each, str)]
        ends = readable(numbers) if scale.cut and numbers else (min(numbers, default=0.0), max(numbers, default=1.0))
        self._low, self._high = ends
        self._from = _NONE_SHARE if None in values else 0.0

    def place(self, value: float | str | None) -> float:
        """Where a value lies; at the end of the scale one that lies beyond it."""
        if value is None:
            return 0.0
        share = 0.5
        if isinstance(value, str):
            labels = self.scale.labels
            share = labels.index(value) / (len(labels) - 1) if len(labels) > 1 else share
        elif self._high > self._low:
            low, high = self.scale.even(self._low), self.scale.even(self._high)
            share = min(max((self.scale.even(value) - low) / (high - low), 0.0), 1.0)
        return self._from + (1 - self._from) * share

    def ticks(self) -> list[tuple[float, str]]:
        """Places and words, as many as have room beside each other."""
        if self.scale.kind == "listed":
            found = [(self.place(each), short(each, 12)) for each in self.scale.labels]
        else:
            found = [(self.place(each), text) for each, text in self.scale.ticks(self._low, self._high)]
        return [(0.0, _NONE)] * bool(self._from) + thinned(found, WIDTH - 2 * _MARGIN)
