"""The exit codes of commands that run the engine: those of the program's errors, and of the backend."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.unit.make import make_settings
from trainstack.cli import engine
from trainstack.cli.app import app
from trainstack.cli.session import Session
from trainstack.errors import ExitCode, RefusedError, TrainstackError
from trainstack.live import private_kubeconfig
from trainstack.live.client import ClusterError
from trainstack.settings.loading.load import EnvironmentPlacement
from trainstack.stacks.exit_code import EXIT_CODE_VARIABLE, exit_code_file, read_exit_code, report_exit_code
from trainstack.toolchain import tools
from trainstack.toolchain.engine import Engine

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Create a checkout whose engine is the script that `write_engine` writes."""
    program = tmp_path / "pulumi"
    monkeypatch.setattr(tools, "engine", lambda _root, embedded: Engine(program, {}, built_here=embedded))
    monkeypatch.setattr(private_kubeconfig, "variables", lambda _context: {})
    monkeypatch.setattr(Session, "settings", make_settings())
    monkeypatch.setattr(Session, "placement", EnvironmentPlacement(embedded=True, local=False))
    return Session(tmp_path, "dev")


def write_engine(session: Session, script: str) -> None:
    """Make the engine this shell script."""
    file = session.root / "pulumi"
    file.write_text(f"#!/bin/sh\n{script}\nexit 255\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("error", "code"), [(TrainstackError("x"), 1), (RefusedError("x"), 3), (ClusterError("x"), 5)], ids=str
)
def test_the_command_ends_with_the_code_of_the_programs_error(
    session: Session, monkeypatch: pytest.MonkeyPatch, error: TrainstackError, code: int
) -> None:
    """The program writes it to the file that the command names; the engine's own code is 255."""
    with exit_code_file() as file:
        monkeypatch.setenv(EXIT_CODE_VARIABLE, str(file))
        report_exit_code(error)
        assert file.read_text(encoding="ascii") == str(code)
    write_engine(session, f'printf {code} >"${EXIT_CODE_VARIABLE}"')
    with pytest.raises(typer.Exit) as ended:
        engine.pulumi(session, "up", "--yes")
    assert ended.value.exit_code == code


def test_a_refusal_reports_that_nothing_was_changed(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    """The message of any other failure is that completed changes are kept."""
    write_engine(session, f'printf 3 >"${EXIT_CODE_VARIABLE}"')
    with pytest.raises(typer.Exit):
        engine.pulumi(session, "up")
    assert "`pulumi up -s dev` was refused, and no object was changed" in capfd.readouterr().err
    write_engine(session, "")
    with pytest.raises(typer.Exit):
        engine.pulumi(session, "up")
    assert "exited with code 255; see its output above. Completed changes are kept" in capfd.readouterr().err


def test_the_engines_output_does_not_control_the_terminal(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    """It quotes messages of servers and pods. Its colors are kept; only a terminal has them."""
    text = r"\033[38;5;9mred\033[0m\033]0;title\007\033[2J\342\200\256"
    write_engine(session, f"printf '%s\\n' \"$*\"\nprintf '{text}\\n'\nprintf '{text}\\n' >&2\nexit 0")
    assert engine.pulumi(session, "up") is None
    cleaned = "\x1b[38;5;9mred\x1b[0m\\u202e\n"
    assert capfd.readouterr() == (f"up --stack dev --non-interactive\n{cleaned}", cleaned)


def test_a_refused_destroy_ends_as_any_refusal(session: Session) -> None:
    """The command does not report leftovers: nothing was deleted."""
    write_engine(session, f'printf 3 >"${EXIT_CODE_VARIABLE}"')
    with pytest.raises(typer.Exit) as ended:
        engine.pulumi(session, "destroy", check=False)
    assert ended.value.exit_code == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("echo 'error: could not connect: dial tcp 127.0.0.1:1: connection refused' >&2", ExitCode.UNREACHABLE),
        # The engine's output about a resource does not name the backend.
        ("echo 'error: dial tcp 127.0.0.1:1: connection refused'", ExitCode.FAILED),
        (f'printf 5 >"${EXIT_CODE_VARIABLE}"', ExitCode.UNREACHABLE),
        ("exit 0", None),
    ],
    ids=["backend", "resource", "cluster", "done"],
)
def test_the_code_of_a_failed_destroy(session: Session, script: str, code: ExitCode | None) -> None:
    """The code is that of the program, else that of the backend."""
    write_engine(session, script)
    assert engine.pulumi(session, "destroy", check=False) == code


def test_without_a_waiting_command_the_program_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain `pulumi` may inherit the variable of a command that has ended."""
    monkeypatch.setenv(EXIT_CODE_VARIABLE, str(tmp_path / "gone"))
    report_exit_code(RefusedError("x"))
    monkeypatch.delenv(EXIT_CODE_VARIABLE)
    report_exit_code(RefusedError("x"))
    assert list(tmp_path.iterdir()) == []
    assert read_exit_code(tmp_path / "gone") == ExitCode.FAILED


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('performing HTTP request: Get "https://127.0.0.1:1/api/user": dial tcp 127.0.0.1:1: connection refused', 5),
        ("unable to open bucket file:///x: stat /x: no such file or directory", 5),
        ("no stack named 'dev' found", 1),
        ("incorrect passphrase", 1),
        ("the stack is currently locked by 1 lock(s)", 3),
    ],
)
def test_a_state_that_cannot_be_read(session: Session, message: str, code: int) -> None:
    """A backend without an answer is unreachable; a lock is a guard."""
    write_engine(session, f"cat >&2 <<'END'\nerror: {message}\nEND")
    with pytest.raises(typer.Exit) as ended:
        engine.outputs(session)
    assert ended.value.exit_code == code


def test_an_error_of_a_command_ends_it_with_the_code_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping is in one place for all commands."""
    for error, code in ((TrainstackError("a"), 1), (RefusedError("b"), 3), (ClusterError("c"), 5)):

        def raise_error(*_: object, error: TrainstackError = error) -> None:
            raise error

        monkeypatch.setattr(Session, "open", raise_error)
        result = CliRunner().invoke(app, ["env", "-s", "dev"])
        assert (result.exit_code, result.stderr) == (code, f"error: {error}\n")


def test_the_codes_are_documented_in_the_help_and_on_the_page_of_commands() -> None:
    """Each code has its meaning in both."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {0, *ExitCode, 130}
    help_text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "Exit codes: 0 done, 1 failed, 2 usage, 3 refused by a guard, 4 findings, 5 unreachable" in help_text
