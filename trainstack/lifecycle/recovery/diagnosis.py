"""All troubles of an environment, from everything that was read."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from trainstack.lifecycle.recovery.files import StateFiles, files_troubles, lock_troubles
from trainstack.lifecycle.recovery.loaders import WaitingLoader, loader_troubles
from trainstack.lifecycle.recovery.objects import (
    Seen,
    pending_troubles,
    recorded_troubles,
    stuck_troubles,
    unrecorded,
    unrecorded_troubles,
)
from trainstack.lifecycle.recovery.problem import Mending, Trouble
from trainstack.lifecycle.recovery.state import State
from trainstack.objects.ownership import Identity


@dataclass(frozen=True)
class Diagnosis:
    """What was found."""

    troubles: tuple[Trouble, ...]
    commands: tuple[str, ...]
    """What mends all of it, in this order."""


def first_look(files: StateFiles | None, stack: str) -> Diagnosis | None:
    """What stands in the way of every further look; None where nothing does.

    A state that cannot be read tells nothing, and of a stack that is at work every answer is old at once.
    """
    mending = Mending(stack)
    troubles = list(files_troubles(files, mending)) if files else []
    running = [each for each in lock_troubles(files.locks, mending) if each.id == "operation-running"] if files else []
    stops = running or troubles
    return Diagnosis(tuple(stops), mending.commands(stops)) if stops else None


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
    """All troubles of a stack whose state can be read.

    Args:
        stack: the environment.
        files: of its folder of states; None where the state is elsewhere.
        state: what the engine knows.
        seen: what the cluster has; None where it cannot be read.
        retained: what `destroy` leaves by the environment's settings.
        declared: gives what the environment declares, None where that is not known; asked only when something is not in
            the state.
        loaders: data loaders of commands that have not started.
        now: the time.

    """
    mending = Mending(stack)
    troubles = lock_troubles(files.locks, mending) if files else []
    troubles += pending_troubles(state, seen, mending)
    if seen is not None:
        troubles += recorded_troubles(state, seen, stack, mending)
        if found := unrecorded(state, seen, stack, retained):
            troubles += unrecorded_troubles(found, state.identity, declared(), mending)
        troubles += stuck_troubles(seen, now)
        troubles += loader_troubles(loaders, now)
    return Diagnosis(tuple(troubles), mending.commands(troubles))
