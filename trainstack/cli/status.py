"""`trainstack status`: what the runs are doing."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import WIDE, age, duration, err, fail, out, quiet_interrupt, show, show_json
from trainstack.cli.runs import PAUSE_SECONDS, OptionalRun, Patience, as_data, ending, look, views
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.runs.launches import utc_now
from trainstack.runs.logs.training_progress import Progress
from trainstack.runs.status.run_view import ClaimUse, RunView
from trainstack.runs.status.usage import Use

_STYLES = {"queued": "yellow", "running": "cyan", "succeeded": "green", "failed": "red"}
_DETAILS = 120
"""Columns of the details where there is no terminal."""
_ROOM = 140
"""Columns of a terminal from which on what a run does stands beside it, not below the table."""


def status(
    run: OptionalRun = None,
    *,
    stack: StackOption = "dev",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep looking until all runs have ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show each run: its state, its place in the queue and why it waits, how far it is. With RUN, all about it.

    Examples:

      trainstack status -s dev

      trainstack status digits -s dev

      trainstack status -s dev --watch

      trainstack status -s dev --json
    """
    session = Session.open(stack)
    if watch and as_json:
        fail("--watch is for people: leave it out, or --json")
    if as_json:
        show_json([as_data(view) for view in views(session, run, with_usage=True)])
        return
    with quiet_interrupt():
        if watch:
            _watch(session, run)
            return
        found = views(session, run, with_usage=run is not None)
        show(_shown(found, stack, run), width=WIDE if run is None else _DETAILS)


def _shown(found: Sequence[RunView], stack: str, run: str | None) -> RenderableType:
    now = utc_now()
    if run is not None:
        return Group(*(details(view, now) for view in found))
    return table(found, now) if found else f"no run of {stack} has an object in the cluster"


def _watch(session: Session, run: str | None) -> None:
    """Draw the same place again until nothing is left that could end by itself; then say how it ended."""
    with Live(console=out, auto_refresh=False) as live:
        patience = Patience(session, tell=lambda line: live.update(Text(line, style="yellow"), refresh=True))
        seen: dict[str, RunView] = {}
        while True:
            found = patience.ask(lambda: look(session, run, with_usage=run is not None))
            live.update(_shown(found, session.stack, run), refresh=True)
            left = ending(session, found)
            seen |= {view.launch.name: view for view in left}
            if not any(view.launch.awaited for view in left):
                break
            time.sleep(PAUSE_SECONDS)
    err.print(ended(list(seen.values())), markup=False)


def ended(seen: Sequence[RunView]) -> str:
    """How the runs ended, in one line, from how each was seen last: one that was awaited then went away."""
    phases = ["gone before its end was seen" if view.launch.awaited else _end(view) for view in seen]
    said = ", ".join(f"{count} {phase}" for phase, count in sorted(Counter(phases).items(), reverse=True))
    return f"all have ended: {said}" if said else "nothing is left that ends by itself"


def _end(view: RunView) -> str:
    return "completed, and restarted by its policy" if view.launch.completed else view.launch.phase


def table(found: Sequence[RunView], now: datetime) -> RenderableType:
    """The runs, a line for each; what they do stands below where the terminal is narrow."""
    beside = not out.is_terminal or out.width >= _ROOM
    result = Table(box=None, pad_edge=False)
    for column in ("RUN", "KIND", "STATE", "QUEUE", "POS", "DONE", "LEFT", "AGE"):
        result.add_column(column, no_wrap=True)
    if beside:
        result.add_column("WHAT", overflow="fold")
    for view in found:
        launch = view.launch
        left = view.progress.seconds_left if view.progress else None
        cells: list[RenderableType] = [
            launch.run_id,
            launch.kind,
            Text(launch.phase, style=_STYLES[launch.phase]),
            view.queue or "",
            "" if view.position is None else str(view.position),
            _done(view),
            "" if left is None else duration(left),
            age(launch.created, now),
        ]
        result.add_row(*cells, *([Text(_what(view))] if beside else []))
    if beside:
        return result
    return Group(result, *(Text(f"{view.launch.run_id}: {_what(view)}") for view in found if _what(view)))


def _done(view: RunView) -> str:
    """Of all epochs, `42%`; where their number is unknown, of the epoch at hand, `1% of epoch 2`."""
    progress, done = view.progress, view.done_fraction
    if done is not None:
        return f"{done:.0%}"
    if progress is None or progress.epoch_fraction is None:
        return ""
    epoch = "the epoch" if progress.epoch is None else f"epoch {progress.epoch}"
    return f"{progress.epoch_fraction:.0%} of {epoch}"


def _what(view: RunView) -> str:
    """The summary without what other columns say."""
    return view.waits_because if view.launch.phase == "queued" else view.summary().removeprefix(view.launch.phase)[2:]


def details(view: RunView, now: datetime) -> Panel:
    """All about one launch."""
    launch = view.launch
    facts = Table.grid(padding=(0, 2))
    facts.add_row("launch", f"{launch.kind} {launch.namespace}/{launch.name}")
    facts.add_row("created", f"{age(launch.created, now)} ago")
    facts.add_row("queue", _queue(view))
    known = {
        "started": f"{_utc(view.started)}, {age(view.started, now)} ago" if view.started else "",
        "completed": _completion(view),
        "waits": view.waits_because,
        "failed": view.failure,
        "end": "none by itself: restartPolicy Always restarts it whenever it has ended" if launch.endless else "",
        "restarts": view.restarts,
        "last line": view.last_line,
    }
    for name, words in known.items():
        if words:
            facts.add_row(name, Text(words))
    parts: list[RenderableType] = [facts]
    if view.done_fraction is not None or view.progress is not None:
        parts.append(_bar(view))
    parts += [_replicas(view), _conditions(view, now)]
    if view.pods:
        parts.append(_pods(view))
    elif not view.pods_known:
        parts.append(Text("Pods may not be read with these credentials; who administers the namespace can grant it."))
    if view.node_use:
        parts.append(_nodes(view))
    if view.claims:
        parts.append(_claims(view.claims))
    title = Text.assemble(launch.run_id, " ", (launch.phase, _STYLES[launch.phase]))
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim")


def _queue(view: RunView) -> str:
    if view.queue is None:
        return "none: Kueue does not hold it"
    place = "" if view.position is None else f", position {view.position}"
    place += " (0 is next)" if isinstance(view.position, int) else ""
    return f"{view.queue}{place}{', admitted' if view.admitted else ''}"


def _bar(view: RunView) -> Table:
    """Of all epochs, or of this one where their number is unknown."""
    progress, done, label = view.progress, view.done_fraction, "done"
    if done is None and progress is not None:
        done, label = progress.epoch_fraction, "epoch"
    words = [f"{done or 0:.0%}"]
    if progress is not None:
        words += _position(progress)
        words += [f"about {duration(progress.seconds_left)} left"] if progress.seconds_left is not None else []
    grid = Table.grid(padding=(0, 2))
    grid.add_row(label, ProgressBar(total=1, completed=done or 0, width=30), "  ".join(words))
    return grid


def _position(progress: Progress) -> list[str]:
    """The epoch, and the step or the rows in it."""
    words = []
    if progress.epoch is not None:
        words.append(f"epoch {progress.epoch}" + ("" if progress.epochs is None else f"/{progress.epochs}"))
    if progress.step is not None:
        words.append(f"step {progress.step}/{progress.steps}")
    if progress.rows is not None:
        words.append(f"row {progress.rows}/{progress.rows_of_epoch}")
    return words


def _section(title: str, *columns: str) -> Table:
    result = Table(*columns, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in result.columns:
        column.overflow = "fold"
    return result


def _replicas(view: RunView) -> Table:
    result = _section("Replicas", "ROLE", "ACTIVE", "SUCCEEDED", "FAILED", "OF")
    for each in view.replicas:
        result.add_row(each.role, *(str(count) for count in (each.active, each.succeeded, each.failed, each.of)))
    return result


def _completion(view: RunView) -> str:
    """When the run completed, and how long it took since its start; empty if that is not known."""
    if view.completed is None:
        return ""
    took = f", after {age(view.started, view.completed)}" if view.started else ""
    return f"{_utc(view.completed)}{took}"


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _conditions(view: RunView, now: datetime) -> Table:
    result = _section("Conditions", "TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
    for each in view.conditions:
        since = f"{age(each.since, now)} ago" if each.since else ""
        result.add_row(each.type, each.status, since, each.reason, Text(each.message))
    return result


def _pods(view: RunView) -> Table:
    result = _section("Pods", "REPLICA", "POD", "PHASE", "NODE", "CPU", "MEMORY", "RESTARTS", "PROBLEM")
    for pod in view.pods:
        problem = Text("; ".join(pod.problems))
        result.add_row(
            f"{pod.role}-{pod.index}",
            pod.name,
            pod.phase,
            pod.node,
            *_use(view.pod_use.get(pod.name)),
            str(pod.restarts),
            problem,
        )
    return result


def _nodes(view: RunView) -> Table:
    result = _section("Nodes, with all that runs there", "NODE", "CPU", "MEMORY")
    for name, use in view.node_use.items():
        result.add_row(name, *_use(use))
    return result


def _use(use: Use | None) -> tuple[str, str]:
    """Cores and memory; empty where nobody has counted them."""
    return (f"{use.cpu_cores:.2f}", f"{use.memory_bytes / 2**30:.2f}Gi") if use else ("", "")


def _claims(claims: Sequence[ClaimUse]) -> Table:
    result = _section("Volumes", "CLAIM", "PHASE", "REQUESTED", "USED")
    for each in claims:
        used = each.used_bytes if each.used_bytes == "unknown" else f"{each.used_bytes / 2**30:.2f}Gi"
        result.add_row(each.name, each.phase, each.requested, used)
    return result
