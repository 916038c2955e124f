"""A locked state: the error names `doctor` before the advice of the engine, in every command."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tests.unit.make import make_settings
from trainstack.cli import engine
from trainstack.cli.session import Session
from trainstack.live import private_kubeconfig
from trainstack.toolchain import tools
from trainstack.toolchain.engine import Engine

ADVICE = (
    "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the "
    "lock file with `pulumi cancel`.\n  file:///x/.pulumi/locks/organization/trainstack/dev/1.json: by a@b"
)
EMBEDDED = "config:\n  trainstack:environment: {state: embedded}\n"
OF_A_SERVICE = "error: [409] Conflict: Another update is currently in progress."
CALLS: dict[str, Callable[[Session], object]] = {
    "up": lambda session: engine.pulumi(session, "up", "--yes"),
    "destroy": lambda session: engine.pulumi(session, "destroy", "--yes"),
    "teardown": lambda session: engine.pulumi(session, "destroy", check=False, aside=True),
    "outputs": engine.outputs,
    "export": engine.export,
    "ensure_stack": engine.ensure_stack,
}


def make_engine(program: Path) -> Engine:
    """Make the engine this program."""
    return Engine(program, {}, built_here=True)


@pytest.mark.parametrize("advice", [ADVICE, OF_A_SERVICE])
@pytest.mark.parametrize("call", CALLS)
def test_a_locked_state_names_doctor_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], call: str, advice: str
) -> None:
    """The command fails."""
    program = tmp_path / "pulumi"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{advice}\nEND\nexit 255\n", encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "Pulumi.dev.yaml").write_text(EMBEDDED, encoding="utf-8")
    monkeypatch.setattr(tools, "engine", lambda _root, **_: make_engine(program))
    # A lock does not depend on the engine's kubeconfig and the settings that name its context.
    monkeypatch.setattr(private_kubeconfig, "variables", lambda _context: {})
    monkeypatch.setattr(Session, "settings", make_settings())
    with pytest.raises(typer.Exit):
        CALLS[call](Session(tmp_path, "dev"))
    message = capfd.readouterr().err
    assert "`trainstack doctor -s dev` names the lock's owner" in message
    assert message.index("trainstack doctor") < message.index(advice.splitlines()[0])
    assert "error: " in message.splitlines()[-1] or message.index("error: the stack dev is locked") == 0


def test_another_failure_names_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the engine's message about a lock counts as a lock."""
    (tmp_path / "Pulumi.dev.yaml").write_text(EMBEDDED, encoding="utf-8")
    monkeypatch.setattr(tools, "engine", lambda _root, **_: make_engine(Path("/bin/false")))
    monkeypatch.setattr(private_kubeconfig, "variables", lambda _context: {})
    monkeypatch.setattr(Session, "settings", make_settings())
    assert engine.pulumi(Session(tmp_path, "dev"), "up", check=False) == 1
