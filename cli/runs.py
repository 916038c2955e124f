"""`trainstack status`, `wait` and `logs`: what the runs are doing."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from checks.cluster.client import ClusterError
from checks.cluster.progress import RunView, view_runs
from checks.cluster.snapshot import read_launches, run_namespaces
from cli.console import err, fail, out, show_json
from cli.kubectl import command
from cli.session import JsonOption, Session, StackOption
from manifests.labels import LAUNCH

_PAUSE_SECONDS = 1.0
_PATIENCE_SECONDS = 300
"""How long a cluster that does not answer is waited for; a control plane's upgrade takes minutes."""

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id or its beginning, or a workload's name.")]


def views(session: Session) -> list[RunView]:
    """Every launch of the environment, as it is now. Ends the command when the cluster does not answer."""
    try:
        return _look(session)
    except ClusterError as error:
        return fail(str(error))


def _look(session: Session) -> list[RunView]:
    settings = session.settings
    bodies = read_launches(settings.stack, run_namespaces(settings), settings.cluster.context)
    return view_runs(bodies, settings.cluster.context)


def chosen(all_views: Sequence[RunView], run: str | None) -> list[RunView]:
    """The launches of one run, or all."""
    if run is None:
        return list(all_views)
    # `digits` is every run of that workload, and none of `digits-small`.
    found = [view for view in all_views if view.launch.run_id.rpartition("-")[0] == run]
    found = found or [view for view in all_views if view.launch.run_id.startswith(run)]
    if not found:
        known = ", ".join(sorted({view.launch.run_id for view in all_views})) or "none"
        fail(f"no run {run!r} has an object in the cluster (there are: {known}); its record is on its volume")
    return found


def table(found: Sequence[RunView]) -> Table:
    """The launches for a person."""
    result = Table(box=None, pad_edge=False)
    for column in ("RUN", "KIND", "STATE", "DONE", "WHAT"):
        result.add_column(column, overflow="fold")
    for view in found:
        done = view.done_fraction
        result.add_row(
            view.launch.run_id,
            view.launch.kind,
            view.launch.phase,
            "" if done is None else f"{done:.0%}",
            view.summary(),
        )
    return result


def status(
    *,
    stack: StackOption = "dev",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep looking until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show each run: its state, why it waits, how far it is.

    Examples:
      trainstack status -s dev
      trainstack status -s dev --watch
      trainstack status -s dev --json
    """
    session = Session.open(stack)
    if as_json:
        show_json([asdict(view) | {"done": view.done_fraction} for view in views(session)])
        return
    if not watch:
        found = views(session)
        out.print(table(found) if found else f"no run of {stack} has an object in the cluster")
        return
    with Live(console=out, auto_refresh=False) as live:
        while True:
            live.update(table(views(session)), refresh=True)
            time.sleep(_PAUSE_SECONDS)


def wait(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run's id or its beginning; none: all.")] = None,
    stack: StackOption = "dev",
    timeout: Annotated[int, typer.Option(help="Seconds to wait at most.")] = 24 * 3600,
) -> None:
    """Wait until a run, or all of them, has ended; fail when one did.

    Examples:
      trainstack wait -s dev
      trainstack wait digits-0f3c9a1b2d -s dev --timeout 600
    """
    follow(Session.open(stack), run, timeout)


def _look_patiently(session: Session) -> list[RunView]:
    """The launches, as soon as the cluster answers. Ends the command when it does not for long."""
    end = time.monotonic() + _PATIENCE_SECONDS
    said = ""
    while True:
        try:
            return _look(session)
        except ClusterError as error:
            if time.monotonic() > end:
                fail(f"{error}; the runs go on without us. Look again with: trainstack status -s {session.stack}")
            if said != str(error):
                said = str(error)
                err.print(f"  {error}; asking again", markup=False)
            time.sleep(_PAUSE_SECONDS)


def _ending(session: Session, found: list[RunView], run: str | None) -> list[RunView]:
    """Those launches that end by themselves: a data loader without a command only waits to be used."""
    runs = session.settings.workloads.runs
    loaders = {each.name for each in runs if each.kind == "DataLoader" and not each.command}
    left = [view for view in found if view.launch.run_id.rpartition("-")[0] not in loaders]
    if run is not None and not left:
        fail(f"{run} is a data loader: it waits until it is deleted, or its deadline ends it")
    return left


def follow(session: Session, run: str | None, timeout: int) -> list[RunView]:
    """Show every change until all chosen launches have ended. Ends the command when one failed or time is up.

    A cluster that does not answer for a while is told once and asked again. A data loader only waits to be used, so
    nobody waits for it.
    """
    end = time.monotonic() + timeout
    said: dict[str, str] = {}
    while True:
        found = _ending(session, chosen(_look_patiently(session), run), run)
        for view in found:
            done = view.done_fraction
            line = f"{view.launch.run_id}: {'' if done is None else f'{done:.0%} '}{view.summary()}"
            if said.get(view.launch.name) != line:
                said[view.launch.name] = line
                err.print(f"  {line}", markup=False)
        if not any(view.launch.active for view in found):
            break
        if time.monotonic() > end:
            fail(
                f"not ended within {timeout} s; it goes on in the cluster. Look again with: "
                f"trainstack status -s {session.stack}"
            )
        time.sleep(_PAUSE_SECONDS)
    failed = [view for view in found if view.launch.phase == "failed"]
    if failed:
        reasons = [
            f"{view.launch.run_id} ({view.conditions[-1].reason if view.conditions else 'no reason given'})"
            for view in failed
        ]
        fail(f"failed: {', '.join(reasons)}. Read why: trainstack logs {failed[0].launch.run_id} -s {session.stack}")
    return found


def logs(
    run: RunArgument,
    stack: StackOption = "dev",
    *,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Keep following.")] = False,
) -> None:
    """Print the logs of a run's pods, each line with its pod's name.

    Examples:
      trainstack logs digits -s dev
      trainstack logs digits-0f3c9a1b2d -s dev --follow
    """
    session = Session.open(stack)
    for view in chosen(views(session), run):
        launch = view.launch
        words = ["logs", "-n", launch.namespace, "-l", f"{LAUNCH}={launch.launch}", "--all-containers", "--prefix"]
        # A container that has not started yet, or never will, has no log, and the others' are shown all the same.
        words += ["--tail=-1", "--max-log-requests=50", "--ignore-errors", *(["--follow"] if follow_ else [])]
        if subprocess.run(command(*words, context=session.settings.cluster.context), check=False).returncode:
            fail(
                f"the logs of {launch.name} cannot be read. If the run is recorded, its record holds them: "
                f"trainstack fetch {launch.run_id} -s {session.stack}"
            )
