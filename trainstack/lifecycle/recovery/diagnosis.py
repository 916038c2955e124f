"""All problems of an environment's state."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.loaders import WaitingLoader, loader_troubles
from trainstack.lifecycle.recovery.locks import StateFiles, files_troubles, lock_troubles
from trainstack.lifecycle.recovery.objects import (
    Seen,
    pending_troubles,
    recorded_troubles,
    stuck_troubles,
    unrecorded,
    unrecorded_troubles,
)
from trainstack.lifecycle.recovery.problem import RecoveryCommands, Trouble
from trainstack.lifecycle.recovery.state import State
from trainstack.objects.ownership import Identity


@dataclass(frozen=True)
class Diagnosis:
    troubles: tuple[Trouble, ...]
    commands: tuple[str, ...]
    """The commands that repair all of them, in order."""


def diagnose_files(files: StateFiles | None, stack: str) -> Diagnosis | None:
    """Return the problems that prevent any further diagnosis: a running operation, or an unreadable state."""
    if files is None:
        return None
    recovery = RecoveryCommands(stack)
    running = [trouble for trouble in lock_troubles(files.locks, recovery) if trouble.id == "operation-running"]
    found = running or [*files_troubles(files, recovery)]
    return Diagnosis(tuple(found), recovery.commands(found)) if found else None


def diagnose(
    *,
    stack: str,
    files: StateFiles | None,
    state: State,
    seen: Seen | None,
    retained: Collection[Identity],
    declared: Callable[[], Collection[Identity] | None],
    loaders: Collection[WaitingLoader] = (),
    now: datetime,
) -> Diagnosis:
    """Return all problems of a stack whose state is readable.

    `files`: None for another backend than a local one. `seen`: None if the cluster cannot be read. `retained`: the
    objects that `destroy` leaves in the cluster. `declared`: returns the declared objects, or None if they are unknown;
    called only if an object is not in the state. `loaders`: of commands, not started.
    """
    recovery = RecoveryCommands(stack)
    troubles = lock_troubles(files.locks, recovery) if files else []
    troubles += pending_troubles(state, seen, recovery)
    if seen is not None:
        troubles += recorded_troubles(state, seen, stack, recovery)
        if found := unrecorded(state, seen, stack, retained):
            troubles += unrecorded_troubles(found, state.identity, declared(), recovery)
        troubles += stuck_troubles(seen, now)
        troubles += loader_troubles(loaders, now)
    return Diagnosis(tuple(troubles), recovery.commands(troubles))
