"""Scales for the values of a parameter: numbers or listed values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullLocator

from trainstack.reports.charts import shorten

_OUTLIER_RANGES = 10.0
"""The distance of outliers from the quartiles, in interquartile ranges; they would hide all other differences."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The scale of one axis."""

    name: str
    kind: Literal["linear", "log", "listed"]
    """`listed`: the values are drawn in the order of `labels`."""
    labels: tuple[str, ...] = ()
    is_integer: bool = False
    """Whether the values are integers."""
    excludes_outliers: bool = False
    """Whether the range of the scale leaves out outliers."""

    @property
    def label(self) -> str:
        """The parameter's name, with a note if the scale is logarithmic."""
        return f"{self.name}, logarithmic" if self.kind == "log" else self.name

    @property
    def tick_labels(self) -> list[str]:
        return [shorten(label, 12) for label in self.labels]

    def position(self, value: float | str) -> float:
        """Return the position of a value on the axis, which is the index of a label."""
        return self.labels.index(value) if isinstance(value, str) else value

    def set_ticks(self, axes: Axes, low: float, high: float) -> None:
        """Set the x axis to the range from `low` to `high`, with ticks at round numbers or at the labels."""
        axis = axes.xaxis
        if self.kind == "listed":
            axes.set_xticks(range(len(self.labels)), self.tick_labels)
        else:
            locator: Locator = MaxNLocator(5, steps=[1, 2, 5, 10], integer=self.is_integer, min_n_ticks=1)
            if self.kind == "log":
                axes.set_xscale("log")
                axis.set_minor_locator(NullLocator())
                if high >= 10 * low:
                    locator = LogLocator(subs=(1.0,) if high >= 100 * low else (1.0, 2.0, 5.0), numticks=6)
            axis.set_major_locator(locator)
            axis.set_major_formatter("{x:.6g}")
        if low < high:
            axes.set_xlim(low, high)
        else:
            axes.set_xticks([low])


def readable_range(values: Sequence[float], included: Sequence[float] = ()) -> tuple[float, float]:
    """Return the range of `values` without outliers, such as diverged losses, but with all `included` values.

    `values`: finite numbers, at least one.
    """
    (stats,) = boxplot_stats(values, whis=_OUTLIER_RANGES, autorange=True)
    return min([float(stats["whislo"]), *included]), max([float(stats["whishi"]), *included])
