"""The base of all errors whose cause a user can remove, and the texts of the operating system's errors.

Any other exception is a bug, and keeps its traceback.
"""

import errno
from collections.abc import Mapping
from enum import IntEnum
from io import IOBase
from traceback import walk_tb
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


_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "free space on its file system, then run the command again",
    errno.EDQUOT: "free space within the quota, then run the command again",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), then run the command again",
    errno.EROFS: "choose a place that can be written, or mount it for writing",
    errno.EIO: "check the disk and the kernel's log",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`), then run the command again",
}
"""The remedies for errors of the operating system whose names do not suggest one."""


_EXTRAS: Mapping[str, str] = {"arro3": "parquet", "matplotlib": "charts", "optuna": "search", "scipy": "search"}
"""The optional dependencies of `pyproject.toml`, by package that they install."""


def expected_message(error: Exception) -> str | None:
    """Return the message of an expected error; None for any other, which is a bug and keeps its traceback."""
    if isinstance(error, ModuleNotFoundError):
        return _missing_extra((error.name or "").partition(".")[0])
    if isinstance(error, OSError) and not (error.errno is None and error.filename is None):
        return describe_os_error(error)
    return str(error) if isinstance(error, TrainstackError) else None


def _missing_extra(package: str) -> str | None:
    extra = _EXTRAS.get(package)
    remedy = f"install Trainstack again from its wheel or commit, with the extra `{extra}`: <wheel>[{extra}]"
    return str(TrainstackError(f"{package} is not installed", remedy)) if extra else None


def describe_os_error(error: OSError, path: str = "") -> str:
    """Return the text for users, `<path>: <message>; <remedy>`; `path` is used if no file is known."""
    name = next((known for known in (error.filename2, error.filename, _written_file(error)) if known is not None), path)
    file = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return str(TrainstackError(error.strerror or str(error), remedy_of(error), path=file))


def remedy_of(error: OSError) -> str:
    return _REMEDIES.get(error.errno or 0, "")


def _written_file(error: OSError) -> str | None:
    """Return the file that was being written, which the error of a write does not name: that of a full disk."""
    for frame, _ in reversed([*walk_tb(error.__traceback__)]):
        for value in frame.f_locals.values():
            name, mode = (getattr(value, key, None) if isinstance(value, IOBase) else None for key in ("name", "mode"))
            if isinstance(name, str) and isinstance(mode, str) and not {*mode}.isdisjoint("wax+"):
                return name
    return None
