"""The help of `trainstack`: every command in one line, without importing the commands."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trainstack.cli.app import COMMANDS, PANELS, app

ROOT = Path(__file__).resolve().parents[3]


def test_the_summary_is_the_first_line_of_the_commands_help() -> None:
    """`trainstack --help` and `trainstack COMMAND --help` agree."""
    group = typer.main.get_group(app)
    first_lines = {name: (group.commands[name].help or "").split("\n\n")[0] for name in COMMANDS}
    assert first_lines == {name: summary for name, (_, summary) in COMMANDS.items()}


def test_the_help_imports_no_command() -> None:
    """It answers in a tenth of a second; the modules of all commands take ten times as long."""
    program = """
import sys
from trainstack.cli.app import COMMANDS, PANELS, app
try:
    app(["--help"])
except SystemExit:
    pass
imported = {f"trainstack.cli.commands.{module}" for module, _ in COMMANDS.values()} & {*sys.modules}
sys.stderr.write(f"{sorted(imported)}")
"""
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stderr == "[]"
    assert all(name in process.stdout for name in COMMANDS)


def test_each_command_is_under_one_heading() -> None:
    """The help fits 80 columns."""
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)
    stdout = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, stdout.splitlines())) <= 80
    assert all(f"─ {panel} ─" in stdout for panel in PANELS)


@pytest.mark.parametrize("words", [(), ("up",), ("cluster",), ("cluster", "down")])
def test_an_option_without_a_value_has_no_type(words: tuple[str, ...]) -> None:
    """The help of typer calls it `<bool>`."""
    stdout = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100"}).stdout
    assert "--help" in stdout
    assert "<bool>" not in stdout


def test_the_version_is_that_of_the_package() -> None:
    """It is printed on stdout, for scripts."""
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"trainstack {version('trainstack')}\n")


def completed(tmp_path: Path, *lines: str) -> list[list[str]]:
    """Return what bash offers for the last word of each line, by the script that `--show-completion` prints."""
    program = tmp_path / "trainstack"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "
        '"import sys; sys.argv[0] = \'trainstack\'; from trainstack.cli.app import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    script = """
eval "$(trainstack --show-completion)"
for line in "$@"; do
    IFS=' ' read -ra COMP_WORDS <<< "trainstack $line"
    [[ $line = *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _trainstack_completion trainstack
    echo "${COMPREPLY[@]}"
done
"""
    selected = ("TRAINSTACK_STACK", "PULUMI_STACK")
    variables = {name: value for name, value in os.environ.items() if name not in selected}
    variables |= {"PATH": f"{tmp_path}:{variables['PATH']}", "PULUMI_HOME": str(tmp_path)}
    command = ["bash", "--norc", "-c", script, "bash", *lines]
    process = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    return [line.split() for line in process.stdout.splitlines()]


def completed_here(line: str) -> list[str]:
    """Return what is offered for the last word, without a process."""
    words = ["trainstack", *line.split(" ")]
    variables = {
        "_TRAINSTACK_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(app, [], prog_name="trainstack", env=variables)
    assert result.exit_code == 0
    return result.stdout.split()


def test_bash_completes_environments(tmp_path: Path) -> None:
    """The script completes them; the tests below run the same command without a process."""
    assert completed(tmp_path, "env -s pr") == [["prod"]]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("st", ["status"]),
        ("pl", []),
        ("sweep re", ["results", "report"]),
        ("check --j", ["--json"]),
        ("env -s pr", ["prod"]),
    ],
)
def test_commands_options_and_environments_are_completed(
    line: str, offered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands of a group are completed, and environments without a selected one; hidden commands are not offered."""
    monkeypatch.delenv("TRAINSTACK_STACK")
    monkeypatch.chdir(ROOT)
    assert completed_here(line) == offered


def test_all_environments_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are offered for an empty word."""
    monkeypatch.chdir(ROOT)
    assert {"dev", "prod"} <= {*completed_here("env -s ")}
