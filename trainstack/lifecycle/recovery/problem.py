"""What keeps an environment from going on, and the commands that mend it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Id = Literal[
    "sidecar-unreadable",
    "state-unreadable",
    "operation-running",
    "lock-stale",
    "lock-elsewhere",
    "operation-pending",
    "replacement-unfinished",
    "object-unready",
    "object-missing",
    "object-replaced",
    "object-unmarked",
    "object-unrecorded",
    "object-orphaned",
    "object-of-another-state",
    "object-stuck",
    "loader-waiting",
    "cluster-unreachable",
]
"""What kind of trouble. docs/recovery.md has a section for each."""


@dataclass(frozen=True)
class Trouble:
    """One thing that is not as a finished `up` or `destroy` leaves it."""

    id: Id
    what: str
    """What it is about: a file, a lock, or an object as `Kind namespace/name`."""
    message: str
    commands: tuple[str, ...]
    """What mends it, in this order, in a shell that has the environment's variables (`trainstack env`)."""

    def __str__(self) -> str:
        return f"[{self.id}] {self.what}: {self.message}"


@dataclass(frozen=True)
class Mending:
    """The engine's commands on one stack, as every trouble of it names them."""

    stack: str

    @property
    def cancel(self) -> str:
        """Removes the locks, whosever they are."""
        return f"pulumi cancel --yes -s {self.stack}"

    @property
    def refresh(self) -> str:
        """Makes the state what the cluster has; what was being created is left to the next `up`, which finds it."""
        return f"pulumi refresh --clear-pending-creates --yes --skip-preview -s {self.stack}"

    @property
    def up(self) -> str:
        """Makes the cluster what the environment declares."""
        return f"pulumi up --yes --skip-preview -s {self.stack}"

    @property
    def destroy(self) -> str:
        """Instead of `up`, where a destroy was interrupted: the engine's, with the hooks idle, as they were."""
        return f"trainstack destroy --yes -s {self.stack}"

    def commands(self, troubles: Iterable[Trouble]) -> tuple[str, ...]:
        """What mends all of them, each command once: the files of the state first, `up` last."""
        wanted = dict.fromkeys(command for trouble in troubles for command in trouble.commands)
        return tuple(sorted(wanted, key=self._rank))

    def _rank(self, command: str) -> int:
        engine = (self.cancel, self.refresh, self.up)
        if command in engine:
            return (1, 2, 4)[engine.index(command)]
        return 3 if command.startswith("kubectl ") else 0
