"""A forecast as tables, sentences and a Gantt chart."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainstack.cli.output.console import duration
from trainstack.forecast.costs import FlavorUsage
from trainstack.forecast.report import ForecastReport, ForecastRow, Stretch
from trainstack.kueue.format import describe_rules
from trainstack.reports.gantt import Gantt, Lane, Level, RunSegment

TEXT_COLUMNS = ("run", "queue", "flavors", "note", "flavor", "resource")
"""Columns of text; the others are numbers."""
_UNITS = {"cpu": "cores", "memory": "GiB", "ephemeral-storage": "GiB"}
"""The units of resources; the others are counted."""
_NO_FLAVOR = 6
"""The color of runs that Kueue does not manage: grey."""
_NEVER, _UNKNOWN = "never", "-"


class TextTable(NamedTuple):
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def run_table(report: ForecastReport) -> TextTable:
    """Return a row for each run, without the columns that would be empty."""
    columns = [
        ("run", [row.name for row in report.rows]),
        ("queue", [row.queue or _UNKNOWN for row in report.rows]),
        ("start", [_start(row) for row in report.rows]),
        ("end", [_end(row) for row in report.rows]),
        ("wait", [_UNKNOWN if row.wait is None else duration(row.wait) for row in report.rows]),
        ("takes", [format_run_duration(row) for row in report.rows]),
    ]
    if any(row.gpus for row in report.rows):
        columns.append(("gpus", [f"{row.gpus:g}" for row in report.rows]))
        gpu_hours = [_UNKNOWN if row.gpu_hours is None else f"{row.gpu_hours:.1f}" for row in report.rows]
        columns.append(("gpu-h", gpu_hours))
    if report.cost is not None:
        costs = [_UNKNOWN if row.cost is None else f"{row.cost:,.2f}" for row in report.rows]
        columns.append((", ".join(filter(None, ["cost", report.currency])), costs))
    columns.append(("flavors", [", ".join(row.flavors) or _UNKNOWN for row in report.rows]))
    return TextTable(tuple(name for name, _ in columns), list(zip(*(texts for _, texts in columns), strict=True)))


def run_notes(report: ForecastReport) -> dict[int, str]:
    """Return the notes on runs by the index of their rows."""
    return {index: note for index, row in enumerate(report.rows) if (note := _note(row))}


def _note(row: ForecastRow) -> str:
    low, high = row.end_range or (0.0, 0.0)
    return "; ".join(
        filter(None, [row.note, f"may end at {format_time(low)} to {format_time(high)}" if row.open else ""])
    )


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


def use_table(report: ForecastReport) -> TextTable:
    rows = [
        (
            use.flavor,
            use.resource,
            _format_amount(use, f"{use.quota:g}"),
            _format_amount(use, f"{use.peak:g}"),
            _format_amount(use, f"{use.mean:.1f}"),
            f"{use.mean / use.quota:.0%}" if use.quota else _UNKNOWN,
        )
        for use in report.uses
    ]
    return TextTable(("flavor", "resource", "quota", "peak", "mean", "of quota"), rows)


def _format_amount(use: FlavorUsage, number: str) -> str:
    unit = "core" if (use.resource, number) == ("cpu", "1") else _UNITS.get(use.resource, "")
    return f"{number} {unit}".rstrip()


def sentences(report: ForecastReport) -> list[str]:
    if not report.rows:
        return ["There are no runs."]
    summary = "; ".join(_counts(report))
    parts = [f"{summary[0].upper()}{summary[1:]}."]
    if report.not_compared:
        parts.append(f"For Kueue {report.release}, by {describe_rules(report.rules, report.not_compared)}.")
    if not report.open:
        return parts
    return [*parts, f"Small differences change the order: {_makespan_range(report)} if durations differ by 10%."]


def _counts(report: ForecastReport) -> Iterator[str]:
    if ended_count := sum(row.end is not None for row in report.rows):
        hours = f", {report.gpu_hours:,.1f} GPU-hours" if report.gpu_hours else ""
        price = "" if report.cost is None else f", {report.cost:,.2f} {report.currency}".rstrip()
        yield f"{_count_runs(ended_count)} in {duration(report.makespan)}{hours}{price}"
    if report.never_fits:
        yield f"{_count_runs(report.never_fits)} never {'fits' if report.never_fits == 1 else 'fit'}"
    if report.endless:
        yield f"the end of {_count_runs(report.endless)} is unknown"


def _makespan_range(report: ForecastReport) -> str:
    low, high = report.makespan_range or (report.makespan, report.makespan)
    return f"{duration(low)} to {duration(high)}"


def comparison_sentences(unchanged_report: ForecastReport, report: ForecastReport) -> Iterator[str]:
    """Yield the effect of --set and --nodes."""
    wait = (_mean_wait(unchanged_report), _mean_wait(report))
    yield f"Without the changes: {sentences(unchanged_report)[0]}"
    if None not in wait:
        yield f"A run waits {duration(wait[1] or 0)} on average, and {duration(wait[0] or 0)} without the changes."


def comparison_table(unchanged_report: ForecastReport, report: ForecastReport) -> TextTable:
    """Return the runs that start or end at another time than without --set and --nodes."""
    unchanged_rows = _rows_by_run(unchanged_report)
    rows = []
    for row in report.rows:
        unchanged = unchanged_rows.get((row.namespace, row.name))
        start, end = _start(row), _end(row)
        start_before, end_before = (_UNKNOWN, _UNKNOWN) if unchanged is None else (_start(unchanged), _end(unchanged))
        if (start, end) != (start_before, end_before):
            rows.append((row.name, start, start_before, end, end_before))
    return TextTable(("run", "start", "before", "end", "before"), rows)


def _rows_by_run(report: ForecastReport) -> dict[tuple[str, str], ForecastRow]:
    return {(row.namespace, row.name): row for row in report.rows}


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


def _title(report: ForecastReport) -> str:
    makespan = f" ({_makespan_range(report)})" if report.open else ""
    rules = f", by {describe_rules(report.rules, report.not_compared)}" if report.not_compared else ""
    return f"Forecast of {report.environment}{makespan}{rules}"


def gantt_of(report: ForecastReport, unchanged_report: ForecastReport | None = None) -> Gantt:
    """Return the chart of a forecast. `unchanged_report`: the one without --set and --nodes."""
    flavors = sorted({flavor for row in report.rows for flavor in row.flavors})
    # The color of runs without a flavor is left out.
    colors = {name: index + (index >= _NO_FLAVOR) for index, name in enumerate(flavors)}
    unchanged_rows = _rows_by_run(unchanged_report) if unchanged_report is not None else {}
    is_unqueued = any(not row.flavors and row.start is not None for row in report.rows)
    return Gantt(
        title=_title(report),
        until=1.02 * max(60.0, *_times(report), *(_times(unchanged_report) if unchanged_report is not None else ())),
        lanes=tuple(_lane(row, colors, unchanged_rows.get((row.namespace, row.name))) for row in report.rows),
        levels=tuple(_level(use, colors[use.flavor]) for use in _scarcest_uses(report)),
        color_names={
            **{color: name for name, color in colors.items()},
            **({_NO_FLAVOR: "no flavor"} if is_unqueued else {}),
        },
    )


def _times(report: ForecastReport) -> Iterator[float]:
    """Yield the times that must be on the chart."""
    yield report.makespan
    for row in report.rows:
        if row.start is not None:
            # Leave room for runs without an end.
            yield 1.1 * row.start
        if row.end_range is not None:
            yield row.end_range[1]


def _lane(row: ForecastRow, colors: dict[str, int], unchanged_row: ForecastRow | None) -> Lane:
    wait = f"waits {duration(row.wait)}" if row.wait and row.wait >= 1 else ""
    unchanged_times = () if unchanged_row is None else _running_times(unchanged_row)
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
        never_fits=row.never_fits,
        unchanged_times=() if unchanged_times == _running_times(row) else unchanged_times,
    )


def _running_times(row: ForecastRow) -> tuple[tuple[float, float | None], ...]:
    return tuple((stretch.started, stretch.ended) for stretch in row.stretches if stretch.started is not None)


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
        end_range=row.end_range if stretch is row.stretches[-1] and _varies(row) else None,
    )


def _varies(row: ForecastRow) -> bool:
    low, high = row.end_range or (0.0, 0.0)
    return high - low >= 1


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
    peak, mean, quota = (_format_amount(use, text) for text in (f"{use.peak:g}", f"{use.mean:.1f}", f"{use.quota:g}"))
    return Level(
        name=use.flavor,
        label=f"{use.resource}: {peak} at most, {mean} on average, of {quota}",
        color=color,
        capacity=use.quota,
        steps=use.steps,
    )
