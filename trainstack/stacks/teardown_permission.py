"""One-time permissions by which the program declares no objects, so that the engine deletes the stack."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pulumi
from pydantic import TypeAdapter

from trainstack.errors import RefusedError
from trainstack.lifecycle.teardown.permission_files import consume_permission, write_permission_file
from trainstack.objects.ownership import Identity

PERMISSION_VARIABLE = "TRAINSTACK_TEARDOWN_PERMISSION"
"""The variable with the permission's name, 32 hexadecimal digits, which `trainstack destroy` sets for its engine only.
The program refuses to run with an inherited value."""
TeardownMode = Literal["everything", "keep-platform"]
"""Whether definitions and namespaces are deleted too."""


@dataclass(frozen=True, kw_only=True)
class Permission:
    """The objects that one run of the program may delete: the plan that the user confirmed."""

    mode: TeardownMode
    stack: str
    deleted: tuple[Identity, ...] = ()
    retained: tuple[Identity, ...] = ()
    """The objects of the state that the engine retains."""
    protected: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Run ids and sweeps that may be stopped."""


@contextmanager
def permit(root: Path, permission: Permission) -> Iterator[Mapping[str, str]]:
    """Permit one run of the program at `root` to delete a stack. Yield the variables for its engine."""
    with write_permission_file(root, json.dumps(asdict(permission))) as name:
        yield {PERMISSION_VARIABLE: name}


def teardown_permission(root: Path, stack: str) -> Permission | None:
    """Return the permission to delete this stack, or None without one. It is valid once, and not for a preview.

    Raises RefusedError if the variable is set without a valid permission.
    """
    name = os.environ.get(PERMISSION_VARIABLE)
    if not name:
        return None
    text = None if pulumi.runtime.is_dry_run() else consume_permission(root, name)
    permission = None if text is None else TypeAdapter(Permission).validate_json(text)
    if permission is not None and permission.stack == stack:
        return permission
    raise RefusedError(
        f"the environment variable {PERMISSION_VARIABLE} is set, but no running `trainstack destroy` set it for this "
        f"operation on {stack!r}. With the variable, the program declares nothing, so everything would be deleted. "
        f"Nothing was changed. Run `unset {PERMISSION_VARIABLE}`, then run the command again"
    )
