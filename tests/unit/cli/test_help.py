"""The help of `trainstack`: every command in one line, without importing the commands."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from trainstack.cli.app import COMMANDS, app

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_line_of_the_commands_help(name: str) -> None:
    """So that `trainstack --help` and `trainstack COMMAND --help` agree."""
    group = typer.main.get_group(app)
    assert (group.commands[name].help or "").split("\n\n")[0] == COMMANDS[name][1]


def test_the_help_imports_no_command() -> None:
    """It answers in a tenth of a second; the modules of all commands take ten times as long."""
    program = """
import sys
from trainstack.cli.app import COMMANDS, app
try:
    app(["--help"])
except SystemExit:
    pass
imported = {f"trainstack.cli.{module}" for module, _ in COMMANDS.values()} & {*sys.modules}
sys.stderr.write(f"{sorted(imported)}")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]"
    assert all(name in done.stdout for name in COMMANDS)
