"""Calls of the Pulumi engine for an environment."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NoReturn

from trainstack.cli.output.console import copy_errors, copy_output, err, fail, out
from trainstack.cli.output.copied_output import run_and_copy
from trainstack.cli.session import Session
from trainstack.errors import ExitCode, TrainstackError
from trainstack.lifecycle.recovery.state_files import read_deployment, state_file
from trainstack.live import private_kubeconfig
from trainstack.review.temporary_state import MISSING_STACK_MESSAGE, temporary_state
from trainstack.settings.errors import SettingsFinding
from trainstack.settings.loading.project import project_name
from trainstack.settings.loading.yaml_reader import read_map
from trainstack.settings.values.redaction import redact_url
from trainstack.settings.values.stack_name import stack_file
from trainstack.stacks.exit_code import EXIT_CODE_VARIABLE, exit_code_file, read_exit_code
from trainstack.toolchain import backend, programs_on_path, tools
from trainstack.toolchain.engine import Engine
from trainstack.toolchain.errors import ToolchainError

_LOCKED_MESSAGES = ("the stack is currently locked by", "another update is currently in progress")
"""The engine's messages about a locked state, in lower case: of a file backend, and of a service."""
_REFUSED_STATE_MESSAGES = (
    "snapshot integrity failure",
    "failed to load checkpoint",
    "missing required 'type'",
    "missing required 'urn'",
)
"""The engine's messages about a state that it does not accept."""
_UNREACHABLE_PHRASES = (
    "connection refused",
    "no such host",
    "i/o timeout",
    "deadline exceeded",
    "connection reset",
    "network is unreachable",
    "performing http request",
    "request send failed",
    "unable to open bucket",
)
"""Phrases in the engine's messages about a backend that cannot be reached, in lower case."""
_GARBAGE_COLLECTION = {"GOGC": "400"}
"""For the engine and the provider, which run for seconds: with Go's default of 100, garbage collection takes a sixth of
their CPU time. Each may use 130 MB more memory."""


class StateRefusedError(TrainstackError):
    """The engine refuses its own stored state."""

    def __init__(self, stack: str, reason: str) -> None:
        super().__init__(
            f"the engine refuses the state of stack {stack!r}",
            f"`trainstack doctor -s {stack}` names the reason and the repair",
        )
        self.reason = reason
        """The engine's message."""


def project_engine(session: Session) -> Engine:
    """Return the project's engine, for the environment's state."""
    return tools.engine(session.root, embedded=session.placement.embedded)


def engine_variables(session: Session, engine: Engine | None = None) -> dict[str, str]:
    """Return the variables to set for the project's engine, state, passphrase and cluster."""
    variables = (engine or project_engine(session)).environment
    kubeconfig = os.environ.get("KUBECONFIG")
    return {**variables, "KUBECONFIG": str(session.kubeconfig)} if kubeconfig else dict(variables)


def ensure_backend(session: Session) -> str:
    """Return the URL of the backend of the state. Raises ToolchainError if Pulumi selects no backend."""
    if session.placement.embedded:
        return os.environ.get("PULUMI_BACKEND_URL") or (session.private_folder / "backend").as_uri()
    ensure_environment_file(session)
    if url := backend.selected_url(session.root):
        return url
    _ = session.loaded  # an invalid value may be why the state is not embedded
    env_command = "" if programs_on_path.pulumi().program else f' after `eval "$(trainstack env -s {session.stack})"`'
    raise ToolchainError(
        f"Pulumi is not logged in, so stack {session.stack!r} has no state",
        f"run `pulumi login`{env_command}, set PULUMI_BACKEND_URL, or, for an environment without secrets, set "
        f"`trainstack:environment: {{state: embedded}}` in Pulumi.{session.stack}.yaml{_earlier_state_remedy(session)}",
    )


def pulumi(
    session: Session,
    *arguments: str,
    check: bool = True,
    variables: Mapping[str, str] | None = None,
    aside: bool = False,
) -> ExitCode | None:
    """Run `pulumi ARGUMENTS -s ENV` in the checkout and show its output; with `aside`, all of it on stderr.

    The engine gets a private copy of the kubeconfig as this command first read it. Exits with a remedy if the stack is
    locked or the program refuses the change, when no object was changed. If the engine fails for another reason, exits
    too, or returns the exit code if `check` is false. Returns None on success.
    """
    with exit_code_file() as file:
        all_variables = {**(variables or {}), EXIT_CODE_VARIABLE: str(file)}
        returncode, stderr = _run(session, arguments, all_variables, aside=aside)
        code = read_exit_code(file)
    if not returncode:
        return None
    if _is_locked(stderr):
        fail(f"nothing was changed: {_locked_message(session)}", ExitCode.REFUSED)
    command = f"`pulumi {' '.join(arguments)} -s {session.stack}`"
    if code == ExitCode.REFUSED:
        fail(f"{command} was refused, and no object was changed; see the reasons and remedies above", code)
    if code == ExitCode.FAILED:
        # The program cannot know that the engine's backend is unreachable.
        code = _exit_code(stderr)
    if check:
        fail(
            f"{command} exited with code {returncode}; see its output above. Completed changes are kept: fix the cause "
            f"and run the same command again{_remedy(session, stderr)}",
            code,
        )
    return code


def _run(session: Session, arguments: Sequence[str], variables: Mapping[str, str], *, aside: bool) -> tuple[int, str]:
    """Run the engine, showing its output; return its exit code and its errors."""
    ensure_backend(session)
    engine = project_engine(session)
    command = [str(engine.pulumi), *arguments, "--stack", session.stack, "--non-interactive"]
    cluster_variables = private_kubeconfig.variables(session.settings.cluster.context)
    env = {**_process_variables(session, engine), **cluster_variables, **variables}
    errors: list[str] = []

    def show_error(line: str) -> None:
        if _is_locked(line) and not any(map(_is_locked, errors)):
            # Precede the engine's own advice, which is to delete the lock.
            err.print(_locked_message(session))
        errors.append(line)
        copy_errors(line)

    if (err if aside else out).is_terminal:
        command.append("--color=always")
    return run_and_copy(command, session.root, env, copy_errors if aside else copy_output, show_error), "".join(errors)


def read_preview(session: Session, *options: str, variables: Mapping[str, str]) -> tuple[str, str, ExitCode | None]:
    """Run `pulumi preview --json`; return its output, its errors, and an exit code unless it succeeded."""
    cluster_variables = private_kubeconfig.variables(session.settings.cluster.context)
    with exit_code_file() as file:
        all_variables = {**cluster_variables, **variables, EXIT_CODE_VARIABLE: str(file)}
        result = _query(session, "preview", "--json", *options, "--stack", session.stack, variables=all_variables)
        code = read_exit_code(file) if result.returncode else None
    if result.returncode and _is_locked(result.stderr):
        fail(_locked_message(session), ExitCode.REFUSED)
    return result.stdout, result.stderr, code


def outputs(session: Session) -> dict[str, Any]:
    """Return the outputs of the last `up`; {} before the first. Exits if the state cannot be read."""
    result = _query(session, "stack", "output", "--json", "--stack", session.stack)
    if result.returncode:
        _exit_with_unusable_state(session, result.stderr.strip())
    return dict(json.loads(result.stdout))


def export(session: Session) -> str | None:
    """Return the state as the engine exports it, secrets encrypted; None without a stack.

    Exits if it is unreadable. Raises StateRefusedError if the engine refuses it.
    """
    result = _query(session, "stack", "export", "--stack", session.stack)
    if result.returncode == 0:
        return result.stdout
    stderr = result.stderr.strip()
    return None if MISSING_STACK_MESSAGE in stderr else _exit_with_unusable_state(session, stderr)


def deployment(session: Session) -> Mapping[str, Any] | None:
    """Return the state's `deployment`, {} before the first `up`; None without a stack. Exits if it is unreadable."""
    if session.placement.embedded and not os.environ.get("PULUMI_BACKEND_URL"):
        # The engine's export takes ten times as long as reading its file.
        file = state_file(session.private_folder / "backend", project_name(session.root), session.stack)
        if file is None:
            return None
        if (stored_deployment := read_deployment(file)) is not None:
            return stored_deployment
    exported = export(session)
    return None if exported is None else json.loads(exported)["deployment"] or {}


def ensure_environment_file(session: Session) -> None:
    """Raise SettingsError if the environment has no file, which the engine would create, or one that is not a map.

    Such a file does not have the environment's state and cluster.
    """
    faults: list[SettingsFinding] = []
    try:
        content = read_map(session.root, stack_file(session.stack), faults)
    except FileNotFoundError:
        content = None
    if content is None or (faults and not content.entries):
        _ = session.loaded


def ensure_stack(session: Session) -> None:
    """Create an embedded stack's state unless it exists. Exits with the command to create any other missing stack."""
    ensure_environment_file(session)
    if _stack_exists(session):
        return
    if not session.placement.embedded:
        fail(
            f"stack {session.stack!r} does not exist in {redact_url(ensure_backend(session))}; create it with "
            f"`pulumi stack init {session.stack}`, and with `--secrets-provider` if its secrets are not encrypted with "
            f"a passphrase{_earlier_state_remedy(session)}"
        )
    # Only the user selects a stack.
    result = _query(session, "stack", "init", session.stack, "--no-select")
    if result.returncode:
        _exit_with_unusable_state(session, result.stderr.strip() or result.stdout.strip(), action="created")


@contextmanager
def preview_variables(session: Session) -> Iterator[dict[str, str]]:
    """Yield further variables of a preview: a temporary state, removed afterwards, for an embedded stack without one.

    So a preview writes no state. Exits if another stack does not exist.
    """
    if not session.placement.embedded:
        ensure_stack(session)
    elif not _stack_exists(session):
        err.print(f"  {session.stack} has no state yet: the preview uses a temporary one")
        engine = project_engine(session)
        with temporary_state(
            session.root, session.stack, engine.pulumi, _process_variables(session, engine)
        ) as variables:
            yield variables
        return
    yield {}


def _stack_exists(session: Session) -> bool:
    result = _query(session, "stack", "--stack", session.stack)
    if result.returncode and MISSING_STACK_MESSAGE not in result.stderr and not _is_refused(result.stderr):
        _exit_with_unusable_state(session, result.stderr.strip())
    return MISSING_STACK_MESSAGE not in result.stderr


def _earlier_state_remedy(session: Session) -> str:
    """Return a remedy if the checkout has a state of a stack that is no longer embedded."""
    folder = session.private_folder / "backend"
    if session.placement.embedded or state_file(folder, project_name(session.root), session.stack) is None:
        return ""
    return (
        f". {folder} has an earlier state of this stack: keep it with `state: embedded`, or move it with `pulumi stack "
        "export` and `pulumi stack import` (docs/environments.md#state-and-secrets)"
    )


def _exit_with_unusable_state(session: Session, message: str, action: str = "read") -> NoReturn:
    if _is_locked(message):
        fail(f"{_locked_message(session)}. The engine's message: {message}", ExitCode.REFUSED)
    if _is_refused(message):
        raise StateRefusedError(session.stack, message)
    remedy = _remedy(session, message)
    fail(f"the state of stack {session.stack!r} cannot be {action}: {message}{remedy}", _exit_code(message))


def _exit_code(message: str) -> ExitCode:
    unreachable = any(phrase in message.lower() for phrase in _UNREACHABLE_PHRASES)
    return ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED


def _is_locked(message: str) -> bool:
    return any(phrase in message.lower() for phrase in _LOCKED_MESSAGES)


def _locked_message(session: Session) -> str:
    return (
        f"the stack {session.stack} is locked; `trainstack doctor -s {session.stack}` names the lock's owner and the "
        "remedy. Do not delete a lock while its owner is running: two engines would write the same state"
    )


def _is_refused(message: str) -> bool:
    return any(phrase in message for phrase in _REFUSED_STATE_MESSAGES)


def _remedy(session: Session, message: str) -> str:
    if _is_refused(message):
        return f". {StateRefusedError(session.stack, message)}"
    if "passphrase" not in message.lower():
        return ""
    return (
        ". Embedded environments use the published passphrase in .trainstack/passphrase unless "
        "PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE is set; for any other environment, set one of them "
        "to the passphrase that its owner gave you"
    )


def _query(
    session: Session, *arguments: str, variables: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[str]":
    ensure_backend(session)
    engine = project_engine(session)
    command = [str(engine.pulumi), *arguments, "--non-interactive"]
    env = {**_process_variables(session, engine), **variables}
    return subprocess.run(command, cwd=session.root, env=env, check=False, capture_output=True, text=True)


def _process_variables(session: Session, engine: Engine) -> dict[str, str]:
    """Return all variables of the engine's process."""
    inherited_variables = {name: value for name, value in os.environ.items() if name not in engine.removed_variables}
    return _GARBAGE_COLLECTION | inherited_variables | engine_variables(session, engine)
