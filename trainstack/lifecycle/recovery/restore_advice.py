"""The commands that replace the file of a state. Pure."""

import shlex
from dataclasses import dataclass

from trainstack.lifecycle.recovery.problem import RecoveryCommands


@dataclass(frozen=True)
class Backup:
    """The file of a state in a folder, next to which the engine keeps the previous state."""

    file: str
    is_usable: bool
    """Whether the engine accepts the previous state."""


def restore_advice(backup: Backup | None, recovery: RecoveryCommands) -> tuple[str, tuple[str, ...]]:
    """Return the advice about a lost state, and its commands. `backup` is None if the state is not in a folder."""
    if backup is None:
        advice = "Import an earlier version of it (pulumi stack export --version <number>, pulumi stack import)"
        return advice, ()
    file, unreadable_copy = shlex.quote(backup.file), shlex.quote(f"{backup.file}.unreadable")
    if backup.is_usable:
        previous_file = shlex.quote(f"{backup.file}.bak")
        advice = "Its backup has the state of one step before, and the refresh reads later changes from the cluster"
        return advice, (
            f"mv -- {file} {unreadable_copy}",
            f"cp -- {previous_file} {file}",
            recovery.refresh,
            recovery.up,
        )
    advice = (
        "Its backup cannot be used either. Restore it from a copy if there is one. With a new state, the first `up` "
        "prints the identity of the lost one; `cluster.takeOver` takes over its objects"
    )
    return advice, (f"mv -- {file} {unreadable_copy}", f"pulumi stack init {recovery.stack}", recovery.up)
