"""`trainstack plan`: what would happen in which order."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import err, fail, out, show, show_json, step
from trainstack.cli.plan_format import HEAD, LEFT, USE_HEAD, cells, compared, gantt_of, on_page, sentences, used
from trainstack.cli.plan_inputs import held_by, measured
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.forecast.forecast import forecast
from trainstack.forecast.live_workloads import LiveWorkloads
from trainstack.forecast.report import Report, report
from trainstack.live.client import ClusterError
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings

_ROOM = 150
"""Columns of a terminal from which on notes stand beside the figures, not below."""


def plan(
    *,
    stack: StackOption = "dev",
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Begin with what its cluster holds now; it is only read.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Try another value of the environment; may be given again."),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes",
            metavar="FLAVOR=COUNT",
            help="Try so many nodes of a flavor: a100=4, or, where none of that kind is known, "
            "a100=4:cpu=64,memory=512Gi,nvidia.com/gpu=8; may be given again.",
        ),
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it as a PNG.", dir_okay=False)] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page with the picture and the table.", dir_okay=False)
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Tell what would happen in which order: when each run waits, starts and ends, and what it uses.

    The queues are simulated as Kueue serves them, from the files alone or, with --cluster, beside what runs and waits
    there. A run takes as long as its expectedDurationSeconds says, else as earlier ones took (records in results/),
    else until its activeDeadlineSeconds. Nothing is changed anywhere.

    Examples:

      trainstack plan -s prod

      trainstack plan -s prod --cluster --html plan.html

      trainstack plan -s prod --set 'workloads.runs\\[digits].priority=low'

      trainstack plan -s prod --nodes a100=4:cpu=64,memory=512Gi,nvidia.com/gpu=8 --json
    """
    session, changes, tried = Session.open(stack), set_ or [], nodes or []
    try:
        unchanged = session.settings
        settings = load_with_places(session.root, stack, changes=changes).settings if changes else unchanged
        now, before = _reports(session, settings, tried, cluster=cluster)
        files = _drawn(now, png, html)
        for file, content in files.items():
            file.write_bytes(content)
    except (ClusterError, SettingsError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    if json_:
        show_json({**now.as_json(), "before": None if before is None else before.as_json()})
    else:
        show(_shown(now, before))
    for file in files:
        err.print(f"written: {file}", markup=False)


def _reports(session: Session, settings: Settings, nodes: list[str], *, cluster: bool) -> tuple[Report, Report | None]:
    """The plan, and where something is tried the plan without that."""
    unchanged, took = session.settings, measured(session)
    held: Callable[[Settings], LiveWorkloads] | None = None
    if cluster:
        with step("reading the cluster", "2 s"):
            held = held_by(session)

    def made(tried: Settings, changed: list[str]) -> Report:
        there = None if held is None else held(tried)
        return report(forecast(tried, measured=took, nodes=changed, live=there, unchanged=unchanged))

    now = made(settings, nodes)
    return now, made(unchanged, []) if nodes or settings is not unchanged else None


def _drawn(made: Report, png: Path | None, html: Path | None) -> dict[Path, bytes]:
    """The files that were asked for, whole before the first is written."""
    if png is None and html is None:
        return {}
    # matplotlib takes a second to load, which no other command should.
    from trainstack.reports import gantt_page, gantt_picture  # noqa: PLC0415

    chart = gantt_of(made)
    with step("drawing", "2 s"):
        page = gantt_page.html(chart, sentences(made), *on_page(made)) if html else ""
        return {**({png: gantt_picture.png(chart)} if png else {}), **({html: page.encode()} if html else {})}


def _shown(made: Report, before: Report | None) -> RenderableType:
    """The table, what it uses, and what to know."""
    beside = not out.is_terminal or out.width >= _ROOM
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for name in HEAD[:-1]:
        # Where there is too little room, the names of the runs are broken, and nothing else.
        broken = name == HEAD[0]
        justify: JustifyMethod = "left" if name in LEFT else "right"
        table.add_column(name.upper(), justify=justify, no_wrap=not broken, overflow="fold" if broken else "ellipsis")
    if beside:
        table.add_column(HEAD[-1].upper(), overflow="fold")
    rows = cells(made)
    for row in rows:
        table.add_row(*map(Text, row if beside else row[:-1]))
    below = [] if beside else [Text(f"{row[0]}: {row[-1]}") for row in rows if row[-1]]
    use = Table(box=None, pad_edge=False, collapse_padding=True)
    for name in USE_HEAD:
        use.add_column(name.upper(), justify="left" if name in LEFT else "right", no_wrap=True)
    for row in used(made):
        use.add_row(*map(Text, row))
    words = [*sentences(made), *(compared(before, made) if before is not None else ())]
    parts: list[RenderableType] = [table, *below, Text()]
    parts += [use, Text()] if made.uses else []
    parts += map(Text, words)
    return Group(*parts, *(Text(f"note: {each}", style="dim") for each in made.notes))
