"""The base of all errors whose cause a user can remove. Any other exception is a bug, and keeps its traceback."""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The exit codes of commands besides 0 (docs/commands.md)."""

    FAILED = 1
    USAGE = 2
    """The command line is wrong; nothing was read or written."""
    REFUSED = 3
    """A guard refused the change; nothing was changed."""
    FINDINGS = 4
    """The command completed, and reports findings."""
    UNREACHABLE = 5
    """The cluster or Pulumi's backend cannot be reached."""


class TrainstackError(Exception):
    """An error with a text for users: `<where>: <path>: <message>; <remedy>`, without the parts that are empty.

    Args:
        message: what is wrong, with the value and the limit.
        remedy: what the user can do.
        path: the setting, object or file that is wrong.
        where: the place in a file, as `Pulumi.dev.yaml:12`.

    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    """The exit code of a command that ends with this error."""

    def __init__(self, message: str, remedy: str = "", *, path: str = "", where: str = "") -> None:
        subject = "".join(f"{part}: " for part in (where, path) if part)
        super().__init__(subject + "; ".join(filter(None, (message, remedy))))
        self.message, self.remedy, self.path, self.where = message, remedy, path, where


class RefusedError(TrainstackError):
    """A guard refuses a change, before anything is changed. The message has every reason with its remedy."""

    exit_code = ExitCode.REFUSED
