"""One-time permissions for the program to declare no objects, so that the engine deletes the stack."""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pulumi
from pydantic import TypeAdapter

from trainstack.errors import RefusedError
from trainstack.objects.ownership import Identity

PERMISSION_VARIABLE = "TRAINSTACK_ENDS"
"""The variable with the permission's name, 32 hexadecimal digits, which `trainstack destroy` sets for its engine only.
The program refuses to run with an inherited value."""
Mode = Literal["everything", "keep-platform"]
"""Whether definitions and namespaces are deleted too."""
_FOLDER = ".trainstack/endings"


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
    name = secrets.token_hex(16)
    file = root / _FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(permission)))
    try:
        yield {PERMISSION_VARIABLE: name}
    finally:
        file.unlink(missing_ok=True)


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
        text = file.read_text()
        # Only one of two programs with the same permission can remove the file.
        file.unlink()
    except FileNotFoundError:
        return None
    return _PERMISSION.validate_json(text)
