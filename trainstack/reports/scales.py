"""Scales of parameters: of numbers, or of listed values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from trainstack.reports.charts import short

_RUN_AWAY = 10.0
"""Values beyond the middle half by this many times its range would hide the differences of all others."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A parameter as a scale: where its values lie."""

    name: str
    kind: Literal["linear", "log", "listed"]
    """`listed`: its values are drawn in the order of `labels`."""
    labels: tuple[str, ...] = ()
    whole: bool = False
    """Its values are whole numbers."""
    cut: bool = False
    """It ends before values that run away."""

    @property
    def words(self) -> str:
        """What stands beside it."""
        return f"{self.name}, logarithmic" if self.kind == "log" else self.name

    @property
    def marks(self) -> list[str]:
        """The labels, as far as there is room for them."""
        return [short(label, 12) for label in self.labels]

    def number(self, value: float | str) -> float:
        """A value as the axis has it: a label is its place in the list."""
        return self.labels.index(value) if isinstance(value, str) else value

    def mark(self, axes: Axes, low: float, high: float) -> None:
        """Let the x axis of a plot run from `low` to `high`, and mark round numbers, or the labels."""
        axis = axes.xaxis
        if self.kind == "listed":
            axes.set_xticks(range(len(self.labels)), self.marks)
        elif self.kind == "log":
            axes.set_xscale("log")
            axis.set_minor_locator(NullLocator())
        if self.kind == "log" and high >= 10 * low:
            axis.set_major_locator(LogLocator(subs=(1.0,) if high >= 100 * low else (1.0, 2.0, 5.0), numticks=6))
        elif self.kind != "listed":
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=self.whole, min_n_ticks=1))
        if self.kind != "listed":
            axis.set_major_formatter("{x:.6g}")
        if low < high:
            axes.set_xlim(low, high)
        else:
            axes.set_xticks([low])


def readable(values: Sequence[float], shown: Sequence[float] = ()) -> tuple[float, float]:
    """The least and the greatest value to show: those that run away, as losses do, would squeeze the others.

    `values` are finite and not empty; those in `shown` are shown in any case.
    """
    (stats,) = boxplot_stats(values, whis=_RUN_AWAY, autorange=True)
    return min([float(stats["whislo"]), *shown]), max([float(stats["whishi"]), *shown])
