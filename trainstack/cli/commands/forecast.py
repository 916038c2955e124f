from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from trainstack.cli.forecast_inputs import live_workloads_reader, measured_durations
from trainstack.cli.output.console import (
    fail,
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
    HEAD,
    TEXT_COLUMNS,
    USE_HEAD,
    cells,
    comparison_sentences,
    gantt_of,
    page_table,
    sentences,
    use_cells,
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
    files = _draw(forecast_report, png, html)
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


def _draw(forecast_report: ForecastReport, png: Path | None, html: Path | None) -> dict[Path, bytes]:
    if png is None and html is None:
        return {}
    from trainstack.reports import gantt_page, gantt_picture  # noqa: PLC0415 (matplotlib takes a second to load)

    chart = gantt_of(forecast_report)
    with step("drawing", "2 s"):
        page = gantt_page.html(chart, sentences(forecast_report), *page_table(forecast_report)) if html else ""
        return {**({png: gantt_picture.png(chart)} if png else {}), **({html: page.encode()} if html else {})}


def _render(forecast_report: ForecastReport, unchanged_report: ForecastReport | None) -> RenderableType:
    is_wide = not out.is_terminal or out.width >= _WIDE_TERMINAL
    # On a narrow terminal, the names of runs are wrapped, and the notes follow the table.
    rows, end = list(map(cells, forecast_report.rows)), None if is_wide else -1
    table = make_table(
        HEAD[:end],
        (row[:end] for row in rows),
        right={*HEAD} - {*TEXT_COLUMNS},
        fold=(HEAD[0], HEAD[-1]),
        collapse=True,
    )
    notes_below = [] if is_wide else [f"{row[0]}: {row[-1]}" for row in rows if row[-1]]
    use_table = make_table(USE_HEAD, use_cells(forecast_report), right={*USE_HEAD} - {*TEXT_COLUMNS}, collapse=True)
    parts: list[RenderableType] = [table, *notes_below, Text()]
    parts += [use_table, Text()] if forecast_report.uses else []
    parts += [
        *sentences(forecast_report),
        *(comparison_sentences(unchanged_report, forecast_report) if unchanged_report is not None else ()),
    ]
    return Group(*parts, *(make_text(f"note: {note}", "dim") for note in forecast_report.notes))
