"""The engine at work on a stack: its processes, and the moments of its operations, at which something can be done."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.project import Done, Project, eventually


@dataclass(frozen=True)
class Ended:
    """An engine that has ended, by itself or not."""

    done: Done
    moments: int
    struck: bool
    """Whether its moment came, and what was to be done then was done."""
    session: int
    """What all its processes have in common."""


def run(
    project: Project,
    *words: str,
    log: Path,
    moment: int = 0,
    strike: Callable[[int], bool] | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float = 300,
) -> Ended:
    """Run a command of the engine to its end, and at a moment do something.

    Args:
        project: the stack.
        words: the command's.
        log: where the engine tells its events; what it prints is kept beside it.
        moment: how many beginnings and ends of operations on objects are seen first.
        strike: called with the session, until it says that it did what was to be done.
        environment: further variables.
        seconds: within which it must have ended.

    """
    words = (*words, "--yes", "--skip-preview", "--non-interactive", "--stack", project.stack)
    log.unlink(missing_ok=True)
    output = log.with_suffix(".txt")
    with output.open("w") as told:
        engine = subprocess.Popen(
            ["pulumi", *words, "--event-log", str(log)],
            cwd=project.root,
            env={
                **os.environ,
                "KUBECONFIG": str(project.kubeconfig),
                "PYTHONPATH": str(project.root),
                **project.variables,
                **(environment or {}),
                # The engine's flag for the log of its events is one for those who debug it.
                "PULUMI_DEBUG_COMMANDS": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            seen, struck, end = _Moments(log), False, time.monotonic() + seconds
            while engine.poll() is None:
                assert time.monotonic() < end, f"{words[0]} has not ended: {output.read_text()}"
                if strike is not None and not struck and seen.read() >= moment:
                    struck = strike(engine.pid)
                time.sleep(0.002)
        except BaseException:
            end_leftovers(engine.pid)
            raise
        finally:
            engine.wait()
    return Ended(Done(engine.returncode, output.read_text(), ""), seen.read(), struck, engine.pid)


class _Moments:
    """The beginnings and ends of operations on objects, counted as the engine writes them into its log of events."""

    def __init__(self, log: Path) -> None:
        self._log, self._rest, self._offset = log, b"", 0
        self._count = 0

    def read(self) -> int:
        """Take what was written since; how many there are now."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            *whole, self._rest = (self._rest + new).split(b"\n")
            self._count += sum(_is_moment(json.loads(line)) for line in whole)
        return self._count


def _is_moment(event: dict[str, Any]) -> bool:
    told = (event.get("resourcePreEvent") or event.get("resOutputsEvent") or {}).get("metadata") or {}
    return told.get("op") in ("create", "delete") and str(told["type"]).startswith("kubernetes:")


def end_leftovers(session: int) -> None:
    """End what a killed engine left running: its provider looks only now and then whether it still lives."""
    for pid, _ in processes(session):
        os.kill(pid, signal.SIGKILL)
    eventually("nothing of the engine runs", lambda: not list(processes(session)))


def processes(session: int) -> Iterator[tuple[int, str]]:
    """The processes of a session that run, with their words."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(number) == session and state not in "ZX":
            yield int(folder.name), words
