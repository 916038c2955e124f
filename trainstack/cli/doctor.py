"""`trainstack doctor`: what keeps an environment from going on, and what mends it."""

import json
from collections.abc import Collection
from dataclasses import asdict

import typer

from trainstack.cli.check_cluster import declared_manifests
from trainstack.cli.console import err, fail, out, show_json
from trainstack.cli.engine import environment, export
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.declared.inputs import FAULTS
from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.lifecycle.recovery.diagnosis import Diagnosis, diagnose, diagnose_files
from trainstack.lifecycle.recovery.loaders import WaitingLoader, waiting_loaders
from trainstack.lifecycle.recovery.objects import Seen
from trainstack.lifecycle.recovery.problem import RecoveryCommands, Trouble
from trainstack.lifecycle.recovery.state import State, read_state
from trainstack.lifecycle.recovery.state_files import read_state_files, state_folder
from trainstack.live.client import ClusterError
from trainstack.live.loaders import read_loaders
from trainstack.live.marked import read_marked
from trainstack.live.snapshot import run_namespaces
from trainstack.objects.ownership import Identity, identity
from trainstack.platform.retained import retained
from trainstack.runs.launches import utc_now

_LOCKS_ELSEWHERE = "locks: the state is in no folder; the engine's next command says whether the stack is locked"


def doctor(*, stack: StackOption = "dev", as_json: JsonOption = False) -> None:
    """Tell what an interrupted `up` or `destroy` left behind, with the commands that mend it. Changes nothing.

    Checks the state's locks and files, finds unfinished operations, compares the state with the cluster, and lists the
    data loaders of killed commands. Exits with 1 if it finds something.

    Examples:

      trainstack doctor -s dev

      trainstack doctor -s dev --json
    """
    session = Session.open(stack)
    try:
        found, unseen = _look(session)
    except ToolchainError as error:
        fail(str(error))
    if as_json:
        troubles = [asdict(each) for each in found.troubles]
        show_json({"troubles": troubles, "commands": list(found.commands), "not_looked_at": unseen})
    else:
        _show(stack, found, unseen)
    if found.troubles:
        raise typer.Exit(1)


def _look(session: Session) -> tuple[Diagnosis, list[str]]:
    """What is wrong, and what could not be looked at."""
    folder = state_folder(environment(session)["PULUMI_BACKEND_URL"])
    files = read_state_files(session.root / folder, session.stack) if folder is not None else None
    unseen = [] if folder is not None else [_LOCKS_ELSEWHERE]
    if stops := diagnose_files(files, session.stack):
        return stops, [*unseen, "the state and the cluster: when this is mended, run the same command again"]
    state = _state(session)
    seen: Seen | None = None
    loaders: list[WaitingLoader] = []
    unreachable: tuple[Trouble, ...] = ()
    try:
        namespaces, context = run_namespaces(session.settings), session.settings.cluster.context
        loaders = waiting_loaders(read_loaders(session.stack, namespaces, context))
        seen = read_marked(session.stack, state.objects, namespaces, context)
        unseen += [f"{kind}: these credentials may not read it" for kind in sorted(seen.unreadable)]
    except ClusterError as error:
        unreachable = (Trouble("cluster-unreachable", "cluster", str(error), ()),)
    found = diagnose(
        stack=session.stack,
        files=files,
        state=state,
        seen=seen,
        retained={(each.kind, each.namespace, each.name) for each in retained(session.settings)},
        declared=lambda: _declared(session, seen, unseen),
        loaders=loaders,
        now=utc_now(),
    )
    return Diagnosis((*found.troubles, *unreachable), found.commands), unseen


def _state(session: Session) -> State:
    told = export(session)
    if told is None:
        return State()
    try:
        return read_state(json.loads(told))
    except (ValueError, KeyError) as error:
        fail(f"what `pulumi stack export -s {session.stack}` printed is not understood: {error}")


def _declared(session: Session, seen: Seen | None, unseen: list[str]) -> Collection[Identity] | None:
    """What the environment declares: its objects, and whatever is of its runs and sweeps.

    None where that cannot be built from the files, which is added to `unseen`.

    Launches, ledgers and wrappers of earlier edits are the launch rules' to keep or to end; `up` reads them by label.
    """
    names = {run.name for _, run in session.settings.trained()}
    try:
        manifests = declared_manifests(session.root, session.settings)
    except FAULTS as error:
        unseen.append(f"objects that are not in the state, since what the environment declares is not known: {error}")
        return None
    declared = {identity(each) for each in manifests if "name" in each["metadata"]}
    of_runs = {each for each, live in (seen.objects if seen else {}).items() if live.of_run(names)}
    return declared | of_runs


def _show(stack: str, found: Diagnosis, unseen: list[str]) -> None:
    for trouble in found.troubles:
        out.print(str(trouble), style="red", markup=False)
    for each in unseen:
        out.print(f"not looked at: {each}", style="dim", markup=False)
    if found.commands:
        out.print(f'\nTo mend it, in this order, after eval "$(trainstack env -s {stack})":\n', markup=False)
        for command in found.commands:
            out.print(f"  {command}", markup=False)
        recovery = RecoveryCommands(stack)
        if recovery.up in found.commands:
            out.print(f"\nIf a destroy was interrupted, its end instead of `up`:\n\n  {recovery.destroy}", markup=False)
    err.print(f"{stack}: {len(found.troubles) or 'no'} troubles")
