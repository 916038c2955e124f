"""Pods of a run as processes: the wrapper with a fake command, and the files that it leaves."""

import hashlib
import json
import os
import py_compile
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

WRAPPER = Path(__file__).parents[3] / "trainstack" / "runs" / "wrapper" / "run.py"
RUN_ID = "digits-0123456789"
DEADLINE_SECONDS = 15
WRITE_RESULT = "import os; open(os.environ['TRAINSTACK_OUTPUT'] + '/metrics.jsonl', 'w').write('{}\\n')"
HEAD = """
import os, socket, subprocess, sys, time
output, checkpoints = os.environ["TRAINSTACK_OUTPUT"], os.environ["TRAINSTACK_CHECKPOINT"]
def write(path, text="weights"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
"""
"""The beginning of a command that writes files."""
UNTIL_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print('ready', flush=True)
time.sleep(60)
"""
"""A command that prints `ready` and waits for SIGTERM."""


def python(code: str, *arguments: str) -> list[str]:
    """Return a command that runs Python code, without site packages, so that it starts faster."""
    return [sys.executable, "-S", "-E", "-c", code, *arguments]


def command(code: str) -> list[str]:
    """Return a command that runs this code after HEAD."""
    return python(f"{HEAD}\n{code}")


@cache
def compiled() -> str:
    """Return the wrapper's bytecode. Containers run the source, but with it a process takes a third longer to start."""
    return py_compile.compile(str(WRAPPER), doraise=True) or ""


@contextmanager
def pod(
    record: Path | None, command: list[str], *, name: str = "pod-a", **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Start a wrapper, and kill it at the end if it still runs. It does not inherit the test's environment."""
    variables = {"TRAINSTACK_RUN_ID": RUN_ID, "TRAINSTACK_POD": name, "TRAINSTACK_HEARTBEAT_SECONDS": "0.05"}
    record_variable = {"TRAINSTACK_RECORD": str(record)} if record else {}
    process = subprocess.Popen(
        # Also without site packages: the wrapper has none in a container.
        [sys.executable, "-S", compiled(), "--", *command],
        env={"PATH": os.environ["PATH"], **variables, **record_variable, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # Kill the group: a command whose wrapper a test killed must end too, like the children of PID 1 in a container.
        if any_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_SECONDS)


def any_alive(group: int) -> bool:
    """Return whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def run(record: Path | None, command: list[str], *, name: str = "pod-a", **environment: str) -> tuple[int, str]:
    """Run a wrapper to its end, and return exit code and output."""
    with pod(record, command, name=name, **environment) as process:
        output = process.communicate(timeout=DEADLINE_SECONDS)[0]
        return process.returncode, output


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read a wrapper's output up to the line with `text`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {''.join(lines)}")


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition, and fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def read_json(path: Path) -> Any:
    """Return the JSON of a file."""
    return json.loads(path.read_text())


def tree(folder: Path) -> list[str]:
    """Return all files below a folder except the claims, whose number depends on timing."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "claims" not in path.relative_to(folder).parts
    )


def published(record: Path) -> dict[str, bytes]:
    """Return the content of each file of the result, after checking that run.json lists exactly these files."""
    result = record / "result"
    assert not [path for path in result.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
    contents = {name: (result / name).read_bytes() for name in tree(result) if name != ".run.json"}
    entries = {
        f"result/{name}": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for name, content in contents.items()
    }
    assert read_json(record / "run.json")["files"] == entries
    return contents
