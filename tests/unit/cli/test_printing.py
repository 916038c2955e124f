"""Names and messages are printed verbatim: without emoji codes and markup."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.cli.output import console
from trainstack.cli.output.console import err, fail, out, show, step
from trainstack.errors import expected_message
from trainstack.files.regular import FileError
from trainstack.preflight.file_checks import SETTINGS
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Violation
from trainstack.runs.errors import WorkloadError
from trainstack.settings.errors import Place

DATA = "training:cat: [bold]x[/bold] [/] [link=x]y [red]"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what both consoles print, as a terminal without colours gets it."""
    stream = io.StringIO()
    for stream_console in (out, err):
        monkeypatch.setattr(stream_console, "_file", stream)
    return stream


def test_data_is_printed_as_it_is(printed: io.StringIO) -> None:
    """The same holds in lines, in titles and heads of tables, in errors and in steps."""
    table = Table(DATA, title=DATA, box=None)
    table.add_row(DATA)
    out.print(DATA)
    err.print(DATA, style="red")
    out.print(table)
    with step(DATA):
        pass
    with pytest.raises(Exception, match="1"):
        fail(DATA)
    assert printed.getvalue().count(DATA) == 8


def test_a_table_for_a_file_prints_data_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has its own console."""
    table = Table(DATA, box=None)
    table.add_row(DATA)
    show(table)
    assert capsys.readouterr().out.count(DATA) == 2


def test_no_console_interprets_data() -> None:
    """All consoles of this module are made by the same function."""
    consoles = [value for value in vars(console).values() if isinstance(value, Console)]
    assert len(consoles) == 2
    assert not any(value._emoji or value._markup for value in consoles)


def test_a_fault_of_a_file_has_no_empty_path() -> None:
    """The form is `file: message; remedy`, with control characters of terminals escaped."""
    fault = Finding.from_violation(SETTINGS, Violation("", "is not there", "write it"), Place("Pulumi.x.yaml"))
    assert str(fault) == "error [settings] Pulumi.x.yaml: is not there; write it"
    nowhere = Finding.from_violation(SETTINGS, Violation("queues", "b\x1b[2J", "", "warning"))
    assert str(nowhere) == "warning [settings] queues: b\\x1b[2J"


@pytest.mark.parametrize("error", [WorkloadError("edited"), FileError(Path("/a"), "is a FIFO"), TypeError("a bug")])
def test_expected_errors_have_a_message_and_bugs_a_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The same holds for every command."""

    def broken(_: object) -> None:
        raise error

    monkeypatch.setattr("trainstack.cli.commands.sweep_expand.list_sweeps", broken)
    result = CliRunner().invoke(app, ["sweep", "expand"])
    expected = {WorkloadError: "error: edited\n", FileError: "error: /a: is a FIFO\n"}.get(type(error))
    if expected is None:
        assert (result.exception, expected_message(error)) == (error, None)
    else:
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", expected)
    assert expected_message(OSError("of no file")) is None
