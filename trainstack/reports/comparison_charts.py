"""A comparison as panels, a PNG and a page."""

from collections.abc import Sequence
from itertools import groupby

from trainstack.reports import charts, page
from trainstack.reports.comparison import Comparison, ComparisonRow
from trainstack.reports.comparison_table import HEAD, table_rows
from trainstack.reports.errors import ReportError
from trainstack.reports.panels import Bar, BarGroup, BarPanel, Line, LinePanel

_MAX_BARS, _MAX_BARS_OF_ALL_RUNS = 8, 16
"""The maximum bars of a run, and of all runs; beyond them, consecutive replicas with equal steps share a bar."""


def comparison_panels(comparison: Comparison) -> list[BarPanel | LinePanel]:
    """Return the panels for steps, time, accuracy and loss, without those that have no data."""
    rows = comparison.rows
    has_many_bars = sum(len(_step_bars(row, is_shared=False)) for row in rows) > _MAX_BARS_OF_ALL_RUNS
    steps = [
        BarGroup(name=row.name, color=index, bars=tuple(_step_bars(row, is_shared=has_many_bars)))
        for index, row in enumerate(rows)
    ]
    times = [BarGroup(name=row.name, color=index, bars=(_time_bar(row, comparison),)) for index, row in enumerate(rows)]
    candidates: list[BarPanel | LinePanel] = [
        BarPanel(
            title="Steps taken by each replica",
            axis=f"training {comparison.baseline.run.step_unit}, all epochs",
            groups=tuple(steps),
        ),
        BarPanel(title="Time per epoch", axis="seconds, median over the epochs", groups=tuple(times)),
        *(
            LinePanel(title=f"{name.title()} after each epoch", y_axis=y_axis, lines=_curves(rows, name))
            for name, y_axis in (
                ("accuracy", "fraction of correct held-out images"),
                ("loss", "mean loss on the held-out images"),
            )
        ),
    ]
    return [panel for panel in candidates if not _is_empty(panel)]


def png(comparison: Comparison) -> bytes:
    """Return the panels as one PNG. Raises ReportError if there is nothing to draw."""
    if not (panels := comparison_panels(comparison)):
        raise ReportError("none of the runs has figures to draw; docs/runs.md lists the recognized log lines")
    return charts.png(panels)


def html(comparison: Comparison) -> str:
    names = [row.name for row in comparison.rows]
    pictures = [
        (f"{panel.title}: {', '.join(names)}", charts.svg(panel, f"picture-{index}"))
        for index, panel in enumerate(comparison_panels(comparison))
    ]
    return page.render(
        "compare",
        f"Comparison of {f'{len(names)} runs' if comparison.has_many_runs else _join(names)}",
        comparison=comparison,
        table_kind="many" if comparison.has_many_runs else "few",
        head=HEAD,
        rows=table_rows(comparison),
        pictures=pictures,
    )


def _join(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _step_bars(row: ComparisonRow, *, is_shared: bool) -> list[Bar]:
    """Return the bars of a run. `is_shared`: whether replicas with equal steps share a bar, however few there are."""
    steps = row.run.steps
    key = (lambda rank: steps[rank]) if is_shared or len(steps) > _MAX_BARS else (lambda rank: rank)
    bars = []
    for _, rank_group in groupby(steps, key=key):
        ranks = list(rank_group)
        label = f"rank {ranks[0]}" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        value = steps[ranks[0]]
        bars.append(Bar(value=value or 0, text="not known" if value is None else f"{value:,}", label=label))
    return bars


def _time_bar(row: ComparisonRow, comparison: Comparison) -> Bar:
    seconds = row.run.seconds_per_epoch
    if seconds is None:
        return Bar(value=0, text="not known")
    speed_up = "" if row is comparison.baseline or not row.speed_up else f" ({row.speed_up:.2f}\u00d7)"
    return Bar(value=seconds, text=f"{seconds:.3g} s{speed_up}")


def _curves(rows: Sequence[ComparisonRow], name: str) -> tuple[Line, ...]:
    lines = []
    for index, row in enumerate(rows):
        values = {number: getattr(epoch, name) for number, epoch in row.run.epochs.items()}
        points = {number: value for number, value in values.items() if value is not None}
        if points:
            lines.append(Line(name=row.name, color=index, points=points))
    return tuple(lines)


def _is_empty(panel: BarPanel | LinePanel) -> bool:
    if isinstance(panel, LinePanel):
        return not panel.lines
    return not any(bar.value for group in panel.groups for bar in group.bars)
