"""Names of stacks, such as `dev` for Pulumi.dev.yaml, and their validation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trainstack.settings.base import DnsName
from trainstack.settings.errors import Finding, Place

LIMIT = 63
"""Characters of a name, which is a label value."""
StackName = Annotated[DnsName, Field(max_length=LIMIT)]
"""A DNS name, since it is part of labels and names of Kubernetes objects."""

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FILE = re.compile(r"Pulumi\.([^/]*)\.yaml")
_FORM = re.compile(rf"{_PART}(\.{_PART})*")
_MAX_SHOWN = 80


def file_of(stack: str) -> str:
    return f"Pulumi.{stack}.yaml"


def fault(stack: str) -> Finding | None:
    """Return the fault of a stack's name, if it has one, as a fault of the stack's file."""
    if len(stack) <= LIMIT and _FORM.fullmatch(stack):
        return None
    shortened = stack if len(stack) <= _MAX_SHOWN else f"{stack[:_MAX_SHOWN]}…"
    if len(stack) > LIMIT:
        message = f"the environment's name has {len(stack)} characters, but a label value has at most {LIMIT}"
        return Finding(Place(file_of(shortened)), "", message, "use a shorter name")
    remedy = "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return Finding(Place(file_of(shortened)), "", f"{stack!r} is not a valid environment name", remedy)


def stacks(root: Path) -> tuple[str, ...]:
    """List the environments of the project at `root`, sorted, without files with invalid names."""
    return tuple(name for name in _named(root) if fault(name) is None)


def misnamed(root: Path) -> tuple[Finding, ...]:
    """List the faults of files with invalid stack names."""
    return tuple(found for name in _named(root) if (found := fault(name)) is not None)


def stack_of(file: str) -> str | None:
    """Return the stack, even an invalid name, of a path relative to the project; None for other files."""
    match = _FILE.fullmatch(file)
    return match[1] if match else None


def _named(root: Path) -> Iterator[str]:
    files = sorted(file.name for file in root.glob("Pulumi.*.yaml"))
    return (name for file in files if (name := stack_of(file)) is not None)
