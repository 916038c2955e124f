import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table

from trainstack.cli.check_cluster import build_manifests
from trainstack.cli.engine import StateRefusedError, ensure_backend, export
from trainstack.cli.output.console import err, fail, make_fact_table, make_text, out, show_json, show_tables
from trainstack.cli.releases import settings_with_downloads
from trainstack.cli.same_cluster import cluster_refusal
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.errors import ExitCode
from trainstack.lifecycle.recovery.diagnosis import Diagnosis, diagnose, diagnose_files, diagnose_refused
from trainstack.lifecycle.recovery.integrity import StateFault, find_state_faults, parse_engine_fault
from trainstack.lifecycle.recovery.loaders import WaitingLoader, find_waiting_loaders
from trainstack.lifecycle.recovery.local_files import local_file_problems
from trainstack.lifecycle.recovery.lock_problems import StateFiles
from trainstack.lifecycle.recovery.object_problems import LiveObjects
from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.restore_advice import Backup
from trainstack.lifecycle.recovery.state import EngineState, read_state
from trainstack.lifecycle.recovery.state_files import has_usable_backup, read_state_files, state_file, state_folder
from trainstack.live.client import ClusterError
from trainstack.live.labeled_objects import read_labeled_objects
from trainstack.live.loaders import read_loaders
from trainstack.live.snapshot import run_namespaces
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.retained import list_retained_objects
from trainstack.runs.launches import utc_now
from trainstack.runs.status.launch_kinds import other_launch_kinds
from trainstack.settings.loading.project import project_name
from trainstack.stack_objects.inputs import BUILD_ERRORS

_LOCKS_ELSEWHERE = "locks: the state is not in a folder; the engine's next command reports whether the stack is locked"


def doctor(*, stack: StackOption, as_json: JsonOption = False) -> None:
    """Find what an interrupted `up` or `destroy` left behind, with the commands that repair it; changes nothing.

    Checks the state's locks and files, finds unfinished operations, compares the state with the cluster, and lists the
    data loaders and files of killed commands. Exits with 4 if it finds something.

    Examples:
      trainstack doctor -s dev
      trainstack doctor -s dev --json
    """
    session = Session.open(stack)
    diagnosis, unchecked_notes = _diagnose(session)
    diagnosis = diagnosis.with_problems(local_file_problems(session.root, unchecked_notes), RecoveryCommands(stack))
    if as_json:
        problems = [asdict(problem) for problem in diagnosis.problems]
        show_json({"problems": problems, "commands": list(diagnosis.commands), "unchecked": unchecked_notes})
    else:
        _show(stack, diagnosis, unchecked_notes)
    if diagnosis.problems:
        unreachable = any(problem.id == "cluster-unreachable" for problem in diagnosis.problems)
        raise typer.Exit(ExitCode.UNREACHABLE if unreachable else ExitCode.FINDINGS)


def _diagnose(session: Session) -> tuple[Diagnosis, list[str]]:
    folder = state_folder(ensure_backend(session))
    project = project_name(session.root)
    files = read_state_files(session.root / folder, project, session.stack) if folder is not None else None
    unchecked_notes = [] if folder is not None else [_LOCKS_ELSEWHERE]
    blocking_diagnosis = diagnose_files(files, session.stack)
    state, deployment = EngineState(), None
    if blocking_diagnosis is None:
        exported, engine_faults = _export_state(session)
        if engine_faults:
            file = state_file(session.root / folder, project, session.stack) if folder is not None else None
            backup = Backup(str(file), has_usable_backup(file)) if file is not None else None
            blocking_diagnosis = diagnose_refused(
                engine_faults, str(file or f"stack {session.stack}"), files, backup, session.stack
            )
        else:
            try:
                state, deployment = read_state(exported), exported.get("deployment")
            except (ValueError, KeyError) as error:
                fail(f"cannot parse the output of `pulumi stack export -s {session.stack}`: {error}")
    if blocking_diagnosis is not None:
        return blocking_diagnosis, [
            *unchecked_notes,
            "the state and the cluster: run the same command again after the repair",
        ]
    if refusal := _refusal_of_other_cluster(session, deployment):
        # Every object of the state would be missing here.
        problem = Problem("another-cluster", "cluster", refusal, ())
        return Diagnosis((problem,), ()), [*unchecked_notes, "the state: run the same command with the stack's cluster"]
    return _diagnose_objects(session, files, state, unchecked_notes)


def _refusal_of_other_cluster(session: Session, deployment: Mapping[str, Any] | None) -> str:
    try:
        return cluster_refusal(session, deployment)
    except ClusterError:
        return ""  # the next read has the finding


def _diagnose_objects(
    session: Session, files: StateFiles | None, state: EngineState, unchecked_notes: list[str]
) -> tuple[Diagnosis, list[str]]:
    """Compare a state that the engine accepts with the cluster."""
    marked_objects: LiveObjects | None = None
    loaders: list[WaitingLoader] = []
    unreachable: tuple[Problem, ...] = ()
    try:
        namespaces, context = run_namespaces(session.settings), session.settings.cluster.context
        loaders = find_waiting_loaders(read_loaders(session.stack, namespaces, context))
        further_kinds = [
            *other_launch_kinds(session.settings),
            *((manifest["apiVersion"], manifest["kind"]) for manifest in session.settings.objects.manifests),
        ]
        marked_objects = read_labeled_objects(session.stack, state.objects, namespaces, context, further_kinds)
        unchecked_notes += [
            f"{kind}: these credentials may not read it" for kind in sorted(marked_objects.unreadable_kinds)
        ]
    except ClusterError as error:
        # The problems of the state itself are still reported.
        unreachable = (Problem("cluster-unreachable", "cluster", str(error), ()),)
    diagnosis = diagnose(
        stack=session.stack,
        files=files,
        state=state,
        live_objects=marked_objects,
        retained={
            (retained_object.kind, retained_object.namespace, retained_object.name)
            for retained_object in list_retained_objects(session.settings)
        },
        read_declared_identities=lambda: _declared_identities(session, marked_objects, unchecked_notes),
        loaders=loaders,
        now=utc_now(),
    )
    return Diagnosis((*diagnosis.problems, *unreachable), diagnosis.commands), unchecked_notes


def _export_state(session: Session) -> tuple[Mapping[str, Any], tuple[StateFault, ...]]:
    """Return the parsed output of `pulumi stack export`, and the reasons why the engine refuses the state."""
    try:
        exported = export(session)
    except StateRefusedError as error:
        return {}, (parse_engine_fault(error.reason),)
    content = json.loads(exported) if exported is not None else {"deployment": None}
    return content, find_state_faults(content.get("deployment"))


def _declared_identities(
    session: Session, marked_objects: LiveObjects | None, unchecked_notes: list[str]
) -> Collection[Identity] | None:
    """Return the declared objects and the live objects of declared runs and sweeps.

    Returns None if the files do not suffice, and adds the reason to `unchecked_notes`. Launches, ledgers and wrappers
    of earlier versions of a run are included, since `up` keeps or deletes them.
    """
    run_names = {run.name for _, run in session.settings.runs_and_trials()}
    try:
        manifests = build_manifests(session.root, settings_with_downloads(session.settings))
    except BUILD_ERRORS as error:
        unchecked_notes.append(f"objects that are not in the state, since the declared objects are unknown: {error}")
        return None
    declared_identities = {identity(manifest) for manifest in manifests if "name" in manifest["metadata"]}
    return declared_identities | {
        key for key, live in (marked_objects.objects if marked_objects else {}).items() if live.is_of_run(run_names)
    }


def _tables(diagnosis: Diagnosis, unchecked_notes: Sequence[str]) -> Iterator[Table]:
    for problem in diagnosis.problems:
        label = make_text("problem", "red")
        yield make_fact_table((), [((), [(label, f"[{problem.id}] {problem.what}"), ("why", problem.message)])])
    if unchecked_notes:
        yield make_fact_table((), [((), [(make_text("not checked", "dim"), note) for note in unchecked_notes])])


def _show(stack: str, diagnosis: Diagnosis, unchecked_notes: list[str]) -> None:
    show_tables(_tables(diagnosis, unchecked_notes))
    if diagnosis.commands:
        out.print(f'\nTo repair it, run in this order after eval "$(trainstack env -s {stack})":\n')
        for command in diagnosis.commands:
            out.print(f"  {command}")
        recovery_commands = RecoveryCommands(stack)
        if recovery_commands.up in diagnosis.commands:
            out.print(f"\nTo finish an interrupted destroy, replace `up` by:\n\n  {recovery_commands.destroy}")
            out.print("\nwithout --keep-platform if the interrupted one had none, and with its --stop options")
    count = len(diagnosis.problems)
    err.print(f"{stack}: {count or 'no'} problem{'' if count == 1 else 's'} found")
