"""Processes, identified by pid, start and boot: the kernel reuses pids."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str:
    """Return an id that changes at every boot of this machine."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return the start of a live process in clock ticks since boot; None if it has ended or is a zombie."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in parentheses and may contain any character: count from the last parenthesis.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    """Return the pids of a process's direct children."""
    try:
        return [int(child) for child in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def outer_pids(init: int) -> dict[int, int]:
    """Return the pids of processes in this pid namespace, by their pids in the namespace of process `init`."""
    try:
        namespace = (PROC / str(init) / "ns/pid").readlink()
    except OSError:
        return {}
    outer_pid_by_inner: dict[int, int] = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "ns/pid").readlink() != namespace:
                continue
            status = (entry / "status").read_text()
        except OSError:
            continue
        pids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        outer_pid_by_inner[int(pids[-1])] = int(entry.name)
    return outer_pid_by_inner


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that can be identified later, also after a crash or a reboot."""

    pid: int
    started: int
    """Clock ticks since boot."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Return the identity of a live process, or None."""
        started = start_time(pid)
        return None if started is None else cls(pid, started, boot_id())

    def is_alive(self) -> bool:
        """Return whether this process still runs."""
        return self.boot == boot_id() and start_time(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process still runs."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True)
class StartRecord:
    """The record of a cluster's start: the content of `run.json`."""

    init: ProcessIdentity
    """The supervisor, process 1 of the cluster's pid namespace."""
    guard: ProcessIdentity
    """The supervisor's parent outside. If it dies, the kernel kills the supervisor and all processes of the cluster."""
    slot: int
    """Number of the cluster's address slot."""
    started: float
    """Unix time of the start in seconds."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> "StartRecord | None":
        """Read a record; return None if the file is missing, or incomplete after a crash."""
        try:
            data = json.loads(path.read_text())
            return cls(ProcessIdentity(**data["init"]), ProcessIdentity(**data["guard"]), data["slot"], data["started"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def reap(pid: int) -> None:
    """Collect a child of this process if it has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def wait_until(condition: Callable[[], bool], seconds: float, interval: float = 0.05) -> bool:
    """Wait until a condition is true; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True
