"""A comparison as panels, and as a page."""

from collections.abc import Sequence
from itertools import groupby

from trainstack.reports import charts, page
from trainstack.reports.comparison import Comparison, Row
from trainstack.reports.errors import ReportError
from trainstack.reports.panels import Bar, Bars, Group, Line, Lines
from trainstack.reports.table import HEAD, cells

_MOST_BARS = 8
"""Bars of a run; of more replicas, those with the same steps share one."""


def panels(comparison: Comparison) -> list[Bars | Lines]:
    """Steps, time, accuracy and loss, as far as they are known."""
    rows = comparison.rows
    counted = comparison.baseline.run.counted
    drawn: list[Bars | Lines] = [
        Bars(
            title="Steps taken by each replica",
            axis=f"training {counted}, all epochs",
            groups=tuple(
                Group(name=row.name, colour=index, bars=tuple(_step_bars(row))) for index, row in enumerate(rows)
            ),
        ),
        Bars(
            title="Time per epoch",
            axis="seconds, median over the epochs",
            groups=tuple(
                Group(name=row.name, colour=index, bars=tuple(_time_bars(row, comparison)))
                for index, row in enumerate(rows)
            ),
        ),
        Lines(
            title="Accuracy after each epoch",
            x_axis="epoch",
            y_axis="share of the held-out images that is right",
            lines=_curves(rows, "accuracy"),
        ),
        Lines(
            title="Loss after each epoch",
            x_axis="epoch",
            y_axis="mean loss on the held-out images",
            lines=_curves(rows, "loss"),
        ),
    ]
    return [panel for panel in drawn if not _empty(panel)]


def png(comparison: Comparison) -> bytes:
    """The panels in one picture. Raises ReportError where there is nothing to draw."""
    if not panels(comparison):
        raise ReportError(
            "none of these runs tells anything that could be drawn; docs/runs.md has the lines that are understood"
        )
    return charts.png(panels(comparison))


def html(comparison: Comparison) -> str:
    """The comparison as a page."""
    drawn = [
        (f"{panel.title}: {', '.join(row.name for row in comparison.rows)}", charts.svg(panel, f"picture-{index}"))
        for index, panel in enumerate(panels(comparison))
    ]
    names = [row.name for row in comparison.rows]
    return page.render(
        "compare",
        f"Comparison of {', '.join(names[:-1])} and {names[-1]}",
        comparison=comparison,
        head=HEAD,
        rows=cells(comparison),
        pictures=drawn,
    )


def _step_bars(row: Row) -> list[Bar]:
    steps = row.run.steps
    # Only where they would be many: each replica is counted by itself.
    key = (lambda rank: steps[rank]) if len(steps) > _MOST_BARS else (lambda rank: rank)
    bars = []
    for _, group in groupby(steps, key=key):
        ranks = list(group)
        label = f"rank {ranks[0]}" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        value = steps[ranks[0]]
        bars.append(Bar(value=value or 0, text="not known" if value is None else f"{value:,}", label=label))
    return bars


def _time_bars(row: Row, comparison: Comparison) -> list[Bar]:
    seconds = row.run.seconds_per_epoch
    if seconds is None:
        return [Bar(value=0, text="not known")]
    faster = "" if row is comparison.baseline or not row.speed_up else f" ({row.speed_up:.2f}\u00d7)"
    return [Bar(value=seconds, text=f"{seconds:.3g} s{faster}")]


def _curves(rows: Sequence[Row], name: str) -> tuple[Line, ...]:
    found = []
    for index, row in enumerate(rows):
        values = {number: getattr(epoch, name) for number, epoch in row.run.epochs.items()}
        points = {number: value for number, value in values.items() if value is not None}
        if points:
            found.append(Line(name=row.name, colour=index, points=points))
    return tuple(found)


def _empty(panel: Bars | Lines) -> bool:
    if isinstance(panel, Lines):
        return not panel.lines
    return not any(bar.value for group in panel.groups for bar in group.bars)
