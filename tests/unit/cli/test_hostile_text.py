"""Text of pods, servers, volumes and files reaches no terminal with what controls it."""

import ast
import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.cli.commands import sweep_expand
from trainstack.cli.output import console, progress
from trainstack.cli.output.console import (
    err,
    fail,
    make_table,
    make_text,
    out,
    print_with_prefix,
    report,
    show,
    show_json,
    step,
)
from trainstack.printable import clean, clean_colored, printable

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = {
    "colors": "\x1b[31;8mx\x1b[m",
    "cursor": "\x1b[2J\x1b[1;1H\x1b[1A",
    "title": "\x1b]0;pwned\x07",
    "title without an end": "\x1b]2;pwned",
    "link": "\x1b]8;;https://evil.example\x1b\\docs\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "device control": "\x1bP$q\x1b\\\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\",
    "reset": "\x1bc\x1b(0\x1b=\x1b7",
    "8-bit": "\x9b2J\x9d0;x\x9c\x90q\x9c",
    "nested": "\x1b\x1b[31m[2J",
    "cut": "\x1b[",
    "overwritten": "ok\rfailed\x08\x08\x7f",
    "bell and shift": "\x00\x05\x07\x0e\x0f",
    "breaks": "a\x0bb\x0cc\x85d\u2028e\u2029f\x1cg",
    "bidirectional": "\u202eevil\u202c\u2066x\u2069\u061c\u200f\u200e",
    "invisible": "a\u200bb\u2060c\ufeffd\u00ade\U000e0041f\u180eg",
    "no text": "\udcff\ud800\ue000",
}
"""What text may contain, by its effect."""

ANY = st.text(
    st.one_of(st.sampled_from("\x1b[]m0;8\\\x07\x9b\x9d\r\n\t\u202e\u2066aJPX"), st.characters()), max_size=80
)


def controls(text: str) -> list[str]:
    """Return the characters that a terminal would not show as they are."""
    return [char for char in text if not char.isprintable() and char not in "\n\t\u3000\u00a0\u202f"]


@given(ANY)
def test_clean_text_is_shown_as_it_is_and_stays_so(text: str) -> None:
    """The same holds for text with colors, once those are removed; printable text is unchanged."""
    cleaned = clean(text)
    assert not [char for char in cleaned if not char.isprintable() and char not in "\n\t" and not char.isspace()]
    assert not re.search(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", cleaned)
    assert clean(cleaned) == cleaned
    assert clean(clean_colored(text)) == cleaned
    assert not controls(re.sub(r"\x1b\[[0-9;]*m", "", clean_colored(text)).translate(dict.fromkeys(map(ord, _SPACES))))
    if text.isprintable():
        assert text == cleaned == printable(text)


_SPACES = "\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u205f"


def test_colors_of_a_program_are_kept_without_hidden_text() -> None:
    """The engine colors its output; a message in it cannot hide other text."""
    assert clean_colored("\x1b[38;5;13m\x1b[1mwarning\x1b[0m\x1b[m") == "\x1b[38;5;13m\x1b[1mwarning\x1b[0m\x1b[m"
    assert clean_colored("\x1b[8mx\x1b[2Ky\x1b[1;8mz\x1b]0;t\x07") == "xyz"


def printers(text: str) -> dict[str, Callable[[], object]]:
    """Return the ways in which commands print a text."""
    table = Table(text, title=text)
    table.add_row(text)
    table.add_row(Text(text))
    return {
        "out": lambda: out.print(text),
        "err": lambda: err.print(text, style="red"),
        "Text": lambda: out.print(Text.assemble((text, "red"), text), make_text(text, "red")),
        "appended": lambda: out.print(Text("x").append(text)),
        "table": lambda: show(make_table([text], [[text, Text(text)]], fold=[text])),
        "Table": lambda: out.print(table),
        "group": lambda: out.print(Group(text, Text(text), Panel(text, title=text, subtitle=Text(text)))),
        "log": lambda: print_with_prefix("master-0 │ ", text),
        "report": lambda: report(text),
        "write": lambda: console.write(text),
        "json": lambda: show_json({text: [text]}),
        "engine's json": lambda: console.write_json(f'"{text}"' if text.isprintable() else json.dumps(text)),
        "step": lambda: _enter(step(text, text)),
        "bar": lambda: _bar(text),
        "fail": lambda: _ended(text),
        "steps": lambda: console.show_steps(text, [text], dry_run=False),
        "live": lambda: _live(text),
    }


def _enter(block: object) -> None:
    with block:  # type: ignore[attr-defined]
        pass


def _bar(text: str) -> None:
    with progress.bar(text, 3) as advance:
        advance(1)


def _ended(text: str) -> None:
    with pytest.raises(typer.Exit):
        fail(text)


def _live(text: str) -> None:
    with Live(console=out, auto_refresh=False) as live:
        live.update(Group(text, Text(text), make_table(["a"], [[text]])), refresh=True)
        live.console.print(text)


def capture(monkeypatch: pytest.MonkeyPatch, place: str, printer: Callable[[], object]) -> str:
    """Return what is printed on both streams, to a pipe or to a terminal of 60 columns without colors."""
    for each in (out, err):
        monkeypatch.setattr(each, "_color_system", None)
        if place == "terminal":
            monkeypatch.setattr(each, "_force_terminal", True)
            monkeypatch.setattr(each, "_width", 60)
    for interval in ("LINE_SECONDS", "UPDATE_SECONDS"):
        monkeypatch.setattr(progress, interval, -1)
    stream = io.StringIO()
    with redirect_stdout(stream), redirect_stderr(stream):
        printer()
    return stream.getvalue()


OWN = r"\x1b\[\??[0-9;]*[A-Za-z]|\r"
"""The sequences of a live view."""


@pytest.mark.parametrize("place", ["pipe", "terminal"])
@pytest.mark.parametrize("printer", printers(""))
def test_nothing_that_is_printed_controls_a_terminal(monkeypatch: pytest.MonkeyPatch, place: str, printer: str) -> None:
    """A live view and a bar move the cursor as for harmless text."""
    usual = capture(monkeypatch, place, printers("harmless")[printer])
    assert "harmless" in usual
    for text in HOSTILE.values():
        printed = capture(monkeypatch, place, printers(text)[printer])
        assert not controls(re.sub(OWN, "", printed)), (text, printed)
        assert {*re.findall(OWN, printed)} <= {*re.findall(OWN, usual)}, (text, printed)


@pytest.mark.parametrize("place", ["pipe", "terminal"])
def test_each_line_of_a_log_keeps_its_replica(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """A carriage return could otherwise make a line look like another replica's."""
    line = "10%\r20%\u2028worker-0 │ done"
    printed = capture(monkeypatch, place, lambda: print_with_prefix("master-0 │ ", line))
    assert printed == "master-0 │ 10%\nmaster-0 │ 20%\nmaster-0 │ worker-0 │ done\n"


def test_json_is_read_back_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes are JSON's own, also in the engine's JSON, which has characters beyond ASCII."""
    console.write_json(json.dumps({"a": "é\u202e\x7f\x9b🙂"}, ensure_ascii=False))
    printed = capsys.readouterr().out
    assert (printed.isascii(), json.loads(printed)) == (True, {"a": "é\u202e\x7f\x9b🙂"})


@pytest.mark.parametrize("error", [OSError(2, "gone", "a\x1b[2Jb"), ValueError("\x1b]0;x\x07")], ids=["error", "bug"])
def test_the_texts_of_errors_are_clean(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A bug keeps its traceback, which `standard_streams` prints."""

    def broken(_: object) -> None:
        raise error

    monkeypatch.setattr(sweep_expand, "list_sweeps", broken)
    result = CliRunner().invoke(app, ["sweep", "expand"])
    assert not controls(result.output)


WRITERS = {
    "console.py": "all text passes through it",
    "standard_streams.py": "it makes the streams",
    "env.py": "a shell evaluates the exact values",
    "files.py": "a name on a volume is bytes",
}
"""The modules of commands that use a standard stream themselves, and why."""


def uses_of_streams(file: Path) -> list[str]:
    """Return what a module writes past the console: streams, `print`, echoes and consoles of its own."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "typer.echo", "typer.secho", "rich.print", "Console", "os.write"):
                found.append(called)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr", "sys.__stdout__"):
            found.append(ast.unparse(node))
    return found


def test_commands_print_only_through_the_console() -> None:
    """So a new command's output is clean."""
    writers = {file.name for file in (ROOT / "trainstack" / "cli").rglob("*.py") if uses_of_streams(file)}
    assert writers == set(WRITERS)
    assert uses_of_streams(ROOT / "trainstack/cli/commands/files.py") == ["typer.echo"]


def test_no_program_inherits_the_output_of_a_command() -> None:
    """Its text would reach the terminal as it is."""
    inheriting = []
    for file in (ROOT / "trainstack").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen"):
                given_names = {keyword.arg for keyword in node.keywords}
                if not {"stdout", "capture_output"} & given_names:
                    inheriting.append(file.relative_to(ROOT).as_posix())
    assert inheriting == []
