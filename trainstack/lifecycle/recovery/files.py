"""A folder of states, as far as a kill can harm it: locks, and files that cannot be read.

Pure: what was read of the folder and of this machine's processes comes in, troubles go out.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.problem import Mending, Trouble


@dataclass(frozen=True)
class Lock:
    """What stands where locks are: the engine takes every file there for one."""

    file: str
    pid: int = 0
    user: str = ""
    host: str = ""
    since: datetime | None = None
    """When it was taken; None where the file cannot be read: its writer was killed."""
    alive: bool | None = None
    """Whether its process still runs; None where that cannot be told from this machine."""


@dataclass(frozen=True)
class StateFiles:
    """The files of one stack in a folder of states."""

    locks: tuple[Lock, ...] = ()
    sidecars: tuple[str, ...] = ()
    """The `.attrs` files that cannot be read: the engine refuses the file beside them."""
    checkpoint: str = ""
    """The state's own file, where it is there and cannot be read."""
    backup: bool = False
    """Whether the state before it can be read."""


def files_troubles(files: StateFiles, mending: Mending) -> Iterator[Trouble]:
    """What of the files keeps the engine from reading the state."""
    if files.sidecars:
        names = " ".join(shlex.quote(each) for each in files.sidecars)
        yield Trouble(
            "sidecar-unreadable",
            files.sidecars[0]
            if len(files.sidecars) == 1
            else f"{files.sidecars[0]} and {len(files.sidecars) - 1} more",
            "a kill left it unfinished, and the engine refuses to read the file beside it. Nothing needs what it held",
            (f"rm -- {names}",),
        )
    if files.checkpoint:
        file, kept = shlex.quote(files.checkpoint), shlex.quote(f"{files.checkpoint}.unreadable")
        before = shlex.quote(f"{files.checkpoint}.bak")
        yield Trouble(
            "state-unreadable",
            files.checkpoint,
            "it is no JSON. The state of one step before is beside it, and what happened since is found in the cluster"
            if files.backup
            else "neither it nor its backup is valid JSON. Restore it from a copy if there is one. With a new state, "
            "the first `up` prints the identity of the lost one; `cluster.takeOver` takes over its objects",
            (f"mv -- {file} {kept}", f"cp -- {before} {file}", mending.refresh, mending.up)
            if files.backup
            else (f"mv -- {file} {kept}", f"pulumi stack init {mending.stack}", mending.up),
        )


def lock_troubles(locks: Sequence[Lock], mending: Mending) -> list[Trouble]:
    """Who holds the stack. A lock whose process runs comes alone: `pulumi cancel` would remove it with the others."""
    held = [each for each in locks if each.alive]
    elsewhere = [each for each in locks if each.alive is None and each.since is not None]
    if held:
        return [
            Trouble(
                "operation-running",
                each.file,
                f"process {each.pid} of {each.user} works on the stack since {each.since:%Y-%m-%d %H:%M:%S}; nothing "
                "else may, until it ends",
                (f"tail --pid={each.pid} -f /dev/null",),
            )
            for each in held
        ]
    if elsewhere:
        return [
            Trouble(
                "lock-elsewhere",
                each.file,
                f"{each.user} on {each.host} has held it since {each.since:%Y-%m-%d %H:%M:%S} (process {each.pid}). "
                f"Whether that process still runs can be told there alone; if it does not: {mending.cancel}",
                (f"ssh {shlex.quote(f'{each.user}@{each.host}')} ps -fp {each.pid}",),
            )
            for each in elsewhere
        ]
    return [Trouble("lock-stale", each.file, _stale(each), (mending.cancel,)) for each in locks]


def _stale(lock: Lock) -> str:
    if lock.since is None:
        return "its writer was killed before it was whole, and the engine takes it for a lock"
    return f"process {lock.pid} of {lock.user}, which took it at {lock.since:%Y-%m-%d %H:%M:%S}, has ended"
