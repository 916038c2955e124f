"""Problems of a stack's state and the commands that repair them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

ProblemId = Literal[
    "sidecar-unreadable",
    "state-unreadable",
    "state-refused",
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
    "queue-drained",
    "loader-waiting",
    "file-left",
    "cluster-unreachable",
    "another-cluster",
]
"""The ids of problems. docs/recovery.md has a section for each."""


@dataclass(frozen=True)
class Problem:
    """A problem of a stack's state or of its objects."""

    id: ProblemId
    what: str
    """The subject: a file, a lock, or an object as `Kind namespace/name`."""
    message: str
    commands: tuple[str, ...]
    """The commands that repair it, in order, for a shell with the environment's variables (`trainstack env`)."""


@dataclass(frozen=True)
class RecoveryCommands:
    """The commands that repair a stack's state."""

    stack: str

    @property
    def cancel(self) -> str:
        """The command that removes all locks, also those of other users."""
        return f"pulumi cancel --yes -s {self.stack}"

    @property
    def repair(self) -> str:
        """The command that sorts the state, and removes references to resources that it does not have."""
        return f"pulumi state repair --yes -s {self.stack}"

    @property
    def refresh(self) -> str:
        """The command that updates the state from the cluster. The next `up` takes over objects whose
        creation was pending."""
        return f"pulumi refresh --clear-pending-creates --yes --skip-preview -s {self.stack}"

    @property
    def up(self) -> str:
        return f"pulumi up --yes --skip-preview -s {self.stack}"

    @property
    def destroy(self) -> str:
        """The alternative to `up` after an interrupted destroy. The user has to repeat the `--stop` of active runs."""
        return f"trainstack destroy --keep-platform --yes -s {self.stack}"

    def commands(self, problems: Iterable[Problem]) -> tuple[str, ...]:
        """Return the commands that repair all problems, without duplicates: files of the state first, `up` last."""
        commands = dict.fromkeys(command for problem in problems for command in problem.commands)
        return tuple(sorted(commands, key=self._rank))

    def _rank(self, command: str) -> int:
        engine = (self.cancel, self.repair, self.refresh, self.up)
        if command in engine:
            return (1, 2, 3, 5)[engine.index(command)]
        return 4 if command.startswith("kubectl ") else 0
