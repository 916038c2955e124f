"""Names of stacks, such as `dev` for Pulumi.dev.yaml, and their validation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trainstack.settings.errors import Place, SettingsFinding
from trainstack.settings.values.kubernetes import DnsName

MAX_CHARACTERS = 63
"""The greatest length of a name, in characters, since the name is a label value."""
StackName = Annotated[DnsName, Field(max_length=MAX_CHARACTERS)]
"""A DNS name, since it is part of labels and names of Kubernetes objects."""

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FILE = re.compile(r"Pulumi\.([^/]*)\.yaml")
_FORM = re.compile(rf"{_PART}(\.{_PART})*")
_MAX_SHOWN = 80


def stack_file(stack: str) -> str:
    """Return the name of a stack's file, relative to the project."""
    return f"Pulumi.{stack}.yaml"


def stack_name_fault(stack: str) -> SettingsFinding | None:
    """Return the fault of a stack's name, as a finding in the stack's file; None if the name is valid."""
    if len(stack) <= MAX_CHARACTERS and _FORM.fullmatch(stack):
        return None
    shortened = stack if len(stack) <= _MAX_SHOWN else f"{stack[:_MAX_SHOWN]}…"
    if len(stack) > MAX_CHARACTERS:
        message = f"the environment's name has {len(stack)} characters, but a label value has at most {MAX_CHARACTERS}"
        return SettingsFinding(Place(stack_file(shortened)), "", message, "use a shorter name")
    remedy = "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return SettingsFinding(Place(stack_file(shortened)), "", f"{stack!r} is not a valid environment name", remedy)


def list_stacks(root: Path) -> tuple[str, ...]:
    """Return the environments of the project at `root`, sorted; files with invalid names are left out."""
    return tuple(name for name in _names_in_files(root) if stack_name_fault(name) is None)


def list_named_stacks(root: Path) -> tuple[str, ...]:
    """Return the names in the files of all environments, sorted, also invalid ones."""
    return tuple(_names_in_files(root))


def misnamed_stack_findings(root: Path) -> tuple[SettingsFinding, ...]:
    """Return a finding for each stack's file with an invalid name."""
    return tuple(finding for name in _names_in_files(root) if (finding := stack_name_fault(name)) is not None)


def stack_of_file(file: str) -> str | None:
    """Return the stack of a file, by its path relative to the project, even if invalid; None for other files."""
    match = _FILE.fullmatch(file)
    return match[1] if match else None


def _names_in_files(root: Path) -> Iterator[str]:
    files = sorted(file.name for file in root.glob("Pulumi.*.yaml"))
    return (name for file in files if (name := stack_of_file(file)) is not None)
