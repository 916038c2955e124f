"""How a command permits the program, once, to declare nothing, so that the engine deletes the stack."""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import pulumi

ENDING = "TRAINSTACK_ENDS"
"""The name of a one-time permission, 32 hexadecimal digits. `trainstack teardown` and `trainstack destroy` set it for
their engine alone. An inherited variable permits nothing, and the program refuses to run with it."""
Way = Literal["teardown", "destroy"]
_FOLDER = ".trainstack/endings"


class EndingError(Exception):
    """The environment variable names a permission that is not valid."""


@contextmanager
def permission(root: Path, stack: str, way: Way) -> Iterator[Mapping[str, str]]:
    """Permit one run of the program to end a stack. Yields the variables for the engine that runs it.

    Args:
        root: the project's folder.
        stack: the stack that ends.
        way: how it ends.

    """
    name = secrets.token_hex(16)
    file = root / _FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{way}:{stack}")
    try:
        yield {ENDING: name}
    finally:
        file.unlink(missing_ok=True)


def ending(root: Path, stack: str) -> Way | None:
    """The way in which a command ends this stack; None if the program declares it. The permission is used up.

    Raises EndingError if the variable is set and permits nothing: it was inherited. A preview ends no stack either.
    """
    name = os.environ.get(ENDING)
    if not name:
        return None
    permitted = None if pulumi.runtime.is_dry_run() else _use_up(root, name)
    for way in get_args(Way):
        if permitted == f"{way}:{stack}":
            return way  # type: ignore[no-any-return]
    raise EndingError(
        f"the environment variable {ENDING} is set, but no running `trainstack destroy` or `trainstack teardown` set "
        f"it for this operation on {stack!r}. With it the program would declare nothing, and everything would be "
        f"deleted. Nothing was changed. Run `unset {ENDING}`, then run the command again"
    )


def _use_up(root: Path, name: str) -> str | None:
    if not re.fullmatch("[0-9a-f]{32}", name):
        return None
    file = root / _FOLDER / name
    try:
        text = file.read_text()
        # Of two programs with one permission, one removes the file.
        file.unlink()
    except FileNotFoundError:
        return None
    return text
