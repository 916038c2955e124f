"""`sweeps/<name>/hyperparams.yml`: the sets of a sweep, as programs read them and as they are committed.

A YAML list. The trial whose JOB_ID is n, from 1, takes `list[n - 1]["hyperparam_set"]`; whatever else stands in an
element is for us.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import Field

from trainstack.settings.base import Section, Sha256
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Single, Space

ID_DIGITS = 10
"""Hexadecimal digits of a set's id: among a million sets of one sweep, two are alike with a chance of 1 in 2."""
SPACE_FILE = "space.yaml"
SETS_FILE = "hyperparams.yml"

_DIGEST = re.compile(r"^# space: sha256:(?P<digest>[0-9a-f]{64})$", re.MULTILINE)
_NOT_SETS = ("objective", "args", "env", "file")
"""What of a space the sets do not depend on."""
_DUMPER: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})


class ParameterSet(Section):
    """One set of parameters."""

    number: int = Field(ge=1)
    """Its place in the list, from 1. Another one when sets are added or reordered."""
    id: str = Field(pattern=r"^[0-9a-f]{10}$")
    """Of its content: the same wherever it stands."""
    parameters: dict[str, Single] = Field(alias="hyperparam_set")


class Expansion(Section):
    """A file of sets, read."""

    space: Sha256
    """The digest of the space that it was made from."""
    sets: tuple[ParameterSet, ...]


def folder(sweep: str) -> str:
    """The folder of a sweep's two files, relative to the project."""
    return f"sweeps/{sweep}"


def set_id(parameters: Mapping[str, Value]) -> str:
    """The id of a set: a hash of its parameters, in whatever order they are."""
    text = json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def numbered(sets: Sequence[Mapping[str, Value]]) -> tuple[ParameterSet, ...]:
    """Sets with their numbers and ids."""
    return tuple(
        ParameterSet(number=number, id=set_id(each), parameters=dict(each)) for number, each in enumerate(sets, 1)
    )


def space_digest(space: Space) -> str:
    """The sha256 of what the sets depend on. Comments, and how a set reaches the program, are not in it."""
    said = space.model_dump(by_alias=True, exclude_defaults=True, exclude={*_NOT_SETS})
    # In the order of the file: a grid's sets are numbered by it.
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()


def text_of(sweep: str, space: Space, sets: Sequence[ParameterSet]) -> str:
    """The file, byte for byte the same for the same sets."""
    entries = [
        {"number": each.number, "id": _Quoted(each.id), "hyperparam_set": _shown(each.parameters)} for each in sets
    ]
    head = (
        f"# Made from {SPACE_FILE} by `trainstack sweep expand {sweep}`: edit that file, not this one.\n"
        f"# space: sha256:{space_digest(space)}\n"
    )
    body: str = yaml.dump(
        entries, Dumper=_DUMPER, sort_keys=False, default_flow_style=False, allow_unicode=True, width=1 << 20
    )
    return head + body


def digest_in(text: str) -> str | None:
    """The digest of the space that a file says it was made from; None where its comment is gone."""
    match = _DIGEST.search(text)
    return match["digest"] if match else None


class _Quoted(str):
    """Text that stands in quotes, since readers of YAML disagree about what `12e4` and `no` are without them."""

    __slots__ = ()


def _quoted(dumper: Any, text: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
    return node


_DUMPER.add_representer(_Quoted, _quoted)


def _shown(parameters: Mapping[str, Value]) -> dict[str, Value]:
    return {name: _Quoted(value) if isinstance(value, str) else value for name, value in parameters.items()}
