import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.cluster_in_use import ensure_intended_cluster
from trainstack.cli.commands.preview import show_preview
from trainstack.cli.drift import refresh_options
from trainstack.cli.engine import deployment, ensure_backend, ensure_stack, outputs, pulumi
from trainstack.cli.ensure_tools import ensure_tools
from trainstack.cli.follow import follow
from trainstack.cli.output.console import (
    confirm,
    copy_errors,
    copy_output,
    ensure_confirmable,
    err,
    fail,
    out,
    report,
    step,
)
from trainstack.cli.output.copied_output import run_and_copy
from trainstack.cli.run_records import Bodies, UnknownClusterError, body_reader, fetch_run
from trainstack.cli.run_selection import launch_bodies
from trainstack.cli.same_cluster import ensure_same_cluster
from trainstack.cli.session import Session, StackOption
from trainstack.cli.sweep_logs import TrialLogs
from trainstack.cli.sweep_slots import await_slot
from trainstack.cli.transfers import data_loader
from trainstack.cli.unserved_images import ensure_images_pushed
from trainstack.errors import ExitCode
from trainstack.live.client import reach
from trainstack.live.snapshot import read_runs
from trainstack.live.sweeps import read_sweep
from trainstack.live.worker_clusters import settings_of_worker
from trainstack.local_cluster import drivers
from trainstack.local_cluster.images import ensure_images, git, helpers, operators, workload
from trainstack.preflight.file_checks import check
from trainstack.reports.errors import ReportError
from trainstack.reports.run_figures import read_metrics
from trainstack.runs.launches import live_launch
from trainstack.runs.ledgers import Ledger
from trainstack.settings.sections.workloads import Data, Workload
from trainstack.sweeps.status import live_trials
from trainstack.toolchain.digests import sha256
from trainstack.transfer.errors import DamagedRecordError
from trainstack.transfer.upload import upload as upload_folder

_TRAINING_SECONDS = 24 * 3600
_MANIFEST = "manifest.json"
_UP = ("up", "--yes", "--skip-preview", "--suppress-outputs")


def up(
    *,
    stack: StackOption,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Neither preview the change nor ask for confirmation.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Follow the runs until they have ended, and fetch their results.")] = True,
) -> None:
    """Deploy an environment, follow its runs and fetch their results.

    Shows what will change, and asks for confirmation. Repeating the command repeats no work. Uses the cluster of the
    kubeconfig; starts the local cluster if the environment uses it.

    Examples:
      trainstack up -s dev
      trainstack up -s dev --yes --no-wait
      KUBECONFIG=~/.kube/config trainstack up -s dev
    """
    ensure_confirmable(yes=yes)
    session = Session.open(stack)
    settings = session.settings
    ensure_backend(session)
    ensure_intended_cluster(settings)
    findings = check(settings, session.root, session.loaded.places)
    if faults := [str(finding) for finding in findings if finding.is_blocking]:
        fail("\n".join(faults), ExitCode.REFUSED)
    if not session.is_local:
        # Before anything is built, which takes minutes.
        reach(settings.cluster.context)
        ensure_images_pushed(session)
    else:
        drivers.check_machine(session.cluster_folder)
    ensure_tools(session, kubectl=wait, local_cluster=session.is_local)
    if session.is_local:
        _start_local_cluster(session)
        # The engine refreshes first: without a cluster it would report an error for every object.
        reach(settings.cluster.context)
        ensure_images_pushed(session)
    state = deployment(session)
    ensure_same_cluster(session, state)
    refresh = refresh_options(session, state)
    if not yes:
        show_preview(session, *refresh, has_state=state is not None)
        confirm(f"Deploy {stack}?", yes=yes)
        # The answer may have taken a while.
        refresh = refresh_options(session, deployment(session))
    if state is None:
        ensure_stack(session)
    with step(f"pulumi up -s {stack}", "40 s the first time, 5 s later"):
        pulumi(session, *_UP, *refresh)
    if wait:
        _upload_data(session)
        _launch_trials(session)
        follow(session, None, _TRAINING_SECONDS)
        _launch_dependents(session)
        _fetch_results(session)


def _start_local_cluster(session: Session) -> None:
    with step("local cluster", "10 s, with kind 30 s"):
        cluster = drivers.up(session.cluster_folder, None, report)
    runs = [run for _, run in session.settings.runs_and_trials()]
    builds = sorted({run.image.build for run in runs if run.image.build is not None})
    installs = session.settings.operators.installs
    recipes = [*operators(installs), *helpers(), *(workload(session.root / build) for build in builds)]
    if any(run.code is not None for run in runs):
        recipes.append(git())
    with step("images", "2 minutes the first time, 1 s later"):
        ensure_images(recipes, cluster.registry, report)


def _upload_data(session: Session) -> None:
    launches = map(live_launch, launch_bodies(session, None))
    active_workloads = {launch.workload_name for launch in launches if launch.is_active}
    for _, run in session.settings.runs_and_trials():
        if run.data is not None and run.data.prepare and run.name in active_workloads:
            _prepare_and_upload(session, run, run.data, run.data.prepare)


def _prepare_and_upload(session: Session, run: Workload, data: Data, prepare: str) -> None:
    folder = session.private_folder / "data" / run.name
    if not _is_complete(folder, session.root / data.manifest):
        _make_data(session, run, data, prepare, folder)
    settings = session.settings
    workers = settings.queues.worker_clusters(run.namespace, run.queue)
    for cluster_settings in [settings_of_worker(settings, worker) for worker in workers] or [settings]:
        with data_loader(cluster_settings, run.namespace, data.volume) as loader, step("uploading it to the volume"):
            # Sends only differences, also after an interrupted upload or over an older data set.
            upload_folder(loader, folder, data.path, last_file=_MANIFEST)


def _is_complete(folder: Path, committed_manifest: Path) -> bool:
    """Return whether a folder has the committed manifest and each file in it, so that no data has to be prepared."""
    try:
        text = (folder / _MANIFEST).read_bytes()
        files = json.loads(text)["files"]
        return text == committed_manifest.read_bytes() and all(
            sha256(folder / name) == entry["sha256"] for name, entry in files.items()
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _make_data(session: Session, run: Workload, data: Data, prepare: str, folder: Path) -> None:
    with step(f"preparing the data of {run.name}", "3 s"):
        command = [sys.executable, "-m", prepare, str(folder)]
        if code := run_and_copy(command, session.root, os.environ, copy_output, copy_errors):
            fail(f"`python -m {prepare}` exited with code {code}; see its output above")
    committed_digest = sha256(session.root / data.manifest)
    made_digest = sha256(folder / _MANIFEST) if (folder / _MANIFEST).is_file() else "none"
    if made_digest != committed_digest:
        fail(
            f"`python -m {prepare}` did not produce the data that {run.name} expects: the sha256 of {_MANIFEST} in "
            f"{folder} is {made_digest}, that of {data.manifest} is {committed_digest}. Nothing was uploaded. If the "
            f"data has changed on purpose, copy {_MANIFEST} to {data.manifest}, which makes it another run; else fix "
            f"{prepare}"
        )


def _launch_trials(session: Session) -> None:
    """Launch the waiting trials of sweeps with a `parallelism`, whenever a trial has ended."""
    sweeps = [sweep for sweep in session.settings.sweeps.sweeps if sweep.form == "jobs"]
    parallelism = {sweep.name: sweep.parallelism for sweep in sweeps if sweep.parallelism is not None}
    waiting_trials = outputs(session).get("waitingTrials", {}) if parallelism else {}
    while waiting_trials:
        await_slot(session, {name: parallelism[name] for name in waiting_trials}, _TRAINING_SECONDS)
        with step(f"pulumi up -s {session.stack}: free slots in {', '.join(waiting_trials)}", "15 s"):
            _up_again(session)
        still_waiting = outputs(session).get("waitingTrials", {})
        if still_waiting == waiting_trials:
            return
        waiting_trials = still_waiting


def _launch_dependents(session: Session) -> None:
    has_dependents = any(run.depends_on for _, run in session.settings.runs_and_trials())
    waiting_runs = outputs(session).get("waiting", {}) if has_dependents else {}
    while waiting_runs:
        with step(f"pulumi up -s {session.stack}: dependencies of {', '.join(waiting_runs)} have ended", "15 s"):
            _up_again(session)
        still_waiting = outputs(session).get("waiting", {})
        if still_waiting == waiting_runs:
            for run, dependencies in still_waiting.items():
                out.print(f"{run} is not launched yet: it depends on {', '.join(dependencies)}", style="yellow")
            return
        _upload_data(session)
        _launch_trials(session)
        follow(session, None, _TRAINING_SECONDS)
        waiting_runs = still_waiting


def _up_again(session: Session) -> None:
    pulumi(session, *_UP, *refresh_options(session, deployment(session)))


def _fetch_results(session: Session) -> None:
    for sweep in session.settings.sweeps.sweeps:
        if not sweep.run.managed:
            # Their logs are deleted with the pods.
            objects = read_sweep(session.settings, sweep.name)
            TrialLogs(session, sweep).outcomes(objects, live_trials(objects), include_running=False)
    ledgers = read_runs(session.settings).ledgers
    for name in sorted({ledger.sweep for ledger in ledgers if ledger.sweep}):
        out.print(f"\n{name}", style="bold")
        out.print(f"  results        trainstack sweep results {name} -s {session.stack}")
    read_live_bodies = body_reader(session)
    faults = [
        fault for ledger in ledgers if not ledger.sweep and (fault := _fetch_result(session, ledger, read_live_bodies))
    ]
    if faults:
        fail("\n".join(faults))


def _fetch_result(session: Session, ledger: Ledger, read_live_bodies: Callable[[], Bodies]) -> str:
    """Fetch and show a run's record; return an error instead of raising it, so that the other runs are shown too."""
    try:
        record_folder = fetch_run(session, ledger, read_live_bodies)
        metrics = (read_metrics(record_folder) or [{}])[-1] if record_folder else {}
    except UnknownClusterError as error:
        err.print(str(error), style="yellow")
        return ""
    except (DamagedRecordError, ReportError) as error:
        return str(error)
    if record_folder is not None:
        out.print(f"\n{ledger.run_id}", style="bold")
        if "test_accuracy" in metrics:
            out.print(f"  test accuracy  {metrics['test_accuracy']:.4f}")
        for label, name in (("model", "result/model.pt"), ("metrics", "result/metrics.jsonl"), ("record", "run.json")):
            if (record_folder / name).is_file():
                out.print(f"  {label:<13}  {_relative(record_folder / name)}")
    return ""


def _relative(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
