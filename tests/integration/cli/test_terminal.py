"""Every message is visible, whatever the terminal and its variables are."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

COMMAND = [sys.executable, "-m", "trainstack.cli", "explain", "nonsense"]
MESSAGE = "error: unknown rule nonsense; `trainstack explain` lists all rules"


@pytest.mark.parametrize(
    "variables",
    [
        {"COLUMNS": "0", "LINES": "0"},
        {"COLUMNS": "²"},
        {"COLUMNS": "9" * 5000, "LINES": "-1"},
        {"TERMINAL_WIDTH": "abc"},
        {"TERM": "", "NO_COLOR": "1", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1"},
        {"TERM": "nonsense-\x1b[2J", "COLORTERM": "\x1b", "FORCE_COLOR": "3", "PYTHONIOENCODING": "ascii"},
    ],
    ids=" ".join,
)
def test_a_message_and_a_usage_error_are_complete(variables: dict[str, str]) -> None:
    """One is printed by the console, the other by the library that parses arguments."""
    for command, expected in ((COMMAND, MESSAGE), ([*COMMAND[:3], "nonsense"], "No such command 'nonsense'.")):
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert expected in re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)


@pytest.mark.parametrize(("columns", "lines"), [(0, 0), (1, 1), (39, 5)])
def test_a_small_terminal_gets_every_message(columns: int, lines: int) -> None:
    """The terminal wraps what is longer than its lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(COMMAND, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    printed = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 2
    assert MESSAGE in re.sub(r"\x1b\[[0-9;]*m", "", printed)
