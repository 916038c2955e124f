"""Problems of a local backend after a killed operation: locks and unreadable files. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.restore_advice import Backup, restore_advice


@dataclass(frozen=True)
class StateLock:
    """A file in the folder of locks. The engine treats every file there as a lock."""

    file: str
    pid: int = 0
    user: str = ""
    host: str = ""
    since: datetime | None = None
    """None if the file is unreadable, because its writer was killed."""
    is_alive: bool | None = None
    """Whether its process is running; None if it is on another machine."""


@dataclass(frozen=True)
class StateFiles:
    """The locks and the unreadable files of a local backend."""

    locks: tuple[StateLock, ...] = ()
    sidecars: tuple[str, ...] = ()
    """Unreadable `.attrs` files: the engine does not read the files that they belong to."""
    checkpoint: str = ""
    """The state's file, if it exists and is unreadable."""
    has_usable_backup: bool = False
    """Whether the engine accepts the backup of an unreadable state."""


def state_file_problems(files: StateFiles, recovery: RecoveryCommands) -> Iterator[Problem]:
    """Yield the problems of unreadable files."""
    if files.sidecars:
        first_sidecar, *other_sidecars = files.sidecars
        yield Problem(
            "sidecar-unreadable",
            f"{first_sidecar} and {len(other_sidecars)} more" if other_sidecars else first_sidecar,
            "a killed operation did not complete the file, so the engine does not read the file that it belongs to. "
            "Its content is not needed",
            (f"rm -- {' '.join(map(shlex.quote, files.sidecars))}",),
        )
    if files.checkpoint:
        advice, commands = restore_advice(Backup(files.checkpoint, files.has_usable_backup), recovery)
        yield Problem("state-unreadable", files.checkpoint, f"the file is not valid JSON. {advice}", commands)


def lock_problems(locks: Sequence[StateLock], recovery: RecoveryCommands) -> list[Problem]:
    """Return the problems of active locks; without any, of locks of other machines; without these, of stale ones.

    `pulumi cancel` removes all locks, so it must not be the remedy of a stale one while another is active.
    """
    active_locks = [lock for lock in locks if lock.is_alive]
    remote_locks = [lock for lock in locks if lock.is_alive is None and lock.since is not None]
    return [_lock_problem(lock, recovery) for lock in active_locks or remote_locks or locks]


def _lock_problem(lock: StateLock, recovery: RecoveryCommands) -> Problem:
    if lock.since is None and not lock.is_alive:
        message = "its writer was killed before it completed the file, which the engine takes for a lock"
        return Problem("lock-stale", lock.file, message, (recovery.cancel,))
    process, since = f"process {lock.pid} of {lock.user}", f"{lock.since:%Y-%m-%d %H:%M:%S}"
    if lock.is_alive:
        message = f"{process} has been changing the stack since {since}; wait until it ends"
        return Problem("operation-running", lock.file, message, (f"tail --pid={lock.pid} -f /dev/null",))
    if lock.is_alive is None:
        message = (
            f"{lock.user} on {lock.host} has held it since {since} (process {lock.pid}). Check on that machine whether "
            f"the process is running; if it is not: {recovery.cancel}"
        )
        command = f"ssh {shlex.quote(f'{lock.user}@{lock.host}')} ps -fp {lock.pid}"
        return Problem("lock-elsewhere", lock.file, message, (command,))
    return Problem("lock-stale", lock.file, f"{process}, which took it at {since}, has ended", (recovery.cancel,))
