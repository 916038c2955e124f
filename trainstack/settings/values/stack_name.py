"""Names of stacks: `dev` for Pulumi.dev.yaml. Each way into the program checks a name once, before it is used."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trainstack.settings.base import DnsName
from trainstack.settings.errors import Finding, Place

LIMIT = 63
"""Characters of a name: labels hold it, which have no more."""
StackName = Annotated[DnsName, Field(max_length=LIMIT)]
"""Labels and names of Kubernetes objects are made of it, so it is a DNS name."""

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FILE = re.compile(r"Pulumi\.([^/]*)\.yaml")
_FORM = re.compile(rf"{_PART}(\.{_PART})*")
_SHOWN = 80


def file_of(stack: str) -> str:
    """The stack's file, relative to the project."""
    return f"Pulumi.{stack}.yaml"


def fault(stack: str) -> Finding | None:
    """What is wrong with a name, as a fault of the stack's file; None for a good one."""
    if len(stack) <= LIMIT and _FORM.fullmatch(stack):
        return None
    shown = stack if len(stack) <= _SHOWN else f"{stack[:_SHOWN]}…"
    if len(stack) > LIMIT:
        message = f"the environment's name has {len(stack)} characters, but a label value has at most {LIMIT}"
        return Finding(Place(file_of(shown)), "", message, "use a shorter name")
    remedy = "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return Finding(Place(file_of(shown)), "", f"{stack!r} is not a valid environment name", remedy)


def stacks(root: Path) -> tuple[str, ...]:
    """The environments of the project at `root`, sorted; files with invalid stack names are left out."""
    return tuple(name for name in _named(root) if fault(name) is None)


def misnamed(root: Path) -> tuple[Finding, ...]:
    """The faults of the files that would be environments but for their names."""
    return tuple(found for name in _named(root) if (found := fault(name)) is not None)


def stack_of(file: str) -> str | None:
    """The stack whose file this is, if it has a valid name or not; None for any other path of a project."""
    match = _FILE.fullmatch(file)
    return match[1] if match else None


def _named(root: Path) -> Iterator[str]:
    files = sorted(file.name for file in root.glob("Pulumi.*.yaml"))
    return (name for file in files if (name := stack_of(file)) is not None)
