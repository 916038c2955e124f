"""`trainstack up`, `destroy` and `env`: from a checkout to a trained model, and back to nothing."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.console import err, fail, out, step
from trainstack.cli.engine import ensure_stack, environment, outputs, pulumi
from trainstack.cli.files import fetch_run
from trainstack.cli.runs import follow, launch_bodies
from trainstack.cli.same_cluster import ensure_own_objects, ensure_same_cluster
from trainstack.cli.session import Session, StackOption
from trainstack.cli.sweep_logs import TrialLogs
from trainstack.cli.sweep_slots import await_place
from trainstack.cli.transfers import data_loader
from trainstack.cli.unserved_images import ensure_pushed
from trainstack.dev.cluster import cluster
from trainstack.dev.cluster.errors import ClusterError as LocalClusterError
from trainstack.dev.cluster.images import ensure_images, git, helpers, operators, workload
from trainstack.dev.toolchain import tools
from trainstack.dev.toolchain.digests import sha256
from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.live.client import ClusterError, reach
from trainstack.live.snapshot import read_runs
from trainstack.live.sweeps import read_sweep
from trainstack.preflight.preflight import check
from trainstack.reports.errors import ReportError
from trainstack.reports.runs import read_metrics
from trainstack.runs.launches import live_launch
from trainstack.settings.sections.workloads import Workload
from trainstack.stacks.teardown_mode import permission
from trainstack.sweeps.status import live_trials
from trainstack.transfer.upload import upload as upload_folder

_TRAINING_SECONDS = 24 * 3600
_MANIFEST = "manifest.json"
_UP = ("up", "--yes", "--skip-preview", "--refresh", "--suppress-outputs")


def up(
    *,
    stack: StackOption = "dev",
    wait: Annotated[bool, typer.Option(help="Follow the runs to their end and fetch their results.")] = True,
) -> None:
    """Bring an environment up, follow its runs, fetch their results. Running it again does no work twice.

    Without KUBECONFIG the local cluster is started and used; with it, that cluster.

    Examples:

      trainstack up -s dev

      trainstack up -s dev --no-wait

      KUBECONFIG=~/.kube/config trainstack up -s dev
    """
    session = Session.open(stack)
    settings = session.settings
    try:
        tools.ensure(tools.needed_groups(local_cluster=session.local))
        findings = check(settings, session.root, session.loaded.places)
        faults = [str(each) for each in findings if each.stops]
        if faults:
            fail("\n".join(faults))
        if session.local:
            _local_cluster(session)
        # The engine refreshes before the program looks: without a cluster it would say so once for every object.
        reach(settings.cluster.context)
        ensure_stack(session)
        ensure_same_cluster(session)
        ensure_pushed(session)
        with step(f"pulumi up -s {stack}", "80 s the first time, 15 s later"):
            pulumi(session, *_UP)
        if wait:
            _bring_data(session)
            _launch_trials(session)
            follow(session, None, _TRAINING_SECONDS)
            _launch_dependents(session)
            _results(session)
    except (ToolchainError, LocalClusterError, ClusterError, ReportError) as error:
        fail(str(error))


def destroy(
    *,
    stack: StackOption = "dev",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take an environment down for now. What its settings retain (volumes, definitions) stays, and is named.

    Refused as long as they protect a volume. For good, and with a look at who else uses it: `trainstack teardown`.

    Examples:

      trainstack destroy -s dev
    """
    session = Session.open(stack)
    context = session.settings.cluster.context
    try:
        reach(context)
        ensure_same_cluster(session)
        ensure_own_objects(session)
        state = outputs(session)
        if protected := state.get("protected"):
            fail(
                f"{stack} holds what is protected, so nothing of it is destroyed: {', '.join(protected)}; if it is to "
                f"go, set `protect: false` in Pulumi.{stack}.yaml, run `trainstack up -s {stack}`, and destroy then"
            )
        if not yes:
            typer.confirm(f"Destroy everything of {stack} but what it retains?", abort=True, err=True)
        # The state names hooks, without which the engine destroys nothing; here they do nothing.
        words = ("destroy", "--yes", "--skip-preview", "--run-program")
        with permission(session.root, stack, "destroy") as variables:
            pulumi(session, *words, variables=variables)
    except (ToolchainError, ClusterError) as error:
        fail(str(error))
    for each in state.get("retained", []):
        out.print(f"stays: {each}", markup=False)


def env(stack: StackOption = "dev") -> None:
    """Print the variables that make plain `pulumi` and `kubectl` work on an environment.

    Examples:

      eval "$(.venv/bin/trainstack env -s dev)"
    """
    session = Session.open(stack)
    try:
        variables = environment(session)
        if session.local:
            variables["PATH"] = f"{tools.program('kubectl').parent}:{variables['PATH']}"
        ensure_stack(session)
    except ToolchainError as error:
        fail(str(error))
    # The virtual environment's own programs too: `trainstack` is among what the outputs tell a person to type.
    variables["PATH"] = f"{session.root / '.venv' / 'bin'}:{variables['PATH']}"
    for name, value in sorted(variables.items()):
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


def _local_cluster(session: Session) -> None:
    def report(line: str) -> None:
        err.print(f"  {line}", markup=False)

    with step("local cluster", "10 s"):
        running = cluster.up(session.cluster_state, None, report)
    runs = [run for _, run in session.settings.trained()]
    builds = sorted({run.image.build for run in runs if run.image.build is not None})
    installed = session.settings.operators.installs
    recipes = [*operators(installed), *helpers(), *(workload(session.root / build) for build in builds)]
    if any(run.code is not None for run in runs):
        recipes.append(git())
    with step("images", "2 minutes the first time, 1 s later"):
        ensure_images(recipes, running.registry, report)


def _bring_data(session: Session) -> None:
    """Fill the volumes that runs wait for, where the environment says how."""
    # A run's id is its workload's name and 10 hex.
    launches = map(live_launch, launch_bodies(session, None))
    waiting = {launch.run_id.rpartition("-")[0] for launch in launches if launch.active}
    for _, run in session.settings.trained():
        if run.data is not None and run.data.prepare and run.name in waiting:
            _bring(session, run, run.data.prepare)


def _bring(session: Session, run: Workload, prepare: str) -> None:
    if run.data is None:
        raise AssertionError
    folder = session.state / "data" / run.name
    with step(f"preparing the data of {run.name}", "3 s"):
        done = subprocess.run([sys.executable, "-m", prepare, str(folder)], cwd=session.root, check=False)
        if done.returncode:
            fail(f"`python -m {prepare}` ended with {done.returncode}; what it printed above says why")
    committed = sha256(session.root / run.data.manifest)
    made = sha256(folder / _MANIFEST) if (folder / _MANIFEST).is_file() else "none"
    if made != committed:
        fail(
            f"`python -m {prepare}` did not make the data that {run.name} waits for: the {_MANIFEST} in {folder} has "
            f"sha256 {made}, {run.data.manifest} has {committed}. Nothing was sent. If the data is meant to be other "
            f"data, copy that {_MANIFEST} over {run.data.manifest}, which is then another run; else correct {prepare}"
        )
    with data_loader(session.settings, run.namespace, run.data.volume) as loader, step("bringing it to the volume"):
        # It sends what differs, so also the rest of what an interrupted upload, or an older data set, left there.
        upload_folder(loader, folder, run.data.path, last=_MANIFEST)


def _launch_trials(session: Session) -> None:
    """Launch the trials that wait for others of their sweep to end, as soon as one has."""
    sweeps = session.settings.sweeps.sweeps
    caps = {each.name: each.parallelism for each in sweeps if each.form == "jobs" and each.parallelism is not None}
    waiting = outputs(session).get("waitingTrials", {}) if caps else {}
    while waiting:
        await_place(session, {name: caps[name] for name in waiting}, _TRAINING_SECONDS)
        with step(f"pulumi up -s {session.stack}: trials of {', '.join(waiting)} have a place", "15 s"):
            pulumi(session, *_UP)
        left = outputs(session).get("waitingTrials", {})
        if left == waiting:
            return
        waiting = left


def _launch_dependents(session: Session) -> None:
    """Launch the runs and sweeps that depended on others, as long as those end well."""
    if not any(run.depends_on for _, run in session.settings.trained()):
        return
    waiting = outputs(session).get("waiting", {})
    while waiting:
        with step(f"pulumi up -s {session.stack}: {', '.join(waiting)} depended on others", "15 s"):
            pulumi(session, *_UP)
        left = outputs(session).get("waiting", {})
        if left == waiting:
            for run, others in left.items():
                out.print(f"{run} is not launched yet: it depends on {', '.join(others)}", style="yellow")
            return
        _bring_data(session)
        _launch_trials(session)
        follow(session, None, _TRAINING_SECONDS)
        waiting = left


def _results(session: Session) -> None:
    for each in session.settings.sweeps.sweeps:
        if not each.run.managed:
            # Their logs go with the pods.
            objects = read_sweep(session.settings, each.name)
            TrialLogs(session, each).outcomes(objects, live_trials(objects), running=False)
    ledgers = read_runs(session.settings).ledgers
    for sweep in sorted({ledger.sweep for ledger in ledgers if ledger.sweep}):
        out.print(f"\n{sweep}", style="bold")
        out.print(f"  results        trainstack sweep results {sweep} -s {session.stack}", markup=False)
    for ledger in ledgers:
        record = None if ledger.sweep else fetch_run(session, ledger)
        if record is None:
            continue
        metrics = (read_metrics(record) or [{}])[-1]
        out.print(f"\n{ledger.run_id}", style="bold")
        if "test_accuracy" in metrics:
            out.print(f"  test accuracy  {metrics['test_accuracy']:.4f}")
        for what, name in (("model", "result/model.pt"), ("metrics", "result/metrics.jsonl"), ("record", "run.json")):
            if (record / name).is_file():
                out.print(f"  {what:<13}  {_shown(record / name)}", markup=False)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
