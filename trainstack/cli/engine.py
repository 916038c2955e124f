"""Running the Pulumi engine for an environment, as a person would with the same words."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from trainstack.cli.console import err, fail
from trainstack.cli.session import Session
from trainstack.dev.toolchain import tools
from trainstack.live import private_kubeconfig

_LOCKED = ("the stack is currently locked by", "another update is currently in progress")
"""The engine's messages about a locked state, in lower case: in a folder or bucket, and in a service."""


def environment(session: Session) -> dict[str, str]:
    """The variables that give a shell the project's engine, state, passphrase and cluster."""
    engine = tools.engine(session.root)
    return {**engine.environment, "KUBECONFIG": str(session.kubeconfig)}


def pulumi(
    session: Session,
    *words: str,
    check: bool = True,
    variables: Mapping[str, str] | None = None,
    aside: bool = False,
) -> int:
    """Run `pulumi WORDS -s ENV` in the checkout, its output going to the terminal; with `aside` all of it to stderr.

    The engine gets a private copy of the kubeconfig as this command first read it. Ends the command with what to do
    when the engine fails, unless `check` is false; where the stack is locked always, since the engine has done nothing
    then.
    """
    command = [str(tools.engine(session.root).pulumi), *words, "--stack", session.stack, "--non-interactive"]
    cluster = private_kubeconfig.variables(session.settings.cluster.context)
    env = {**os.environ, **environment(session), **cluster, **(variables or {})}
    to = sys.stderr if aside else None
    with subprocess.Popen(command, cwd=session.root, env=env, stdout=to, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        for line in process.stderr or ():
            if not _is_locked(said) and _is_locked(line):
                # The engine's own advice, to delete the lock, comes second.
                err.print(_see_doctor(session))
            sys.stderr.write(line)
            said += line
    if process.returncode and _is_locked(said):
        fail(f"nothing was changed: {_see_doctor(session)}")
    if process.returncode and check:
        fail(
            f"`pulumi {' '.join(words)} -s {session.stack}` ended with {process.returncode}; what it printed above "
            "says why. Nothing that it had finished is lost: mend the cause and run the same command again"
            + _remedy(said)
        )
    return process.returncode


def outputs(session: Session) -> dict[str, Any]:
    """What the environment's last `up` put out; {} before the first. Ends the command when its state cannot be read."""
    command = [str(tools.engine(session.root).pulumi), "stack", "output", "--json", "--stack", session.stack]
    done = _quiet([*command, "--non-interactive"], session.root, {**os.environ, **environment(session)})
    if done.returncode:
        _unreadable(session, done.stderr.strip())
    return dict(json.loads(done.stdout))


def export(session: Session) -> str | None:
    """The environment's state as the engine exports it, secrets encrypted; None where there is none yet.

    Ends the command when it cannot be read.
    """
    command = [str(tools.engine(session.root).pulumi), "stack", "export", "--stack", session.stack]
    done = _quiet([*command, "--non-interactive"], session.root, {**os.environ, **environment(session)})
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip()
    if "no stack named" in said:
        return None
    return _unreadable(session, said)


def resources(session: Session) -> list[dict[str, Any]]:
    """What the environment's state holds, as the engine exports it; [] where there is none yet.

    Ends the command when it cannot be read.
    """
    exported = export(session)
    return [] if exported is None else list((json.loads(exported)["deployment"] or {}).get("resources") or [])


def ensure_stack(session: Session) -> None:
    """Make the stack's state where there is none yet. An existing one is left as it is.

    Ends the command for an environment without a file: the engine would write an empty one.
    """
    if not (session.root / f"Pulumi.{session.stack}.yaml").is_file():
        _ = session.loaded
    engine = tools.engine(session.root)
    env = {**os.environ, **environment(session)}
    known = _quiet([str(engine.pulumi), "stack", "--stack", session.stack, "--non-interactive"], session.root, env)
    if known.returncode == 0:
        return
    made = _quiet([str(engine.pulumi), "stack", "init", session.stack, "--non-interactive"], session.root, env)
    if made.returncode:
        said = made.stderr.strip() or made.stdout.strip()
        _unreadable(session, said, done="made")


def _unreadable(session: Session, said: str, done: str = "read") -> NoReturn:
    if _is_locked(said):
        fail(f"{_see_doctor(session)}. The engine's message: {said}")
    fail(f"the state of stack {session.stack!r} cannot be {done}: {said}{_remedy(said)}")


def _is_locked(said: str) -> bool:
    return any(words in said.lower() for words in _LOCKED)


def _see_doctor(session: Session) -> str:
    return (
        f"the stack {session.stack} is locked; `trainstack doctor -s {session.stack}` names the lock's owner and the "
        "remedy. Do not delete a lock while its owner is running: two engines would write the same state"
    )


def _remedy(said: str) -> str:
    """What to do about what the engine says without a remedy."""
    if "passphrase" not in said.lower():
        return ""
    return (
        ". The passphrase of dev is in .trainstack/passphrase, and is taken when neither PULUMI_CONFIG_PASSPHRASE nor "
        "PULUMI_CONFIG_PASSPHRASE_FILE is set; that of another environment is its owner's to give: put it into one of "
        "them"
    )


def _quiet(command: list[str], root: Path, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=root, env=env, check=False, capture_output=True, text=True)
