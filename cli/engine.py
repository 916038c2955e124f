"""Running the Pulumi engine for an environment, as a person would with the same words."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cli.console import fail
from cli.session import Session
from toolchain import tools


def environment(session: Session) -> dict[str, str]:
    """The variables that give a shell the project's engine, state, passphrase and cluster."""
    engine = tools.engine(session.root)
    return {**engine.environment, "KUBECONFIG": str(session.kubeconfig)}


def pulumi(session: Session, *words: str, check: bool = True) -> int:
    """Run `pulumi WORDS -s ENV` in the checkout, its output going to the terminal.

    Ends the command with what to do when the engine fails, unless `check` is false.
    """
    command = [str(tools.engine(session.root).pulumi), *words, "--stack", session.stack, "--non-interactive"]
    code = subprocess.run(command, cwd=session.root, env={**os.environ, **environment(session)}, check=False).returncode
    if code and check:
        fail(
            f"`pulumi {' '.join(words)} -s {session.stack}` ended with {code}; what it printed above says why. Nothing "
            "that it had finished is lost: mend the cause and run the same command again"
        )
    return code


def ensure_stack(session: Session) -> None:
    """Make the stack's state where there is none yet. An existing one is left as it is."""
    engine = tools.engine(session.root)
    env = {**os.environ, **environment(session)}
    known = _quiet([str(engine.pulumi), "stack", "--stack", session.stack, "--non-interactive"], session.root, env)
    if known.returncode == 0:
        return
    made = _quiet([str(engine.pulumi), "stack", "init", session.stack, "--non-interactive"], session.root, env)
    if made.returncode:
        fail(f"the state of stack {session.stack!r} cannot be made: {made.stderr.strip() or made.stdout.strip()}")


def _quiet(command: list[str], root: Path, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=root, env=env, check=False, capture_output=True, text=True)
