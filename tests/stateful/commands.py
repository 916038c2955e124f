"""Trainstack's own commands, with the stand-in in the place of the engine's program.

Everything above the call of the engine's program is the command's own.
"""

import contextlib
import io
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import typer

import trainstack.cli.commands.destroy
import trainstack.cli.commands.doctor
import trainstack.cli.commands.up
import trainstack.cli.engine
import trainstack.cli.output.console
from tests.stateful.state import State, state_path
from trainstack.cli.session import Session
from trainstack.errors import TrainstackError, expected_message
from trainstack.live import private_kubeconfig
from trainstack.review.temporary_state import MISSING_STACK_MESSAGE

UP, DESTROY, DOCTOR = "trainstack up", "trainstack destroy", "trainstack doctor"
COMMANDS: Mapping[str, Callable[..., None]] = {
    UP: trainstack.cli.commands.up.up,
    DESTROY: trainstack.cli.commands.destroy.destroy,
    DOCTOR: trainstack.cli.commands.doctor.doctor,
}
QUESTION = "question"
"""The moment at which a command waits for the answer to its question."""


class EngineResult(Protocol):
    """What became of a run of the engine."""

    @property
    def ok(self) -> bool: ...

    @property
    def text(self) -> str: ...


class Engine(Protocol):
    """Runs the stand-in, with these variables."""

    def __call__(self, mode: str, variables: Mapping[str, str], *, refresh: bool) -> EngineResult: ...


@dataclass(frozen=True)
class EngineRuns:
    """Takes the calls of the engine's program."""

    engine: Engine
    backend: Path
    stack: str

    def query(
        self, _: Session, *arguments: str, variables: Mapping[str, str] = {}
    ) -> "subprocess.CompletedProcess[str]":
        """In the place of `trainstack.cli.engine._query`."""
        state = state_path(self.backend, self.stack)
        words, done = arguments[:2], subprocess.CompletedProcess[str]
        if arguments[0] == "preview":
            result = self.engine("preview", variables, refresh="--refresh" in arguments)
            return done(arguments, 0 if result.ok else 255, json.dumps({"steps": []}), result.text)
        if words == ("stack", "init"):
            State(state).save()
        elif not state.exists():
            return done(arguments, 255, "", f"error: {MISSING_STACK_MESSAGE} {self.stack!r} found")
        if words == ("stack", "export"):
            return done(arguments, 0, json.dumps({"version": 3, "deployment": State.load(state).exported()}), "")
        return done(arguments, 0, "{}", "")

    def run(
        self, session: Session, arguments: tuple[str, ...], variables: Mapping[str, str], *, aside: bool
    ) -> tuple[int, str]:
        """In the place of `trainstack.cli.engine._run`."""
        copied = private_kubeconfig.variables(session.settings.cluster.context)
        result = self.engine(arguments[0], {**copied, **variables}, refresh="--refresh" in arguments)
        print(result.text)
        return (0 if result.ok else 255), result.text


def run(name: str, arguments: Mapping[str, Any], runs: EngineRuns, ask: Callable[[str, str], str]) -> tuple[int, str]:
    """Run a command of a person who answers its question with yes. Returns its exit code, and what it printed."""
    printed = io.StringIO()
    with _at_a_terminal(runs, ask), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            COMMANDS[name](stack=runs.stack, **arguments)
        except typer.Exit as ended:
            return ended.exit_code, printed.getvalue()
        except TrainstackError as error:
            return int(error.exit_code), f"{printed.getvalue()}error: {expected_message(error)}"
    return 0, printed.getvalue()


@contextmanager
def _at_a_terminal(runs: EngineRuns, ask: Callable[[str, str], str]) -> Iterator[None]:
    with (
        patch.object(trainstack.cli.engine, "_query", runs.query),
        patch.object(trainstack.cli.engine, "_run", runs.run),
        patch.object(trainstack.cli.output.console, "is_interactive", lambda: True),
        patch.object(trainstack.cli.commands.up, "ensure_tools", lambda *_, **__: None),
        patch.object(typer, "confirm", lambda question, **_: ask(QUESTION, question)),
    ):
        yield
