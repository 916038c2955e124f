"""`trainstack compare`: runs beside each other."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.run_series import figures
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.live.client import ClusterError
from trainstack.reports.comparison import Comparison
from trainstack.reports.comparison import compare as compare_runs
from trainstack.reports.errors import ReportError
from trainstack.reports.table import HEAD, as_json, cells


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN…", help="Ids of runs or their beginnings, or names of workloads."),
    ],
    stack: StackOption = "dev",
    *,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the pictures as one PNG.", dir_okay=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page with table and pictures.", dir_okay=False)
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Compare runs: steps of each replica, time per epoch, speed-up, final accuracy and loss.

    The baseline is the run of one replica (the slowest, where there are several), else the first. A recorded run is
    read from its record, which is fetched to results/ where it is missing; another one from its pods' logs.

    Examples:
      trainstack compare alone together -s dev
      trainstack compare digits-0f3c9a1b2d digits-8a1be02c44 -s dev --png compare.png --html compare.html
      trainstack compare alone together -s dev --json
    """
    if len(runs) < 2:
        fail("name at least two runs: trainstack compare RUN RUN…")
    try:
        found = figures(Session.open(stack), runs)
        if len({run.run_id for run in found}) < len(found):
            fail(f"{', '.join(runs)}: these name {', '.join(run.run_id for run in found)}; name each run once")
        comparison = compare_runs(found)
        files = _drawn(comparison, png, html)
        for file, content in files.items():
            file.write_bytes(content)
    except (ClusterError, ReportError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    if json_:
        show_json(as_json(comparison))
    else:
        _show(comparison)
    for file in files:
        err.print(f"written: {file}", markup=False)


def _drawn(comparison: Comparison, png: Path | None, html: Path | None) -> dict[Path, bytes]:
    """The files that were asked for, whole before the first is written."""
    if png is None and html is None:
        return {}
    from trainstack.reports import compared  # noqa: PLC0415 (matplotlib takes a second to load, which no other command should)

    with step("drawing", "2 s"):
        return {
            **({png: compared.png(comparison)} if png else {}),
            **({html: compared.html(comparison).encode()} if html else {}),
        }


def _show(comparison: Comparison) -> None:
    # Narrow, so that eight columns fit a terminal of 80 letters.
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column(HEAD[0].upper(), overflow="fold")
    for name in HEAD[1:]:
        table.add_column(name.upper(), justify="right", no_wrap=True)
    for row in cells(comparison):
        table.add_row(*map(Text, row))
    out.print(table)
    for sentence in comparison.sentences():
        out.print(f"\n{sentence}", markup=False)
    for title, texts, style in (
        ("before you compare", comparison.warnings, "yellow"),
        ("not known", comparison.notes, "dim"),
    ):
        for text in texts:
            out.print(f"\n{title}: {text}", markup=False, style=style)
