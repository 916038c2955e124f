"""One-time permissions for the program to declare no objects, so that the engine deletes the stack."""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import pulumi

from trainstack.errors import RefusedError

PERMISSION_VARIABLE = "TRAINSTACK_ENDS"
"""The variable with the permission's name, 32 hexadecimal digits, which `trainstack destroy` sets for its engine only.
The program refuses to run with an inherited value."""
Mode = Literal["everything", "keep-platform"]
"""Whether definitions and namespaces are deleted too."""
_FOLDER = ".trainstack/endings"


@contextmanager
def permission(root: Path, stack: str, mode: Mode) -> Iterator[Mapping[str, str]]:
    """Permit one run of the program at `root` to delete a stack. Yield the variables for its engine."""
    name = secrets.token_hex(16)
    file = root / _FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{mode}:{stack}")
    try:
        yield {PERMISSION_VARIABLE: name}
    finally:
        file.unlink(missing_ok=True)


def teardown_mode(root: Path, stack: str) -> Mode | None:
    """Return the mode in which a command deletes this stack, or None. A permission is valid once, and for no preview.

    Raises RefusedError if the variable is set without a valid permission.
    """
    name = os.environ.get(PERMISSION_VARIABLE)
    if not name:
        return None
    permitted = None if pulumi.runtime.is_dry_run() else _use_up(root, name)
    for mode in get_args(Mode):
        if permitted == f"{mode}:{stack}":
            return mode  # type: ignore[no-any-return]
    raise RefusedError(
        f"the environment variable {PERMISSION_VARIABLE} is set, but no running `trainstack destroy` set it for this "
        f"operation on {stack!r}. With the variable, the program declares nothing, so everything would be deleted. "
        f"Nothing was changed. Run `unset {PERMISSION_VARIABLE}`, then run the command again"
    )


def _use_up(root: Path, name: str) -> str | None:
    if not re.fullmatch("[0-9a-f]{32}", name):
        return None
    file = root / _FOLDER / name
    try:
        text = file.read_text()
        # Only one of two programs with the same permission can remove the file.
        file.unlink()
    except FileNotFoundError:
        return None
    return text
