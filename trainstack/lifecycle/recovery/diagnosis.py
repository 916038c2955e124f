"""The diagnosis of an environment's state: all problems, and the commands that repair them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.integrity import StateFault, refused_state_problem
from trainstack.lifecycle.recovery.loaders import WaitingLoader, loader_problems
from trainstack.lifecycle.recovery.lock_problems import StateFiles, lock_problems, state_file_problems
from trainstack.lifecycle.recovery.object_problems import (
    LiveObjects,
    find_unrecorded_objects,
    pending_problems,
    recorded_problems,
    stuck_problems,
    unrecorded_problems,
)
from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.restore_advice import Backup
from trainstack.lifecycle.recovery.state import EngineState
from trainstack.objects.ownership import Identity


@dataclass(frozen=True)
class Diagnosis:
    """Problems with their repair."""

    problems: tuple[Problem, ...]
    commands: tuple[str, ...]
    """The commands that repair all problems, in order."""

    def with_problems(self, additional_problems: Iterable[Problem], recovery: RecoveryCommands) -> "Diagnosis":
        problems = (*self.problems, *additional_problems)
        return Diagnosis(problems, recovery.commands(problems))


def diagnose_files(files: StateFiles | None, stack: str) -> Diagnosis | None:
    """Return the problems that prevent any further diagnosis: a running operation, or an unreadable state."""
    if files is None:
        return None
    recovery = RecoveryCommands(stack)
    running_operations = [
        problem for problem in lock_problems(files.locks, recovery) if problem.id == "operation-running"
    ]
    problems = running_operations or [*state_file_problems(files, recovery)]
    return Diagnosis(tuple(problems), recovery.commands(problems)) if problems else None


def diagnose_refused(
    state_faults: tuple[StateFault, ...], name: str, files: StateFiles | None, backup: Backup | None, stack: str
) -> Diagnosis:
    """Return the problems of a state that the engine refuses, which prevent any further diagnosis."""
    recovery = RecoveryCommands(stack)
    problems = lock_problems(files.locks, recovery) if files else []
    problems.append(refused_state_problem(state_faults, name, backup, recovery))
    return Diagnosis(tuple(problems), recovery.commands(problems))


def diagnose(
    *,
    stack: str,
    files: StateFiles | None,
    state: EngineState,
    live_objects: LiveObjects | None,
    retained: Collection[Identity],
    read_declared_identities: Callable[[], Collection[Identity] | None],
    loaders: Collection[WaitingLoader] = (),
    now: datetime,
) -> Diagnosis:
    """Return all problems of a stack whose state is readable.

    Args:
        stack: the name of the stack.
        files: the files of a local backend; None for another backend.
        state: the engine's state.
        live_objects: None if the cluster cannot be read.
        retained: the objects that `destroy` leaves in the cluster.
        read_declared_identities: returns the declared objects, or None if they are unknown. It is slow, and called only
            if a live object is not in the state.
        loaders: the data loaders of commands that have not started.
        now: the time by which durations are computed.

    """
    recovery = RecoveryCommands(stack)
    problems = lock_problems(files.locks, recovery) if files else []
    problems += pending_problems(state, live_objects, recovery)
    if live_objects is not None:
        problems += recorded_problems(state, live_objects, stack, recovery)
        if unrecorded_objects := find_unrecorded_objects(state, live_objects, stack, retained):
            problems += unrecorded_problems(unrecorded_objects, state.identity, read_declared_identities(), recovery)
        problems += stuck_problems(live_objects, now)
        problems += loader_problems(loaders, now)
    return Diagnosis(tuple(problems), recovery.commands(problems))
