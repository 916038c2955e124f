import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, NoReturn

import typer

from trainstack.cli.follow import ChangeReporter
from trainstack.cli.output.console import err, fail, print_with_prefix, quiet_interrupt
from trainstack.cli.retries import PAUSE_SECONDS, RetryBudget
from trainstack.cli.run_options import RunArgument
from trainstack.cli.run_selection import (
    Body,
    bodies_of,
    launches_named,
    ledgers_of,
    read_bodies,
    select_launches,
    unknown_results,
)
from trainstack.cli.session import Session, StackOption
from trainstack.errors import ExitCode
from trainstack.live.client import ClusterError, get_all
from trainstack.live.logs import LogSource, follow_log, read_logs
from trainstack.live.paths import object_path
from trainstack.live.run_views import read_launch_views_async
from trainstack.live.snapshot import read_runs
from trainstack.live.worker_clusters import WorkerClients
from trainstack.runs.launches import live_launch, utc_now
from trainstack.runs.ledgers import mounted_wrapper
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.log_merge import Cursor, merge_logs
from trainstack.runs.status.run_view import RunView

_COLORS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")
_SPAN = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in "dhms"))


def logs(
    run: RunArgument,
    stack: StackOption,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run has ended.")] = False,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Only replicas of this role: `master`, `worker`.")
    ] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Only replicas with this index, from 0.")] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="Maximum number of earlier lines per replica (default: all).")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="SPAN|TIME", help="Only lines newer than a duration (`90s`, `1h30m`) or RFC 3339 time."),
    ] = None,
) -> None:
    """Print the logs of a run's replicas, merged by time, with the replica of each line.

    --follow includes replicas that start later, continues after restarts, and reconnects without losing or repeating
    lines. For a Pod that was restarted after it had succeeded, the log of the previous attempt is included.

    Examples:
      trainstack logs digits -s dev
      trainstack logs digits-0f3c9a1b2d -s dev --follow
      trainstack logs digits -s dev --role worker --index 0 --tail 20
      trainstack logs digits -s dev --since 10m
    """
    session = Session.open(stack)
    selection = _Selection(role.lower() if role else None, index, tail, _parse_since(since))
    with quiet_interrupt():
        bodies = _read_launch_bodies(session, run)
        asyncio.run(_follow_logs(session, bodies, selection) if follow else _print_logs(session, bodies, selection))


@dataclass(frozen=True)
class _Selection:
    role: str | None
    index: int | None
    tail: int | None
    since: datetime | None


def _parse_since(since: str | None) -> datetime | None:
    if since is None:
        return None
    match = _SPAN.fullmatch(since)
    if match and since:
        days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
        try:
            return utc_now() - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            return fail(f"--since {since}: out of range; omit it to print all lines", ExitCode.USAGE)
    try:
        moment = datetime.fromisoformat(since)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return fail(
            f"--since {since}: must be a duration such as 90s or 1h30m, or a time such as 2026-01-31T12:00:00Z",
            ExitCode.USAGE,
        )


def _read_launch_bodies(session: Session, run: str) -> list[Body]:
    bodies = read_bodies(session)
    all_launches = [live_launch(body) for body in bodies]
    if not launches_named(all_launches, run):
        for ledger in ledgers_of(read_runs(session.settings).ledgers, run):
            _exit_for_deleted_pods(session, ledger.run_id, has_record=mounted_wrapper(ledger.objects) is not None)
    return bodies_of(select_launches(all_launches, run), bodies)


def _exit_for_deleted_pods(session: Session, run_id: str, *, has_record: bool) -> NoReturn:
    if has_record:
        fail(
            f"the pods of {run_id} were deleted with their logs; the run's record has a copy: "
            f"trainstack fetch {run_id} -s {session.stack}, then see results/{run_id}/logs"
        )
    fail(f"the pods of {run_id} were deleted with their logs, and an unmanaged run keeps no record")


@dataclass
class _Printer:
    labels: dict[LogSource, str] = field(default_factory=dict)
    width: int = 0

    def name(self, source: LogSource, label: str) -> None:
        self.labels[source] = label
        self.width = max(self.width, len(label))

    def print(self, source: LogSource, line: LogLine) -> None:
        label = self.labels[source]
        color = _COLORS[sorted(set(self.labels.values())).index(label) % len(_COLORS)]
        print_with_prefix(f"{label:<{self.width}} │ ", line.text, color)


def _sources(views: Sequence[RunView], selection: _Selection, printer: _Printer) -> list[LogSource]:
    """Return the selected containers, the master's first, and name them for the printer."""
    sources = []
    for view in views:
        launch_prefix = f"{view.launch.name}/" if len(views) > 1 else ""
        for pod in view.pods:
            if selection.role not in (None, pod.role) or selection.index not in (None, pod.index):
                continue
            for container in pod.containers:
                source = LogSource(view.launch.namespace, pod.name, pod.uid, container, view.cluster)
                # Init and sidecar containers are named in the label.
                suffix = "" if container == pod.main_container else f" {container}"
                printer.name(source, f"{launch_prefix}{pod.role}-{pod.index}{suffix}")
                sources.append(source)
    return sources


def _sources_of_repeated_training(views: Sequence[RunView]) -> set[LogSource]:
    """Return the containers with restartPolicy Always whose previous attempt succeeded.

    The current attempt repeats the training: the complete log is that of the previous attempt.
    """
    return {
        LogSource(view.launch.namespace, pod.name, pod.uid, pod.main_container, view.cluster)
        for view in views
        if view.launch.endless
        for pod in view.pods
        if pod.restarts and pod.last_attempt is not None and pod.last_attempt.succeeded
    }


async def _read_live_views(
    workers: WorkerClients, session: Session, bodies: Sequence[Body]
) -> tuple[list[Body], list[RunView]]:
    api = await workers.api("")
    answers = await get_all(api, [object_path(body) for body in bodies])
    live_bodies: list[Body] = [
        answers[object_path(body)].body for body in bodies if answers[object_path(body)].is_success
    ]
    is_owner = session.settings.environment.profile == "owner"
    return live_bodies, await read_launch_views_async(
        workers, live_bodies, utc_now(), cluster_wide=is_owner, with_log=False
    )


async def _print_logs(session: Session, bodies: Sequence[Body], selection: _Selection) -> None:
    workers = WorkerClients(session.settings)
    _, views = await _read_live_views(workers, session, bodies)
    printer = _Printer()
    sources = _sources(views, selection, printer)
    if not sources:
        _exit_without_logs(session, bodies, views, selection)
    logs = await read_logs(
        workers, sources, tail=selection.tail, since=selection.since, with_previous=_sources_of_repeated_training(views)
    )
    for source, line in merge_logs(logs):
        printer.print(source, line)
    if not any(logs.values()):
        for view in views:
            err.print(f"{view.launch.run_id} has no log output: {view.summary()}")


def _exit_without_logs(
    session: Session, bodies: Sequence[Body], views: Sequence[RunView], selection: _Selection
) -> None:
    """Exit with the reason why there is no log to print."""
    pods = sorted({f"{pod.role}-{pod.index}" for view in views for pod in view.pods})
    if pods:
        replica_name = "-".join(str(part) for part in (selection.role, selection.index) if part is not None)
        fail(f"the run has no replica {replica_name}; its replicas are {', '.join(pods)}")
    for view, body in zip(views, bodies, strict=False):
        if view.unreached:
            fail(view.unreached)
        if not view.pods_known:
            fail(
                f"these credentials may not read pods in namespace {view.launch.namespace}; ask its administrator for "
                "the rights to list pods and to get pods/log"
            )
        if view.launch.is_active:
            fail(f"{view.launch.run_id} has no pods yet: {view.summary()}. To wait for them, add --follow")
        ledgers = {ledger.run_id: ledger.objects for ledger in read_runs(session.settings).ledgers}
        has_record = mounted_wrapper(ledgers.get(view.launch.run_id, (body,))) is not None
        _exit_for_deleted_pods(session, view.launch.run_id, has_record=has_record)


async def _follow_logs(session: Session, bodies: Sequence[Body], selection: _Selection) -> None:
    workers = WorkerClients(session.settings)
    printer, tasks = _Printer(), dict[LogSource, asyncio.Task[None]]()
    launches = [live_launch(body) for body in bodies]
    active_names = {launch.name for launch in launches if launch.is_active}
    changes = ChangeReporter()
    retry_budget = RetryBudget(session)
    while True:
        try:
            live_bodies, views = await _read_live_views(workers, session, bodies)
        except ClusterError as error:
            retry_budget.record_failure(error)
        else:
            retry_budget.reset()
            active_names -= {view.launch.name for view in views if not view.launch.is_active}
            await _follow_new_replicas(workers, views, selection, printer, tasks)
            for view in views:
                # A launch without running pods prints nothing, so the reason is reported instead.
                if not view.pods or any(pod.problems for pod in view.pods):
                    changes.report(view.launch.name, f"{view.launch.run_id}: {view.summary()}")
            # Without the right to read pods, there is nothing to wait for.
            if not any(view.launch.is_active and view.pods_known for view in views):
                break
        await asyncio.sleep(PAUSE_SECONDS)
    await asyncio.gather(*tasks.values())
    for view in views:
        err.print(f"{view.launch.run_id}: {view.launch.phase}")
    # A run that was active and has no object any more was deleted before its result was read.
    if lost_run_ids := [
        launch.run_id for launch in launches if launch.name in active_names - {view.launch.name for view in views}
    ]:
        fail(unknown_results(session, lost_run_ids))
    if not tasks:
        _exit_without_logs(session, live_bodies or bodies, views, selection)


async def _follow_new_replicas(
    workers: WorkerClients,
    views: Sequence[RunView],
    selection: _Selection,
    printer: _Printer,
    tasks: dict[LogSource, "asyncio.Task[None]"],
) -> None:
    """Start following new replicas; --tail and --since apply only to the first ones, whose lines are merged by time."""
    for task in tasks.values():
        if task.done():
            task.result()  # raises its error
    new_sources = [source for source in _sources(views, selection, printer) if source not in tasks]
    tail, since = (None, None) if tasks else (selection.tail, selection.since)
    cursors = {source: Cursor(is_tail=tail is not None) for source in new_sources}
    for source, line in merge_logs(
        await read_logs(
            workers, new_sources, tail=tail, since=since, with_previous=_sources_of_repeated_training(views)
        )
    ):
        cursors[source].read_if_new(line)
        printer.print(source, line)
    for source in new_sources:
        if since is not None:
            cursors[source].start_at(since)
        tasks[source] = asyncio.create_task(follow_log(workers, source, cursors[source], printer.print))
