import time
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from trainstack.cli.output.console import age, err, make_text, quiet_interrupt, show, show_json
from trainstack.cli.retries import PAUSE_SECONDS, RetryBudget
from trainstack.cli.run_options import OptionalRun, WatchOption, ensure_one_output
from trainstack.cli.run_selection import bodies_of, read_bodies, select_launches
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
        retry_budget = RetryBudget(session)
        launches, views = (
            retry_budget.retry(lambda: _read_launches_and_events(session, run))
            if watch
            else _read_launches_and_events(session, run)
        )
        if as_json:
            show_json([asdict(event) for event in views])
            return
        if views or not watch:
            _show(views, launches)
        if watch:
            _watch(session, run, retry_budget, launches, views)


def _read_launches_and_events(session: Session, run: str | None) -> tuple[list[LiveLaunch], list[EventView]]:
    bodies = read_bodies(session)
    all_launches = [live_launch(body) for body in bodies]
    launches, context = select_launches(all_launches, run), session.settings.cluster.context
    return launches, read_events(bodies_of(launches, bodies), [launch.name for launch in all_launches], context)


def _watch(
    session: Session, run: str | None, retry_budget: RetryBudget, launches: list[LiveLaunch], views: list[EventView]
) -> None:
    """Print events that are new or have a higher count, until no run is active."""
    counts = {event.key: event.count for event in views}
    while any(launch.is_active for launch in launches):
        time.sleep(PAUSE_SECONDS)
        launches, views = retry_budget.retry(lambda: _read_launches_and_events(session, run))
        new_views = [event for event in views if counts.get(event.key) != event.count]
        if new_views:
            _show(new_views, launches, header=False)
        counts |= {event.key: event.count for event in new_views}


def _show(views: Sequence[EventView], launches: Sequence[LiveLaunch], *, header: bool = True) -> None:
    if not views:
        err.print("no events; a cluster deletes them after about an hour")
        return
    now = utc_now()
    table = Table(box=None, pad_edge=False, show_header=header)
    for column, width in (("AGE", 6), ("COUNT", 5), ("TYPE", 7), ("OBJECT", 16), ("REASON", 16)):
        table.add_column(column, min_width=width, overflow="fold")
    table.add_column("MESSAGE", overflow="fold", ratio=1)
    for event in views:
        table.add_row(
            age(event.last, now),
            str(event.count),
            make_text(event.type, "yellow" if event.type == "Warning" else ""),
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
    suffix = event.name.partition(launch)[2].removeprefix("-") if event.kind in ("Pod", "Service") else ""
    return f"{run}{event.kind} {suffix}".rstrip()
