"""Measure a command: wall time, and processor time and memory of its whole process tree, from /proc."""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from bench.audit import counted
from bench.case import Arm, Command
from bench.results import Sample
from trainstack.errors import TrainstackError

DEADLINE_SECONDS = 7200.0
"""The limit of one command. Without it, a command that waits forever would keep the benchmark and its cluster."""
_INTERVAL_MILLISECONDS = 50
_TICK = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Places in /proc/PID/stat after the name, counted from the state."""
_PROC = Path("/proc")
OTHER = "other"
"""The CPU seconds of processes that ended between two samples."""


class BenchError(TrainstackError):
    """A benchmark cannot be measured. The message has the command and its output."""


def measure(arm: Arm, audit_log: Path | None = None) -> Sample:
    """Run an arm once. Raises BenchError if its command fails, does not end, or reports no seconds."""
    offset = audit_log.stat().st_size if audit_log else 0
    members = arm.members() if arm.members else set[int]()
    before = cpu_of(members)
    began = time.monotonic()
    tree, total, output = _run(arm.command)
    arm.until()
    wall = time.monotonic() - began
    arm.check(output)
    cpu = tree.cpu_seconds(total)
    if arm.members:
        after = cpu_of(arm.members())
        cpu = {name: round(seconds - before.get(name, 0.0), 3) for name, seconds in after.items()}
    elif arm.reports:
        wall, cpu = _reported(arm.command, output)
    writes, dry_runs = counted(audit_log, offset) if audit_log else (None, None)
    return Sample(
        wall_seconds=round(wall, 3),
        cpu_seconds=cpu,
        peak_bytes=None if arm.reports or arm.members else tree.peak_bytes,
        api_writes=writes,
        api_dry_runs=dry_runs,
        state_bytes=arm.state.stat().st_size if arm.state else None,
    )


def _run(command: Command) -> tuple["Tree", float, str]:
    """Run a command to its end; return its process tree, the CPU seconds of all that it waited for, and its output."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command.words,
            cwd=command.folder,
            env=command.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            tree = Tree(process.pid)
            total = _watch(process, tree, command)
        except BaseException:
            process.kill()
            process.wait()
            raise
        text = _text(output)
    if process.returncode:
        raise BenchError(
            f"`{' '.join(command.words)}` in {command.folder} exited with {process.returncode}:\n{text[-4000:]}"
        )
    return tree, total, text


def _watch(process: "subprocess.Popen[bytes]", tree: "Tree", command: Command) -> float:
    """Sample the tree until the process has ended; return its CPU seconds, with those of the children it waited for."""
    end, deadline = os.pidfd_open(process.pid), time.monotonic() + DEADLINE_SECONDS
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        while not poll.poll(_INTERVAL_MILLISECONDS):
            if time.monotonic() > deadline:
                raise BenchError(f"`{' '.join(command.words)}` did not end within {DEADLINE_SECONDS:g} s")
            tree.sample()
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        os.close(end)
    # Popen did not see the end, and would wait for another process of this pid.
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")


def _reported(command: Command, output: str) -> tuple[float, dict[str, float]]:
    """Return the wall and CPU seconds that a program printed."""
    try:
        seconds = json.loads(output.strip().splitlines()[-1])
        return float(seconds["wall_seconds"]), {"python": float(seconds["cpu_seconds"])}
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"`{' '.join(command.words)}` printed no seconds: {error!r}\n{output[-4000:]}") from error


class Tree:
    """A process and its descendants, sampled repeatedly."""

    def __init__(self, root: int, proc: Path = _PROC) -> None:
        self.peak_bytes = 0
        self._root, self._proc = root, proc
        self._names: dict[int, str] = {}
        self._seconds: dict[int, float] = {}
        self._foreign: set[int] = set()
        """Processes that existed and were not descendants: they never become some."""

    def sample(self) -> None:
        """Record the processor time of each process, and the memory of all of them."""
        pids = {int(entry.name) for entry in os.scandir(self._proc) if entry.name.isdecimal()}
        self._foreign &= pids
        stats = {pid: stat for pid in pids - self._foreign if (stat := _stat(self._proc, pid))}
        members = descendants(self._root, {pid: int(stat[_PARENT]) for pid, stat in stats.items()})
        # A process whose parent ended belongs to another one now.
        members |= self._names.keys() & stats.keys()
        self._foreign |= stats.keys() - members
        for pid in members & stats.keys():
            # An ended process that its parent has not waited for has no arguments.
            if name := program_name(_read(self._proc / str(pid) / "cmdline").split("\0")):
                self._names[pid] = name
            self._seconds[pid] = (int(stats[pid][_USER]) + int(stats[pid][_SYSTEM])) / _TICK
        self.peak_bytes = max(self.peak_bytes, sum(_pss(self._proc, pid) for pid in members))

    def cpu_seconds(self, total: float) -> dict[str, float]:
        """Return CPU seconds by program. `total` includes the use between samples; the difference is `other`."""
        seconds: dict[str, float] = {}
        for pid, used in self._seconds.items():
            name = self._names.get(pid, OTHER)
            seconds[name] = seconds.get(name, 0.0) + used
        rest = max(total - sum(seconds.values()), 0.0)
        # The rest of a command of one program is its own.
        owner = next(iter(seconds)) if len(seconds) == 1 else OTHER
        seconds[owner] = seconds.get(owner, 0.0) + rest
        return {name: round(used, 4) for name, used in seconds.items() if used}


def descendants(root: int, parents: dict[int, int]) -> set[int]:
    """Return the root and all processes below it."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, waiting = set[int](), [root]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def program_name(argv: Sequence[str]) -> str:
    """Return the name of a program; of a Python program, that of its script or module. Empty without arguments."""
    words = [word for word in argv if word]
    if not words:
        return ""
    name = Path(words[0]).name
    if not name.startswith("python"):
        return name
    for word, following in zip(words[1:], [*words[2:], ""], strict=True):
        if word == "-m":
            return f"python {following}"
        if word == "-c":
            break
        if not word.startswith("-"):
            return f"python {Path(word).name}"
    return "python"


def cpu_of(pids: Iterable[int], proc: Path = _PROC) -> dict[str, float]:
    """Return the CPU seconds that processes have used since their start, by program."""
    seconds: dict[str, float] = {}
    for pid in pids:
        if stat := _stat(proc, pid):
            name = program_name(_read(proc / str(pid) / "cmdline").split("\0")) or OTHER
            seconds[name] = seconds.get(name, 0.0) + (int(stat[_USER]) + int(stat[_SYSTEM])) / _TICK
    return seconds


def _stat(proc: Path, pid: int) -> list[str]:
    """Return the fields after the name, which may contain spaces; [] if the process has ended."""
    return _read(proc / str(pid) / "stat").rpartition(")")[2].split()


def _pss(proc: Path, pid: int) -> int:
    """Return the bytes of a process, with its share of pages that others map too."""
    for line in _read(proc / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
