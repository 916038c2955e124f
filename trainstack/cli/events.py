"""`trainstack events`: what happened to the runs' objects."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import age, err, fail, quiet_interrupt, show, show_json
from trainstack.cli.runs import PAUSE_SECONDS, OptionalRun, Patience, bodies_of, chosen
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.live.client import ClusterError
from trainstack.live.events import read_events
from trainstack.live.snapshot import read_launches, run_namespaces
from trainstack.runs.launches import LiveLaunch, live_launch, utc_now
from trainstack.runs.status.events import EventView


def events(
    run: OptionalRun = None,
    *,
    stack: StackOption = "dev",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until the runs have ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the events of a run's objects, oldest first: its launch, Workload, pods and volume claims.

    A cluster forgets events after an hour, unless it is set up otherwise.

    Examples:

      trainstack events digits -s dev

      trainstack events -s dev --watch

      trainstack events digits -s dev --json
    """
    session = Session.open(stack)
    if watch and as_json:
        fail("--watch is for people: leave it out, or --json")
    with quiet_interrupt():
        try:
            patience = Patience(session)
            launches, found = patience.ask(lambda: _read(session, run)) if watch else _read(session, run)
            if as_json:
                show_json([asdict(each) for each in found])
                return
            if found or not watch:
                _show(found, launches)
            if watch:
                _watch(session, run, patience, launches, found)
        except ClusterError as error:
            fail(str(error))


def _read(session: Session, run: str | None) -> tuple[list[LiveLaunch], list[EventView]]:
    settings = session.settings
    bodies = read_launches(settings.stack, run_namespaces(settings), settings.cluster.context)
    every = [live_launch(body) for body in bodies]
    launches = chosen(every, run)
    return launches, read_events(
        bodies_of(launches, bodies), [launch.name for launch in every], settings.cluster.context
    )


def _watch(
    session: Session, run: str | None, patience: Patience, launches: list[LiveLaunch], found: list[EventView]
) -> None:
    """Print what is new, or was counted again, until no run is active any more."""
    counts = {each.key: each.count for each in found}
    while any(launch.active for launch in launches):
        time.sleep(PAUSE_SECONDS)
        launches, found = patience.ask(lambda: _read(session, run))
        new = [each for each in found if counts.get(each.key) != each.count]
        if new:
            _show(new, launches, header=False)
        counts |= {each.key: each.count for each in new}


def _show(found: Sequence[EventView], launches: Sequence[LiveLaunch], *, header: bool = True) -> None:
    if not found:
        err.print("no events: a cluster forgets them after an hour or so")
        return
    now = utc_now()
    table = Table(box=None, pad_edge=False, show_header=header)
    for column, width in (("AGE", 6), ("COUNT", 5), ("TYPE", 7), ("OBJECT", 16), ("REASON", 16)):
        table.add_column(column, min_width=width, overflow="fold")
    table.add_column("MESSAGE", overflow="fold", ratio=1)
    for each in found:
        table.add_row(
            age(each.last, now),
            str(each.count),
            Text(each.type, style="yellow" if each.type == "Warning" else ""),
            _short(each, launches),
            each.reason,
            Text(each.message),
        )
    show(table)


def _short(event: EventView, launches: Sequence[LiveLaunch]) -> str:
    """The object without what is the same for all of them: `Pod master-0` where there is one launch."""
    launch = max((each.name for each in launches if each.name in event.name), key=len, default=None)
    if launch is None:
        return f"{'Claim' if event.kind == 'PersistentVolumeClaim' else event.kind} {event.name}"
    run = "" if len(launches) == 1 else f"{launch} "
    # What follows a Workload's name is a hash, and a launch's own name is its own.
    rest = event.name.partition(launch)[2].removeprefix("-") if event.kind in ("Pod", "Service") else ""
    return f"{run}{event.kind} {rest}".rstrip()
