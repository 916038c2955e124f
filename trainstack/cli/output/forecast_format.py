"""A forecast as table cells, sentences and a Gantt chart."""

from collections.abc import Iterator

from trainstack.cli.output.console import duration
from trainstack.forecast.costs import FlavorUsage
from trainstack.forecast.report import ForecastReport, ForecastRow, Stretch
from trainstack.reports.gantt import Gantt, Lane, Level, RunSegment

HEAD = ("run", "queue", "start", "end", "wait", "takes", "gpus", "gpu-h", "cost", "flavors", "note")
USE_HEAD = ("flavor", "resource", "quota", "peak", "mean", "of quota")
TEXT_COLUMNS = ("run", "queue", "flavors", "note", "flavor", "resource")
"""Columns of text; the others are numbers."""
_NO_FLAVOR = 6
"""The color of runs that Kueue does not manage: grey."""
_NEVER, _UNKNOWN = "never", "-"


def cells(row: ForecastRow) -> tuple[str, ...]:
    return (
        row.name,
        row.queue or _UNKNOWN,
        _start(row),
        _end(row),
        _UNKNOWN if row.wait is None else duration(row.wait),
        format_run_duration(row),
        f"{row.gpus:g}",
        _UNKNOWN if row.gpu_hours is None else f"{row.gpu_hours:.1f}",
        _UNKNOWN if row.cost is None else f"{row.cost:,.2f}",
        ", ".join(row.flavors),
        _note(row),
    )


def _note(row: ForecastRow) -> str:
    low, high = row.end_range or (0.0, 0.0)
    return "; ".join(
        filter(None, [row.note, f"may end at {format_time(low)} to {format_time(high)}" if row.open else ""])
    )


def page_table(report: ForecastReport) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[str]]:
    notes = [f"{row.name}: {_note(row)}" for row in report.rows if _note(row)]
    return HEAD[:-1], [cells(row)[:-1] for row in report.rows], [*notes, *report.notes]


def format_time(seconds: float) -> str:
    """Format a time relative to the forecast's start: `now`, `+2h5m`, `-10m`."""
    if round(seconds) == 0:
        return "now"
    return f"+{duration(seconds)}" if seconds > 0 else f"-{duration(-seconds)}"


def format_run_duration(row: ForecastRow) -> str:
    """Format a run's duration, with a mark for a deadline or a measurement."""
    if row.duration is None:
        return "unbounded"
    return {"deadline": "\u2264 ", "measured": "~ "}.get(row.source, "") + duration(row.duration)


def use_cells(report: ForecastReport) -> list[tuple[str, ...]]:
    return [
        (
            use.flavor,
            use.resource,
            f"{use.quota:g}",
            f"{use.peak:g}",
            f"{use.mean:.1f}",
            f"{use.mean / use.quota:.0%}" if use.quota else _UNKNOWN,
        )
        for use in report.uses
    ]


def sentences(report: ForecastReport) -> list[str]:
    ended_count = sum(row.end is not None for row in report.rows)
    if not report.rows:
        return ["There are no runs."]
    if not ended_count:
        return [f"The end of {_count_runs(len(report.rows))} is unknown."]
    endless_note = f"; the end of {_count_runs(report.endless)} is unknown" if report.endless else ""
    hours = f", {report.gpu_hours:,.1f} GPU-hours" if report.gpu_hours else ""
    price = "" if report.cost is None else f", {report.cost:,.2f} {report.currency}".rstrip()
    summary = f"{_count_runs(ended_count)} in {duration(report.makespan)}{hours}{price}{endless_note}."
    if not report.open:
        return [summary]
    return [summary, f"Small differences change the order: {_makespan_range(report)} if durations differ by 10%."]


def _makespan_range(report: ForecastReport) -> str:
    low, high = report.makespan_range or (report.makespan, report.makespan)
    return f"{duration(low)} to {duration(high)}"


def comparison_sentences(unchanged_report: ForecastReport, report: ForecastReport) -> Iterator[str]:
    """Yield the effect of --set and --nodes."""
    wait = (_mean_wait(unchanged_report), _mean_wait(report))
    yield f"Without the changes: {sentences(unchanged_report)[0]}"
    if None not in wait:
        yield f"A run waits {duration(wait[1] or 0)} on average, and {duration(wait[0] or 0)} without the changes."


def _mean_wait(report: ForecastReport) -> float | None:
    waits = [row.wait for row in report.rows if row.wait is not None]
    return sum(waits) / len(waits) if waits else None


def _count_runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def _start(row: ForecastRow) -> str:
    if row.start is not None:
        return format_time(row.start)
    return _UNKNOWN if row.is_undecided else _NEVER


def _end(row: ForecastRow) -> str:
    if row.end is not None:
        return format_time(row.end)
    if row.is_undecided:
        return _UNKNOWN
    waits = row.start is None or bool(row.stretches[-1].evicted_by)
    return _NEVER if waits else "unbounded"


def gantt_of(report: ForecastReport) -> Gantt:
    flavors = sorted({flavor for row in report.rows for flavor in row.flavors})
    colors = {name: index for index, name in enumerate(flavors)}
    # Leave room for runs without an end.
    starts = (row.start for row in report.rows if row.start is not None)
    until = 1.02 * max(report.makespan, *(1.1 * start for start in starts), 60.0)
    return Gantt(
        title=f"Forecast of {report.environment}{f' ({_makespan_range(report)})' if report.open else ''}",
        until=until,
        lanes=tuple(_lane(row, colors) for row in report.rows),
        levels=tuple(_level(use, colors[use.flavor]) for use in _scarcest_uses(report)),
    )


def _lane(row: ForecastRow, colors: dict[str, int]) -> Lane:
    wait = f"waits {duration(row.wait)}" if row.wait and row.wait >= 1 else ""
    if row.start is None:
        texts = [row.note]
    else:
        texts = [f"{row.gpus:g} GPU" if row.gpus else "", ", ".join(row.flavors), format_run_duration(row), wait]
    return Lane(
        name=row.name,
        label=" \u00b7 ".join(filter(None, texts)),
        waits_from=row.submitted,
        segments=tuple(_piece(stretch, row, colors) for stretch in row.stretches if stretch.started is not None),
        has_end=row.start is not None and not row.stretches[-1].evicted_by,
    )


def _piece(stretch: Stretch, row: ForecastRow, colors: dict[str, int]) -> RunSegment:
    start, flavors = stretch.started or 0.0, ", ".join(stretch.flavors)
    end = "an unknown end" if stretch.ended is None else format_time(stretch.ended)
    preempted = f", preempted by {stretch.evicted_by}" if stretch.evicted_by else ""
    return RunSegment(
        start=start,
        end=stretch.ended,
        colors=tuple(colors[flavor] for flavor in stretch.flavors) or (_NO_FLAVOR,),
        label=f"{row.name}: {format_time(start)} to {end}{f' on {flavors}' if flavors else ''}{preempted}",
        uncertain=row.source == "deadline" and not stretch.evicted_by,
    )


def _scarcest_uses(report: ForecastReport) -> list[FlavorUsage]:
    """Return each flavor's resource with the highest peak use, relative to its quota."""

    def rank(use: FlavorUsage) -> tuple[float, float]:
        return (use.peak / use.quota, use.mean / use.quota) if use.quota else (0.0, 0.0)

    uses_by_flavor: dict[str, FlavorUsage] = {}
    for use in report.uses:
        if use.flavor not in uses_by_flavor or rank(use) > rank(uses_by_flavor[use.flavor]):
            uses_by_flavor[use.flavor] = use
    return list(uses_by_flavor.values())


def _level(use: FlavorUsage, color: int) -> Level:
    unit = {"cpu": " cores", "memory": " GiB", "ephemeral-storage": " GiB"}.get(use.resource, "")
    return Level(
        name=use.flavor,
        label=f"{use.resource}: {use.peak:g}{unit} at most, {use.mean:.1f} on average, of {use.quota:g}",
        color=color,
        capacity=use.quota,
        steps=use.steps,
    )
