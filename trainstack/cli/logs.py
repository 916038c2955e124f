"""`trainstack logs`: what the replicas of a run print, merged."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from kr8s.asyncio import Api
from rich.text import Text

from trainstack.cli.console import err, fail, out, quiet_interrupt
from trainstack.cli.runs import PAUSE_SECONDS, Patience, RunArgument, bodies_of, chosen, gone, matching, tell
from trainstack.cli.session import Session, StackOption
from trainstack.live.client import ClusterError, connect, get_all
from trainstack.live.logs import Source, follow_log, read_logs
from trainstack.live.paths import location
from trainstack.live.progress import view_all
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.runs.launches import live_launch, utc_now
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.log_merge import Cursor, merged
from trainstack.runs.records import wrapper_of
from trainstack.runs.status.main_container import trainer
from trainstack.runs.status.run_view import RunView

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
_SPAN = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in "dhms"))


def logs(
    run: RunArgument,
    stack: StackOption = "dev",
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="Only this role's: `master`, `worker`.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Only the replicas of this index, from 0.")] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="Begin with this many lines of each at most.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="SPAN|TIME", help="Begin so long ago (`90s`, `1h30m`) or at an RFC 3339 time.")
    ] = None,
) -> None:
    """Print the logs of a run's replicas, merged by time, each line with its replica.

    With --follow, replicas that start later are followed too, restarts do not end it, and a connection that breaks
    off is taken up again without a line lost or told twice. Of a Pod that is restarted after it has succeeded, the
    attempt before the present one is printed too.

    Examples:

      trainstack logs digits -s dev

      trainstack logs digits-0f3c9a1b2d -s dev --follow

      trainstack logs digits -s dev --role worker --index 0 --tail 20

      trainstack logs digits -s dev --since 10m
    """
    session = Session.open(stack)
    wanted = _Wanted(role.lower() if role else None, index, tail, _moment(since))
    with quiet_interrupt():
        try:
            bodies = _launches(session, run)
            asyncio.run(_follow(session, bodies, wanted) if follow else _print(session, bodies, wanted))
        except ClusterError as error:
            fail(str(error))


@dataclass(frozen=True)
class _Wanted:
    """Which lines a person asked for."""

    role: str | None
    index: int | None
    tail: int | None
    since: datetime | None


def _moment(since: str | None) -> datetime | None:
    if since is None:
        return None
    match = _SPAN.fullmatch(since)
    if match and since:
        days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
        try:
            return utc_now() - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            return fail(f"--since {since}: out of range; omit it to print all lines")
    try:
        moment = datetime.fromisoformat(since)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return fail(f"--since {since}: neither a span such as 90s or 1h30m nor a time such as 2026-01-31T12:00:00Z")


def _launches(session: Session, run: str) -> list[Mapping[str, Any]]:
    """The run's live launches; where all are gone, the command ends with where the logs are."""
    settings = session.settings
    bodies = read_launches(settings.stack, run_namespaces(settings), settings.cluster.context)
    every = [live_launch(body) for body in bodies]
    if not matching(every, run):
        for ledger in read_runs(settings).ledgers:
            if ledger.workload == run or ledger.run_id.startswith(run):
                _gone(session, ledger.run_id, recorded=wrapper_of(ledger.objects) is not None)
    return bodies_of(chosen(every, run), bodies)


def _gone(session: Session, run_id: str, *, recorded: bool) -> None:
    if recorded:
        fail(
            f"the pods of {run_id} are gone, and their logs with them; the record on its volume holds them: "
            f"trainstack fetch {run_id} -s {session.stack}, then see results/{run_id}/logs"
        )
    fail(f"the pods of {run_id} are gone, and their logs with them: an unmanaged run keeps no record")


@dataclass
class _Printer:
    """Writes lines with the label of their replica, in a colour of its own."""

    labels: dict[Source, str] = field(default_factory=dict)
    width: int = 0

    def name(self, source: Source, label: str) -> None:
        """Say which replica a container belongs to."""
        self.labels[source] = label
        self.width = max(self.width, len(label))

    def say(self, source: Source, line: LogLine) -> None:
        """Write a line."""
        label = self.labels[source]
        colour = _COLOURS[sorted(set(self.labels.values())).index(label) % len(_COLOURS)]
        out.print(Text.assemble((f"{label:<{self.width}} │ ", colour), line.text))


def _sources(views: Sequence[RunView], wanted: _Wanted, printer: _Printer) -> list[Source]:
    """The containers whose lines are wanted, the master's first."""
    found = []
    for view in views:
        launch = f"{view.launch.name}/" if len(views) > 1 else ""
        for pod in view.pods:
            if wanted.role not in (None, pod.role) or wanted.index not in (None, pod.index):
                continue
            for container in pod.containers:
                source = Source(view.launch.namespace, pod.name, pod.uid, container)
                # What prepares the pod, or stands beside the one that trains, says so.
                also = "" if container == trainer(pod.containers) else f" {container}"
                printer.name(source, f"{launch}{pod.role}-{pod.index}{also}")
                found.append(source)
    return found


def _repeated(views: Sequence[RunView]) -> set[Source]:
    """The containers that are restarted whenever they have ended, and whose last attempt succeeded.

    The present attempt has only begun to train again: the complete log is that of the attempt before.
    """
    return {
        Source(view.launch.namespace, pod.name, pod.uid, trainer(pod.containers))
        for view in views
        if view.launch.endless
        for pod in view.pods
        if pod.restarts and pod.last_attempt is not None and pod.last_attempt.succeeded
    }


async def _look(
    api: Api, session: Session, bodies: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[RunView]]:
    """The launches that are still there."""
    answers = await get_all(api, [location(body) for body in bodies])
    live: list[Mapping[str, Any]] = [answers[location(body)].body for body in bodies if answers[location(body)].found]
    owner = session.settings.environment.profile == "owner"
    return live, await view_all(api, live, utc_now(), cluster_wide=owner, with_log=False)


async def _print(session: Session, bodies: Sequence[Mapping[str, Any]], wanted: _Wanted) -> None:
    api = await connect(session.settings.cluster.context)
    _, views = await _look(api, session, bodies)
    printer = _Printer()
    sources = _sources(views, wanted, printer)
    if not sources:
        _nothing(session, bodies, views, wanted)
    logs = await read_logs(api, sources, tail=wanted.tail, since=wanted.since, repeated=_repeated(views))
    for source, line in merged(logs):
        printer.say(source, line)
    if not any(logs.values()):
        for view in views:
            err.print(f"{view.launch.run_id} has printed nothing: {view.summary()}", markup=False)


def _nothing(session: Session, bodies: Sequence[Mapping[str, Any]], views: Sequence[RunView], wanted: _Wanted) -> None:
    """End the command: there is no pod to read."""
    pods = sorted({f"{pod.role}-{pod.index}" for view in views for pod in view.pods})
    if pods:
        asked = "-".join(str(each) for each in (wanted.role, wanted.index) if each is not None)
        fail(f"the run has no replica {asked}; it has {', '.join(pods)}")
    for view, body in zip(views, bodies, strict=False):
        if not view.pods_known:
            fail(
                f"the pods of namespace {view.launch.namespace} may not be read with these credentials; who "
                "administers the namespace can grant it: the rights to list pods and to get pods/log"
            )
        if view.launch.active:
            fail(f"{view.launch.run_id} has no pods yet: {view.summary()}. Wait for them: --follow")
        ledgers = {each.run_id: each.objects for each in read_runs(session.settings).ledgers}
        recorded = wrapper_of(ledgers.get(view.launch.run_id, (body,))) is not None
        _gone(session, view.launch.run_id, recorded=recorded)


async def _follow(session: Session, bodies: Sequence[Mapping[str, Any]], wanted: _Wanted) -> None:
    """Print what there is, merged, and then each line as it comes, until the run has ended."""
    api = await connect(session.settings.cluster.context)
    printer, tasks = _Printer(), dict[Source, asyncio.Task[None]]()
    launches = [live_launch(body) for body in bodies]
    active = {launch.name for launch in launches if launch.active}
    said: dict[str, str] = {}
    patience = Patience(session)
    while True:
        try:
            live, views = await _look(api, session, bodies)
        except ClusterError as error:
            patience.missed(error)
        else:
            patience.heard()
            active -= {view.launch.name for view in views if not view.launch.active}
            await _follow_new(api, views, wanted, printer, tasks)
            for view in (each for each in views if not each.pods or any(pod.problems for pod in each.pods)):
                _tell(said, view.launch.name, f"{view.launch.run_id}: {view.summary()}")
            if not any(view.launch.active and view.pods_known for view in views):
                break
        await asyncio.sleep(PAUSE_SECONDS)
    await asyncio.gather(*tasks.values())
    for view in views:
        err.print(f"{view.launch.run_id}: {view.launch.phase}", markup=False)
    here = {view.launch.name for view in views}
    if lost := [launch.run_id for launch in launches if launch.name in active - here]:
        fail(gone(session, lost))
    if not tasks:
        _nothing(session, live or bodies, views, wanted)


async def _follow_new(
    api: Api, views: Sequence[RunView], wanted: _Wanted, printer: _Printer, tasks: dict[Source, "asyncio.Task[None]"]
) -> None:
    """Begin to follow the replicas that have come.

    What those that were there before have written is told in the order of time; who comes later is told whole.
    """
    for task in tasks.values():
        if task.done():
            task.result()  # raises what it has failed with
    new = [source for source in _sources(views, wanted, printer) if source not in tasks]
    tail, since = (None, None) if tasks else (wanted.tail, wanted.since)
    cursors = {source: Cursor(cut=tail is not None) for source in new}
    for source, line in merged(await read_logs(api, new, tail=tail, since=since, repeated=_repeated(views))):
        cursors[source].take(line)
        printer.say(source, line)
    for source in new:
        if since is not None:
            cursors[source].begin(since)
        tasks[source] = asyncio.create_task(follow_log(api, source, cursors[source], printer.say))


def _tell(said: dict[str, str], about: str, line: str) -> None:
    """Say something about a launch once, until there is something else to say."""
    if said.get(about) != line:
        said[about] = line
        tell(line)
