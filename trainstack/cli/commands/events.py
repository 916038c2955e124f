import time
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from trainstack.cli.output.console import age, err, quiet_interrupt, show, show_json, styled
from trainstack.cli.retries import PAUSE_SECONDS, Patience
from trainstack.cli.run_options import OptionalRun, WatchOption, ensure_one_output
from trainstack.cli.run_selection import bodies_of, chosen, read_bodies
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.live.events import read_events
from trainstack.runs.launches import LiveLaunch, live_launch, utc_now
from trainstack.runs.status.events import EventView


def events(
    run: OptionalRun = None, *, stack: StackOption, watch: WatchOption = False, as_json: JsonOption = False
) -> None:
    """Show the events of a run's launch, Workload, pods and volume claims, oldest first.

    By default, a cluster deletes events after an hour.

    Examples:
      trainstack events digits -s dev
      trainstack events -s dev --watch
      trainstack events digits -s dev --json
    """
    session = Session.open(stack)
    ensure_one_output(watch=watch, as_json=as_json)
    with quiet_interrupt():
        patience = Patience(session)
        launches, found = patience.ask(lambda: _read(session, run)) if watch else _read(session, run)
        if as_json:
            show_json([asdict(event) for event in found])
            return
        if found or not watch:
            _show(found, launches)
        if watch:
            _watch(session, run, patience, launches, found)


def _read(session: Session, run: str | None) -> tuple[list[LiveLaunch], list[EventView]]:
    bodies = read_bodies(session)
    every = [live_launch(body) for body in bodies]
    launches, context = chosen(every, run), session.settings.cluster.context
    return launches, read_events(bodies_of(launches, bodies), [launch.name for launch in every], context)


def _watch(
    session: Session, run: str | None, patience: Patience, launches: list[LiveLaunch], found: list[EventView]
) -> None:
    """Print events that are new or have a higher count, until no run is active."""
    counts = {event.key: event.count for event in found}
    while any(launch.active for launch in launches):
        time.sleep(PAUSE_SECONDS)
        launches, found = patience.ask(lambda: _read(session, run))
        new = [event for event in found if counts.get(event.key) != event.count]
        if new:
            _show(new, launches, header=False)
        counts |= {event.key: event.count for event in new}


def _show(found: Sequence[EventView], launches: Sequence[LiveLaunch], *, header: bool = True) -> None:
    if not found:
        err.print("no events; a cluster deletes them after about an hour")
        return
    now = utc_now()
    table = Table(box=None, pad_edge=False, show_header=header)
    for column, width in (("AGE", 6), ("COUNT", 5), ("TYPE", 7), ("OBJECT", 16), ("REASON", 16)):
        table.add_column(column, min_width=width, overflow="fold")
    table.add_column("MESSAGE", overflow="fold", ratio=1)
    for event in found:
        table.add_row(
            age(event.last, now),
            str(event.count),
            styled(event.type, "yellow" if event.type == "Warning" else ""),
            _short_name(event, launches),
            event.reason,
            event.message,
        )
    show(table)


def _short_name(event: EventView, launches: Sequence[LiveLaunch]) -> str:
    """Return the kind and name of an event's object without the launch's name: `Pod master-0`."""
    launch = max((launch.name for launch in launches if launch.name in event.name), key=len, default=None)
    if launch is None:
        return f"{'Claim' if event.kind == 'PersistentVolumeClaim' else event.kind} {event.name}"
    run = "" if len(launches) == 1 else f"{launch} "
    # A Workload's name ends with a hash, and a launch's own name has no suffix.
    rest = event.name.partition(launch)[2].removeprefix("-") if event.kind in ("Pod", "Service") else ""
    return f"{run}{event.kind} {rest}".rstrip()
