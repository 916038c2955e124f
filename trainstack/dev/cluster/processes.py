"""Tell processes apart safely: a pid alone may belong to somebody else by now."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str:
    """Changes at every boot of this machine."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Start of a live process in clock ticks since boot; None if there is none or it is a zombie."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may hold anything: count from the last one.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    try:
        return [int(child) for child in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def outer_pids(init: int) -> dict[int, int]:
    """Pid inside the pid namespace of `init` → pid here, of every process in it."""
    try:
        namespace = (PROC / str(init) / "ns/pid").readlink()
    except OSError:
        return {}
    found: dict[int, int] = {}
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
        found[int(pids[-1])] = int(entry.name)
    return found


@dataclass(frozen=True)
class Identity:
    """A process that can be recognised later, after a crash or a reboot too."""

    pid: int
    started: int
    """Clock ticks since boot."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """Identity of a live process."""
        started = start_time(pid)
        return None if started is None else cls(pid, started, boot_id())

    def alive(self) -> bool:
        """Whether that very process still runs."""
        return self.boot == boot_id() and start_time(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True)
class Run:
    """A started cluster: what `run.json` holds."""

    init: Identity
    """The supervisor, process 1 of the cluster's pid namespace."""
    guard: Identity
    """Its parent outside; if it dies, the kernel kills the supervisor, and with it everything."""
    slot: int
    started: float
    """Unix time of the start in seconds."""

    def to_json(self) -> str:
        """The form of `run.json`."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> "Run | None":
        """The run that a file tells of; None if the file is absent or half-written by a machine that crashed."""
        try:
            data = json.loads(path.read_text())
            return cls(Identity(**data["init"]), Identity(**data["guard"]), data["slot"], data["started"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def reap(pid: int) -> None:
    """Collect a dead child, if it is one of ours."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def wait_until(condition: Callable[[], bool], seconds: float, interval: float = 0.05) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True
