import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainstack.cli.output.console import (
    FILE_WIDTH,
    age,
    duration,
    err,
    make_fact_table,
    make_table,
    make_text,
    out,
    quiet_interrupt,
    report_in,
    show,
    show_json,
)
from trainstack.cli.retries import PAUSE_SECONDS, RetryBudget
from trainstack.cli.run_options import OptionalRun, WatchOption, ensure_one_output
from trainstack.cli.run_views import as_data, leave_out_loaders, read_run_views, split_off_earlier
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.runs.launches import utc_now
from trainstack.runs.logs.training_progress import TrainingProgress
from trainstack.runs.status.run_view import ClaimUse, RunView
from trainstack.runs.status.usage import ResourceUse

_STYLES = {"queued": "yellow", "running": "cyan", "succeeded": "green", "failed": "red"}
_DETAILS_WIDTH = 120
"""Columns of the details in a file or pipe."""
_WIDE_TERMINAL = 140
"""Columns of a terminal that has room for the column WHAT; else its texts are printed below the table."""


def status(
    run: OptionalRun = None, *, stack: StackOption, watch: WatchOption = False, as_json: JsonOption = False
) -> None:
    """Show the state, queue position, reason for waiting and progress of all runs; with RUN, its details.

    Of the runs that have ended, the table has the last 20.

    Examples:
      trainstack status -s dev
      trainstack status digits -s dev
      trainstack status -s dev --watch
      trainstack status -s dev --json
    """
    session = Session.open(stack)
    ensure_one_output(watch=watch, as_json=as_json)
    if as_json:
        show_json([as_data(view) for view in read_run_views(session, run, with_usage=True)])
        return
    with quiet_interrupt():
        if watch:
            _watch(session, run)
            return
        views = read_run_views(session, run, with_usage=run is not None)
        for part in _render(views, stack, run):
            show(part, width=FILE_WIDTH if run is None else _DETAILS_WIDTH)


def _render(views: Sequence[RunView], stack: str, run: str | None) -> list[RenderableType]:
    now = utc_now()
    if run is not None:
        return [details_of_run(view, now) for view in views]
    if not views:
        return [f"no run of {stack} has an object in the cluster"]
    shown_views, earlier_views = split_off_earlier(views)
    lost_clusters = {view.cluster: view.lost for view in shown_views if view.lost}
    return [
        table_of_runs(shown_views, now),
        *([_count_earlier(earlier_views)] if earlier_views else []),
        *(make_text(_describe_lost_cluster(cluster, reason), "yellow") for cluster, reason in lost_clusters.items()),
    ]


def _describe_lost_cluster(cluster: str, reason: str) -> str:
    return (
        f"Kueue does not reach worker cluster {cluster} ({reason}). Restore the connection, or the Secret with its "
        "kubeconfig. If the queue has another connected cluster, Kueue dispatches the run there after "
        "workerLostTimeout (by default 15 min); it finds its checkpoints only on the same volume."
    )


def _count_earlier(earlier_views: Sequence[RunView]) -> Text:
    """Count the ended runs that are left out of the table."""
    phases = Counter(view.launch.phase for view in earlier_views)
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items(), reverse=True))
    number = "1 run" if len(earlier_views) == 1 else f"{len(earlier_views)} runs"
    return Text(f"Not shown: {number} that ended earlier ({counts}). `--json` has all.", style="dim")


def _watch(session: Session, run: str | None) -> None:
    """Redraw until every run except data loaders has ended, then print how they ended."""
    with Live(console=out, auto_refresh=False) as live:
        retry_budget = RetryBudget(session, report=lambda line: report_in(live, line))
        last_views: dict[str, RunView] = {}
        while True:
            views = retry_budget.retry(lambda: read_run_views(session, run, with_usage=run is not None))
            live.update(Group(*_render(views, session.stack, run)), refresh=True)
            finite_views = leave_out_loaders(session, views)
            last_views |= {view.launch.name: view for view in finite_views}
            if not any(view.launch.is_unfinished for view in finite_views):
                break
            time.sleep(PAUSE_SECONDS)
    err.print(_count_results(list(last_views.values())))


def _count_results(last_views: Sequence[RunView]) -> str:
    """Count the results; a run that was last seen active was deleted since."""
    phases = [
        "deleted before its result was known" if view.launch.is_unfinished else _describe_result(view)
        for view in last_views
    ]
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(Counter(phases).items(), reverse=True))
    return f"all have ended: {counts}" if counts else "no run is left to wait for"


def _describe_result(view: RunView) -> str:
    return "completed, and restarted by its policy" if view.launch.completed else view.launch.phase


def table_of_runs(views: Sequence[RunView], now: datetime) -> RenderableType:
    """Draw a row for each run; on a narrow terminal, the texts of WHAT follow the table."""
    is_wide = not out.is_terminal or out.width >= _WIDE_TERMINAL
    rows = []
    for view in views:
        launch = view.launch
        seconds_left = view.progress.seconds_left if view.progress else None
        cells: list[str | Text] = [
            launch.run_id,
            launch.kind,
            Text(launch.phase, style=_STYLES[launch.phase]),
            view.queue or "",
            "" if view.position is None else str(view.position),
            _format_progress(view),
            "" if seconds_left is None else duration(seconds_left),
            age(launch.created, now),
        ]
        rows.append([*cells, *([_explain_state(view)] if is_wide else [])])
    head = ("RUN", "KIND", "STATE", "QUEUE", "POS", "DONE", "LEFT", "AGE", *(("WHAT",) if is_wide else ()))
    main_table = make_table(head, rows, fold=("WHAT",))
    texts = {view.launch.run_id: _explain_state(view) for view in views if _explain_state(view)}
    if is_wide or not texts:
        return main_table
    records = [((make_text(run_id),), [("", text)]) for run_id, text in texts.items()]
    return Group(main_table, "", make_fact_table(("",), records))


def _format_progress(view: RunView) -> str:
    """Format the progress over all epochs, `42%`; if their number is unknown, over the current one, `1% of epoch 2`."""
    progress, done_fraction = view.progress, view.done_fraction
    if done_fraction is not None:
        return f"{done_fraction:.0%}"
    if progress is None:
        return ""
    epoch = "the epoch" if progress.epoch is None else f"epoch {progress.epoch}"
    return f"{progress.epoch_fraction:.0%} of {epoch}"


def _explain_state(view: RunView) -> str:
    return view.waits_because if view.launch.phase == "queued" else view.summary().removeprefix(view.launch.phase)[2:]


def details_of_run(view: RunView, now: datetime) -> Panel:
    launch = view.launch
    facts = Table.grid(padding=(0, 2))
    facts.add_row("launch", f"{launch.kind} {launch.namespace}/{launch.name}")
    facts.add_row("created", f"{age(launch.created, now)} ago")
    facts.add_row("queue", _describe_queue(view))
    optional_facts = {
        "started": f"{_format_utc(view.started)}, {age(view.started, now)} ago" if view.started else "",
        "completed": _describe_completion(view),
        "cluster": view.cluster,
        "lost": _describe_lost_cluster(view.cluster, view.lost) if view.lost else "",
        "waits": view.waits_because,
        "failed": view.failure,
        "end": "none: restartPolicy Always restarts it whenever it has ended" if launch.endless else "",
        "restarts": view.restart_summary,
        "last line": view.last_line,
    }
    for name, value in optional_facts.items():
        if value:
            facts.add_row(name, value)
    parts: list[RenderableType] = [facts]
    if view.done_fraction is not None or view.progress is not None:
        parts.append(_progress_bar(view))
    parts += _sections(view, now)
    title = Text.assemble(make_text(launch.run_id), " ", (launch.phase, _STYLES[launch.phase]))
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim")


def _describe_queue(view: RunView) -> str:
    if view.queue is None:
        return "none: the run is not managed by Kueue"
    position = "" if view.position is None else f", position {view.position}"
    position += " (0 is next)" if isinstance(view.position, int) else ""
    return f"{view.queue}{position}{', admitted' if view.admitted else ''}"


def _progress_bar(view: RunView) -> Table:
    progress, fraction, label = view.progress, view.done_fraction, "done"
    if fraction is None and progress is not None:
        fraction, label = progress.epoch_fraction, "epoch"
    texts = [f"{fraction or 0:.0%}"]
    if progress is not None:
        texts += _position_texts(progress)
        texts += [f"about {duration(progress.seconds_left)} left"] if progress.seconds_left is not None else []
    grid = Table.grid(padding=(0, 2))
    grid.add_row(label, ProgressBar(total=1, completed=fraction or 0, width=30), "  ".join(texts))
    return grid


def _position_texts(progress: TrainingProgress) -> list[str]:
    texts = []
    if progress.epoch is not None:
        texts.append(f"epoch {progress.epoch}" + ("" if progress.epochs is None else f"/{progress.epochs}"))
    if progress.step is not None:
        texts.append(f"step {progress.step}/{progress.steps}")
    if progress.rows is not None:
        texts.append(f"row {progress.rows}/{progress.rows_of_epoch}")
    return texts


def _section(title: str, head: str, rows: Iterable[Iterable[str]]) -> Table:
    table = make_table(head.split(), rows, fold=head.split())
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    return table


def _describe_completion(view: RunView) -> str:
    if view.completed is None:
        return ""
    duration_note = f", after {age(view.started, view.completed)}" if view.started else ""
    return f"{_format_utc(view.completed)}{duration_note}"


def _format_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _sections(view: RunView, now: datetime) -> Iterator[RenderableType]:
    replicas = ((role.role, *map(str, (role.active, role.succeeded, role.failed, role.of))) for role in view.replicas)
    yield _section("Replicas", "ROLE ACTIVE SUCCEEDED FAILED OF", replicas)
    conditions = (
        (
            condition.type,
            condition.status,
            f"{age(condition.since, now)} ago" if condition.since else "",
            condition.reason,
            condition.message,
        )
        for condition in view.conditions
    )
    yield _section("Conditions", "TYPE STATUS SINCE REASON MESSAGE", conditions)
    if view.pods:
        pods = ((pod, *_format_use(view.pod_use.get(pod.name))) for pod in view.pods)
        cells = (
            (
                f"{pod.role}-{pod.index}",
                pod.name,
                pod.phase,
                pod.node,
                cpu,
                memory,
                str(pod.restarts),
                "; ".join(pod.problems),
            )
            for pod, cpu, memory in pods
        )
        yield _section("Pods", "REPLICA POD PHASE NODE CPU MEMORY RESTARTS PROBLEM", cells)
    elif view.unreached:
        yield view.unreached
    elif not view.pods_known:
        yield Text("These credentials may not read pods; ask the namespace's administrator for that right.")
    if view.node_use:
        nodes = ((name, *_format_use(use)) for name, use in view.node_use.items())
        yield _section("Nodes, including other pods", "NODE CPU MEMORY", nodes)
    if view.claims:
        claims = ((claim.name, claim.phase, claim.requested, _format_used_bytes(claim)) for claim in view.claims)
        yield _section("Volumes", "CLAIM PHASE REQUESTED USED", claims)


def _format_use(use: ResourceUse | None) -> tuple[str, str]:
    """Format cores and memory; empty if no metrics are available."""
    return (f"{use.cpu_cores:.2f}", f"{use.memory_bytes / 2**30:.2f}Gi") if use else ("", "")


def _format_used_bytes(claim: ClaimUse) -> str:
    return claim.used_bytes if claim.used_bytes == "unknown" else f"{claim.used_bytes / 2**30:.2f}Gi"
