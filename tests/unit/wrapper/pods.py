"""Pods of a run, as processes: the wrapper with a fake command, and what it left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WRAPPER = Path(__file__).parents[3] / "trainstack" / "runs" / "wrapper" / "run.py"
RUN_ID = "digits-0123456789"
DEADLINE_SECONDS = 15
WRITE_RESULT = "import os; open(os.environ['TRAINSTACK_OUTPUT'] + '/metrics.jsonl', 'w').write('{}\\n')"
UNTIL_TOLD = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print('ready', flush=True)
time.sleep(60)
"""
"""A command that says `ready` and stays until SIGTERM."""


def python(code: str, *arguments: str) -> list[str]:
    """A command that runs Python code, without site packages: it starts faster."""
    return [sys.executable, "-S", "-E", "-c", code, *arguments]


@contextmanager
def pod(
    record: Path | None, command: list[str], *, name: str = "pod-a", **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A running wrapper; killed at the end if it still runs. Variables of the test's own process do not reach it."""
    own = {"TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_POD": name, "TRAINSTACK_HEARTBEAT_SECONDS": "0.05"}
    where = {"TRAINSTACK_RECORD": str(record)} if record else {}
    process = subprocess.Popen(
        # Without site packages too: the wrapper has none in a container.
        [sys.executable, "-S", str(WRAPPER), "--", *command],
        env={"PATH": os.environ["PATH"], **own, **where, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # The group, so that a command whose wrapper a test killed goes as well; as PID 1's children do in a container.
        if any_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_SECONDS)


def any_alive(group: int) -> bool:
    """Whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def run(record: Path | None, command: list[str], *, name: str = "pod-a", **environment: str) -> tuple[int, str]:
    """Runs a wrapper to its end: exit code and output."""
    with pod(record, command, name=name, **environment) as process:
        output = process.communicate(timeout=DEADLINE_SECONDS)[0]
        return process.returncode, output


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Reads a wrapper's output up to the line with `text`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {''.join(lines)}")


def wait_until(condition: Callable[[], object]) -> None:
    """Waits for a condition. Fails after the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def read_json(path: Path) -> Any:
    """The JSON of a file."""
    return json.loads(path.read_text())


def tree(folder: Path) -> list[str]:
    """All files below a folder but the claims, whose number depends on the course of things."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "claims" not in path.relative_to(folder).parts
    )
