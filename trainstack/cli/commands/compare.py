from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import fail, make_table, out, show_json, show_written, step, write_files
from trainstack.cli.run_series import read_compared_runs
from trainstack.cli.session import JsonOption, Session, StackOption, file_option
from trainstack.errors import ExitCode
from trainstack.reports.comparison import Comparison
from trainstack.reports.comparison import compare as compare_runs
from trainstack.reports.comparison_table import HEAD, as_json, table_rows


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Run ids, prefixes of run ids, or workloads.")],
    stack: StackOption,
    *,
    png: Annotated[Path | None, file_option("Write the charts as a PNG.")] = None,
    html: Annotated[Path | None, file_option("Write a page with the table and charts.")] = None,
    json_: JsonOption = False,
) -> None:
    """Compare runs: steps of each replica, time per epoch, speed-up, final accuracy and loss.

    The baseline is the run with one replica (the slowest if there are several), else the first run. A managed run is
    read from its record, which is fetched to results/ if necessary; an unmanaged run is read from its pods' logs.

    Examples:
      trainstack compare alone together -s dev
      trainstack compare digits-0f3c9a1b2d digits-8a1be02c44 -s dev --png compare.png --html compare.html
      trainstack compare alone together -s dev --json
    """
    if len(runs) < 2:
        fail("name at least two runs: trainstack compare RUN RUN…", ExitCode.USAGE)
    compared_runs = read_compared_runs(Session.open(stack), runs)
    if len({run.run_id for run in compared_runs}) < len(compared_runs):
        fail(
            f"{', '.join(runs)}: name each run once (got {', '.join(run.run_id for run in compared_runs)})",
            ExitCode.USAGE,
        )
    comparison = compare_runs(compared_runs)
    files = _draw(comparison, png, html)
    write_files(files)
    if json_:
        show_json(as_json(comparison))
    else:
        _show(comparison)
    show_written(files)


def _draw(comparison: Comparison, png: Path | None, html: Path | None) -> dict[Path, bytes]:
    if png is None and html is None:
        return {}
    from trainstack.reports import comparison_charts  # noqa: PLC0415 (matplotlib takes a second to load)

    with step("drawing", "2 s"):
        return {
            **({png: comparison_charts.png(comparison)} if png else {}),
            **({html: comparison_charts.html(comparison).encode()} if html else {}),
        }


def _show(comparison: Comparison) -> None:
    # Narrow, so that eight columns fit a terminal of 80 characters.
    out.print(make_table(HEAD, table_rows(comparison), right=HEAD[1:], fold=HEAD[:1], collapse=True))
    for sentence in comparison.sentences():
        out.print(f"\n{sentence}")
    for warning in comparison.warnings:
        out.print(f"\nbefore you compare: {warning}", style="yellow")
    for note in comparison.notes:
        out.print(f"\nnot known: {note}", style="dim")
