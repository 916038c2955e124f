"""Runs of the engine: its processes, and the moments of its operations at which a test can intervene."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.project import CommandResult, Project, eventually


@dataclass(frozen=True)
class EngineResult:
    """The result of an engine that has exited or was killed."""

    done: CommandResult
    moments: int
    fault_injected: bool
    """Whether the moment was reached and `inject` succeeded."""
    session: int
    """The session id of all its processes."""


def run(
    project: Project,
    *words: str,
    log: Path,
    moment: int = 0,
    inject: Callable[[int], bool] | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float = 300,
) -> EngineResult:
    """Run a command of the engine to its end, and call `inject` at a moment.

    Args:
        project: the stack.
        words: the command and its arguments.
        log: the engine's event log; its output is written to a file in the same folder.
        moment: the number of starts and ends of operations on objects before the call.
        inject: called with the session until it returns True.
        environment: additional variables.
        seconds: the timeout.

    """
    words = (*words, "--yes", "--skip-preview", "--non-interactive", "--stack", project.stack)
    log.unlink(missing_ok=True)
    output = log.with_suffix(".txt")
    with output.open("w") as output_file:
        engine = subprocess.Popen(
            ["pulumi", *words, "--event-log", str(log)],
            cwd=project.root,
            env={
                **os.environ,
                "KUBECONFIG": str(project.kubeconfig),
                "PYTHONPATH": str(project.root),
                **project.variables,
                **(environment or {}),
                # The engine's flag for the event log requires its debug commands.
                "PULUMI_DEBUG_COMMANDS": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            seen, injected, end = _Moments(log), False, time.monotonic() + seconds
            while engine.poll() is None:
                assert time.monotonic() < end, f"{words[0]} has not ended: {output.read_text()}"
                if inject is not None and not injected and seen.read() >= moment:
                    injected = inject(engine.pid)
                time.sleep(0.002)
        except BaseException:
            end_leftovers(engine.pid)
            raise
        finally:
            engine.wait()
    return EngineResult(CommandResult(engine.returncode, output.read_text(), ""), seen.read(), injected, engine.pid)


class _Moments:
    """A counter of the starts and ends of operations on objects in the engine's event log."""

    def __init__(self, log: Path) -> None:
        self._log, self._rest, self._offset = log, b"", 0
        self._count = 0

    def read(self) -> int:
        """Read the new events and return the number of moments."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            *whole, self._rest = (self._rest + new).split(b"\n")
            self._count += sum(_is_moment(json.loads(line)) for line in whole)
        return self._count


def _is_moment(event: dict[str, Any]) -> bool:
    metadata = (event.get("resourcePreEvent") or event.get("resOutputsEvent") or {}).get("metadata") or {}
    return metadata.get("op") in ("create", "delete") and str(metadata["type"]).startswith("kubernetes:")


def end_leftovers(session: int) -> None:
    """End the processes of a killed engine: its provider checks only at intervals whether the engine still runs."""
    for pid, _ in processes(session):
        os.kill(pid, signal.SIGKILL)
    eventually("nothing of the engine runs", lambda: not list(processes(session)))


def processes(session: int) -> Iterator[tuple[int, str]]:
    """Yield the running processes of a session, with their command lines."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(number) == session and state not in "ZX":
            yield int(folder.name), words
