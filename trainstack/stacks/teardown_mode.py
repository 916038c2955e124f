"""One-time permissions for the program to declare no objects, so that the engine deletes the stack."""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pulumi
from pydantic import TypeAdapter

from trainstack.errors import RefusedError
from trainstack.files.locks import is_locked, try_lock_new
from trainstack.objects.ownership import Identity

PERMISSION_VARIABLE = "TRAINSTACK_ENDS"
"""The variable with the permission's name, 32 hexadecimal digits, which `trainstack destroy` sets for its engine only.
The program refuses to run with an inherited value."""
Mode = Literal["everything", "keep-platform"]
"""Whether definitions and namespaces are deleted too."""
_FOLDER = Path(".trainstack/endings")
"""The permissions, in the project. Each is valid as long as its command has it locked."""


@dataclass(frozen=True, kw_only=True)
class Permission:
    """What one run of the program may delete: the plan that the user confirmed."""

    mode: Mode
    stack: str
    deleted: tuple[Identity, ...] = ()
    retained: tuple[Identity, ...] = ()
    """The objects of the state that the engine retains."""
    protected: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Run ids and sweeps that may be stopped."""


_PERMISSION = TypeAdapter(Permission)


@contextmanager
def permit(root: Path, permission: Permission) -> Iterator[Mapping[str, str]]:
    """Permit one run of the program at `root` to delete a stack. Yield the variables for its engine."""
    _remove_leftovers(root / _FOLDER)
    file, lock = _locked_file(root / _FOLDER)
    try:
        with os.fdopen(lock, "w", encoding="utf-8", closefd=False) as opened:
            json.dump(asdict(permission), opened)
        yield {PERMISSION_VARIABLE: file.name}
    finally:
        file.unlink(missing_ok=True)
        os.close(lock)


def teardown_permission(root: Path, stack: str) -> Permission | None:
    """Return what a command permits to delete of this stack, or None. A permission is valid once, and for no preview.

    Raises RefusedError if the variable is set without a valid permission.
    """
    name = os.environ.get(PERMISSION_VARIABLE)
    if not name:
        return None
    permission = None if pulumi.runtime.is_dry_run() else _use_up(root, name)
    if permission is not None and permission.stack == stack:
        return permission
    raise RefusedError(
        f"the environment variable {PERMISSION_VARIABLE} is set, but no running `trainstack destroy` set it for this "
        f"operation on {stack!r}. With the variable, the program declares nothing, so everything would be deleted. "
        f"Nothing was changed. Run `unset {PERMISSION_VARIABLE}`, then run the command again"
    )


def _use_up(root: Path, name: str) -> Permission | None:
    if not re.fullmatch("[0-9a-f]{32}", name):
        return None
    file = root / _FOLDER / name
    try:
        with _opened(file) as descriptor, os.fdopen(descriptor, encoding="utf-8", closefd=False) as opened:
            valid, text = is_locked(descriptor), opened.read()
            # Only one of two programs with the same permission can remove the file.
            file.unlink()
    except FileNotFoundError:
        return None
    return _PERMISSION.validate_json(text) if valid else None


def _remove_leftovers(folder: Path) -> None:
    """Remove the permissions of commands that have ended without doing so."""
    for file in folder.glob("*"):
        with suppress(OSError), _opened(file) as descriptor:
            if not is_locked(descriptor):
                file.unlink()


def _locked_file(folder: Path) -> tuple[Path, int]:
    """Create a file; return it with the descriptor that has it locked."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        file = folder / secrets.token_hex(16)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if try_lock_new(file, descriptor):
            return file, descriptor
        os.close(descriptor)


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    # NFS locks only what is open for writing.
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
