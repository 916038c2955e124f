"""The engine's output is copied to its end, also when nobody reads it any more and after a Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import typer

from trainstack.cli.output.copied_output import run_and_copy

PROGRAM = """
import sys, time
print("one", flush=True)
print("error", file=sys.stderr, flush=True)
sys.stdout.buffer.write(b"bar 1\\rbar 2\\xff\\n")
sys.stdout.flush()
open("running", "w").close()
while not __import__("os").path.exists("go"):
    time.sleep(0.01)
print("two")
open("done", "w").close()
sys.exit(7)
"""
INTERRUPTED = f"""
import os, signal, sys
from pathlib import Path
from trainstack.cli.output.copied_output import run_and_copy

def interrupt(*_):
    Path("interrupted").touch()
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
try:
    run_and_copy([sys.executable, "-c", {PROGRAM!r}], Path(), os.environ, sys.stdout.write, sys.stderr.write)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_each_line_is_copied_until_the_program_ends(tmp_path: Path) -> None:
    """A reader that leaves does not interrupt the program, which may be changing a cluster."""
    (tmp_path / "go").touch()
    lines: list[str] = []
    errors: list[str] = []

    def leave(line: str) -> None:
        lines.append(line)
        raise typer.Exit(1)

    assert run_and_copy([sys.executable, "-c", PROGRAM], tmp_path, os.environ, leave, errors.append) == 7
    assert (lines, errors) == (["one\n", "bar 1\n", "bar 2\\xff\n", "two\n"], ["error\n"])
    assert (tmp_path / "done").exists()


def test_an_interrupt_waits_for_the_program(tmp_path: Path) -> None:
    """The program has received it too, and completes what it has begun; its last lines are printed."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "running").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        while not (tmp_path / "interrupted").exists():
            time.sleep(0.01)
        (tmp_path / "go").touch()
        assert process.stdout is not None
        assert process.stdout.read().splitlines()[-1] == "two"
    assert process.returncode == 130
    assert (tmp_path / "done").exists()
