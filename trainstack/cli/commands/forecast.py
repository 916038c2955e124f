from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainstack.cli.forecast_inputs import live_workloads_reader, measured_durations
from trainstack.cli.output.console import (
    fail,
    make_fact_table,
    make_table,
    make_text,
    out,
    show,
    show_json,
    show_written,
    step,
    write_files,
)
from trainstack.cli.output.forecast_format import (
    TEXT_COLUMNS,
    TextTable,
    comparison_sentences,
    comparison_table,
    gantt_of,
    run_notes,
    run_table,
    sentences,
    use_table,
)
from trainstack.cli.session import JsonOption, Session, StackOption, file_option
from trainstack.forecast.forecast import forecast as simulate
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.forecast.report import ForecastReport, build_report
from trainstack.preflight.file_checks import find_name_errors
from trainstack.settings.loading.load import LoadedEnvironment, load_with_places
from trainstack.settings.model import Settings

_WIDE_TERMINAL = 150
"""Columns of a terminal that has room for the notes in a column; else they are printed below the table."""


def forecast(
    *,
    stack: StackOption,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Start from the current workloads of the cluster, which is only read.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Try another value of a setting; repeatable."),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes",
            metavar="FLAVOR=COUNT",
            help="Try another number of nodes of a flavor: a100=4, or, if the flavor's nodes are unknown, with "
            "their resources: a100=4:cpu=64,memory=512Gi; repeatable.",
        ),
    ] = None,
    png: Annotated[Path | None, file_option("Write the chart as a PNG.")] = None,
    html: Annotated[Path | None, file_option("Write a page with the chart and the table.")] = None,
    json_: JsonOption = False,
) -> None:
    """Forecast when each run waits, starts and ends, and its use of quota; changes nothing.

    Simulates Kueue's admission from the files and, with --cluster, the workloads in the cluster. A run's duration is
    its expectedDurationSeconds, else that of earlier records in results/, else its activeDeadlineSeconds.

    Examples:
      trainstack forecast -s prod
      trainstack forecast -s prod --cluster --html forecast.html
      trainstack forecast -s prod --set 'workloads.runs\\[digits].priority=low'
      trainstack forecast -s prod --nodes a100=4:cpu=64,nvidia.com/gpu=8 --json
    """
    session = Session.open(stack)
    loaded = load_with_places(session.root, stack, changes=set_) if set_ else session.loaded
    forecast_report, unchanged_report = _reports(session, loaded, nodes or [], cluster=cluster)
    files = _draw(forecast_report, unchanged_report, png, html)
    write_files(files)
    if json_:
        show_json(
            {**forecast_report.as_json(), "before": None if unchanged_report is None else unchanged_report.as_json()}
        )
    else:
        show(_render(forecast_report, unchanged_report))
    show_written(files)


def _reports(
    session: Session, loaded: LoadedEnvironment, nodes: list[str], *, cluster: bool
) -> tuple[ForecastReport, ForecastReport | None]:
    settings, unchanged, durations = loaded.settings, session.settings, measured_durations(session)
    live_workloads_for: Callable[[Settings], LiveWorkloads] | None = None
    if cluster:
        with step("reading the cluster", "2 s"):
            live_workloads_for = live_workloads_reader(session)
    _refuse_unknown_names(session, loaded, None if live_workloads_for is None else live_workloads_for(settings))

    def make_report(variant: Settings, variant_nodes: list[str]) -> ForecastReport:
        live_workloads = None if live_workloads_for is None else live_workloads_for(variant)
        return build_report(
            simulate(
                variant,
                measured_seconds=durations,
                nodes=variant_nodes,
                live=live_workloads,
                unchanged_settings=unchanged,
            )
        )

    forecast_report = make_report(settings, nodes)
    return forecast_report, make_report(unchanged, []) if nodes or settings is not unchanged else None


def _refuse_unknown_names(session: Session, loaded: LoadedEnvironment, live_workloads: LiveWorkloads | None) -> None:
    """Exit if the environment refers to undeclared objects: `up` would refuse it, and other runs would be planned."""
    priority_classes = None if live_workloads is None else live_workloads.snapshot.model.priorities
    if faults := find_name_errors(loaded, session.root, priority_classes):
        fail("\n".join(map(str, faults)))


def _draw(
    forecast_report: ForecastReport, unchanged_report: ForecastReport | None, png: Path | None, html: Path | None
) -> dict[Path, bytes]:
    if png is None and html is None:
        return {}
    from trainstack.reports import gantt_picture  # noqa: PLC0415 (matplotlib takes a second to load)

    with step("drawing", "2 s"):
        return {
            **({png: gantt_picture.png(gantt_of(forecast_report, unchanged_report))} if png else {}),
            **({html: _page(forecast_report, unchanged_report).encode()} if html else {}),
        }


def _page(forecast_report: ForecastReport, unchanged_report: ForecastReport | None) -> str:
    from trainstack.reports.gantt_page import PageTable, html  # noqa: PLC0415 (as above)

    tables = []
    if unchanged_report is not None and (changes := comparison_table(unchanged_report, forecast_report)).rows:
        tables.append(PageTable(title="Changed runs", **changes._asdict(), kind="few"))
    alarms = {index for index, row in enumerate(forecast_report.rows) if row.never_fits}
    tables.append(PageTable(title="Runs", **run_table(forecast_report)._asdict(), alarms=alarms))
    if forecast_report.uses:
        tables.append(PageTable(title="Use of quota", **use_table(forecast_report)._asdict()))
    return html(
        gantt_of(forecast_report, unchanged_report),
        sentences=_all_sentences(forecast_report, unchanged_report),
        tables=tables,
        notes=[
            *(f"{forecast_report.rows[index].name}: {note}" for index, note in run_notes(forecast_report).items()),
            *forecast_report.notes,
        ],
    )


def _all_sentences(forecast_report: ForecastReport, unchanged_report: ForecastReport | None) -> list[str]:
    return [
        *sentences(forecast_report),
        *(comparison_sentences(unchanged_report, forecast_report) if unchanged_report is not None else ()),
    ]


def _render(forecast_report: ForecastReport, unchanged_report: ForecastReport | None) -> RenderableType:
    parts: list[RenderableType] = [*_run_parts(forecast_report), Text()]
    if forecast_report.uses:
        parts += [_make_table(use_table(forecast_report)), Text()]
    if unchanged_report is not None and (changes := comparison_table(unchanged_report, forecast_report)).rows:
        parts += [_make_table(changes), Text()]
    parts += _all_sentences(forecast_report, unchanged_report)
    return Group(*parts, *(make_text(f"note: {note}", "dim") for note in forecast_report.notes))


def _run_parts(forecast_report: ForecastReport) -> Iterator[RenderableType]:
    """Yield the table of runs; on a narrow terminal, the notes on runs follow it."""
    notes, table = run_notes(forecast_report), run_table(forecast_report)
    styles = ["red" if row.never_fits else "" for row in forecast_report.rows]
    if not out.is_terminal or out.width >= _WIDE_TERMINAL:
        rows = [(*row, notes.get(index, "")) for index, row in enumerate(table.rows)]
        yield _make_table(TextTable((*table.head, "note"), rows), styles)
        return
    yield _make_table(table, styles)
    if notes:
        yield Text()
        rows_with_notes = [(forecast_report.rows[index].name, styles[index], note) for index, note in notes.items()]
        yield make_fact_table(
            ("",), [((make_text(name, style),), [("", note)]) for name, style, note in rows_with_notes]
        )


def _make_table(table: TextTable, styles: Sequence[str] = ()) -> Table:
    """Return a table whose texts are wrapped on a narrow terminal; numbers are not. `styles`: of the rows, if any."""
    made_table = make_table(
        table.head, table.rows, right={*table.head} - {*TEXT_COLUMNS}, fold=TEXT_COLUMNS, collapse=True
    )
    for row, style in zip(made_table.rows, styles, strict=False):
        row.style = style
    return made_table
