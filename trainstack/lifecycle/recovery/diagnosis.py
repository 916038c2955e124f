"""All problems of an environment's state."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.integrity import Fault, refused_problem
from trainstack.lifecycle.recovery.loaders import WaitingLoader, loader_problems
from trainstack.lifecycle.recovery.locks import StateFiles, files_problems, lock_problems
from trainstack.lifecycle.recovery.objects import (
    Seen,
    pending_problems,
    recorded_problems,
    stuck_problems,
    unrecorded,
    unrecorded_problems,
)
from trainstack.lifecycle.recovery.problem import Problem, RecoveryCommands
from trainstack.lifecycle.recovery.restore import Backup
from trainstack.lifecycle.recovery.state import State
from trainstack.objects.ownership import Identity


@dataclass(frozen=True)
class Diagnosis:
    problems: tuple[Problem, ...]
    commands: tuple[str, ...]
    """The commands that repair all of them, in order."""

    def with_problems(self, more: Iterable[Problem], recovery: RecoveryCommands) -> "Diagnosis":
        problems = (*self.problems, *more)
        return Diagnosis(problems, recovery.commands(problems))


def diagnose_files(files: StateFiles | None, stack: str) -> Diagnosis | None:
    """Return the problems that prevent any further diagnosis: a running operation, or an unreadable state."""
    if files is None:
        return None
    recovery = RecoveryCommands(stack)
    running_operations = [
        problem for problem in lock_problems(files.locks, recovery) if problem.id == "operation-running"
    ]
    problems = running_operations or [*files_problems(files, recovery)]
    return Diagnosis(tuple(problems), recovery.commands(problems)) if problems else None


def diagnose_refused(
    found: tuple[Fault, ...], name: str, files: StateFiles | None, backup: Backup | None, stack: str
) -> Diagnosis:
    """Return the problems of a state that the engine refuses, which prevent any further diagnosis."""
    recovery = RecoveryCommands(stack)
    problems = lock_problems(files.locks, recovery) if files else []
    problems.append(refused_problem(found, name, backup, recovery))
    return Diagnosis(tuple(problems), recovery.commands(problems))


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

    `files`: None for another backend than a local one. `live_objects`: None if the cluster cannot be read.
    `retained`: the objects that `destroy` leaves in the cluster. `read_declared_identities`: returns the declared
    objects, or None if they are unknown; called only if an object is not in the state. `loaders`: of commands, not
    started.
    """
    recovery = RecoveryCommands(stack)
    problems = lock_problems(files.locks, recovery) if files else []
    problems += pending_problems(state, seen, recovery)
    if seen is not None:
        problems += recorded_problems(state, seen, stack, recovery)
        if unrecorded_objects := unrecorded(state, seen, stack, retained):
            problems += unrecorded_problems(unrecorded_objects, state.identity, declared(), recovery)
        problems += stuck_problems(seen, now)
        problems += loader_problems(loaders, now)
    return Diagnosis(tuple(problems), recovery.commands(problems))
