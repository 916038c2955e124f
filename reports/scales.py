"""Scales of parameters, of numbers or of values beside each other, and what is marked on them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

from reports.charts import LETTER

_RUN_AWAY = 10.0
"""Values that are beyond the middle half by so many times its range. With those in it, a scale would hardly tell the
others apart."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A parameter as a scale: where its values lie."""

    name: str
    kind: Literal["linear", "log", "listed"]
    """`listed`: its values stand beside each other in the order of `labels`."""
    labels: tuple[str, ...] = ()
    whole: bool = False
    """Its values are whole numbers."""
    cut: bool = False
    """It ends before values that run away."""

    @property
    def words(self) -> str:
        """What stands beside it."""
        return f"{self.name}, logarithmic" if self.kind == "log" else self.name

    def even(self, value: float) -> float:
        """A number as it is placed: itself or its logarithm to base 10."""
        return math.log10(value) if self.kind == "log" else value

    def ticks(self, low: float, high: float) -> list[tuple[float, str]]:
        """Round numbers between two others to mark, and their words. Of no listed scale."""
        if self.kind == "linear":
            # 1, 2 and 5 alone: steps of 4 have longer words.
            inner = MaxNLocator(5, steps=[1, 2, 5, 10], integer=self.whole).tick_values(low, high)
            return [(each, f"{each:.6g}") for each in map(float, inner) if low <= each <= high] or [(low, f"{low:.6g}")]
        for subs in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), tuple(map(float, range(1, 10)))):
            inner = LogLocator(subs=subs, numticks=50).tick_values(low, high)
            found = [float(each) for each in inner if low * 0.999 <= each <= high * 1.001]
            if len(found) >= 3:
                break
        return [(each, f"{each:.4g}") for each in found or dict.fromkeys((low, high))]


def thinned(ticks: Sequence[tuple[float, str]], width: float) -> list[tuple[float, str]]:
    """Every tick, or every second, third, …: so many that their words do not touch.

    Args:
        ticks: places from 0 to 1, and words.
        width: from 0 to 1, in units.

    """
    for step in range(1, len(ticks)):
        kept = list(ticks[::step])
        needed = [(place * width, (len(text) + 1.5) * LETTER) for place, text in kept]
        if all(right[0] - left[0] >= (left[1] + right[1]) / 2 for left, right in pairwise(needed)):
            return kept
    return list(ticks[:1])


def readable(values: Sequence[float], shown: Sequence[float] = ()) -> tuple[float, float]:
    """The least and the greatest value to show: those that run away, as losses do, would squeeze the others.

    `values` are finite and not empty; those in `shown` are shown in any case.
    """
    first, third = (float(each) for each in np.percentile(values, (25, 75)))
    room = _RUN_AWAY * (third - first)
    kept = [each for each in values if first - room <= each <= third + room] if room else values
    return min([*kept, *shown]), max([*kept, *shown])
