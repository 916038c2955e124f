"""The file `sweeps/<name>/hyperparams.yml`: the committed sets of a sweep, which programs may read.

The file is a YAML list. The trial with JOB_ID n, counted from 1, uses only `list[n - 1]["hyperparam_set"]`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from trainstack.settings.base import Section, Sha256
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import ParameterSet, Space

ID_DIGITS = 10
"""Hexadecimal digits of a set's id: among a million sets, two ids collide with a probability of 1 in 2."""
SPACE_FILE = "space.yaml"
SETS_FILE = "hyperparams.yml"

_DIGEST = re.compile(r"^# space: sha256:(?P<digest>[0-9a-f]{64})$", re.MULTILINE)
_KEYS_WITHOUT_EFFECT = ("objective", "args", "env", "fields", "file")
"""The keys of a space that do not affect its sets, and so are not part of the digest."""
_DUMPER: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})


class Expansion(Section):
    """The content of a file of sets."""

    space: Sha256
    """The digest of the space that the file was generated from."""
    sets: tuple[ParameterSet, ...]


def sweep_folder(sweep: str) -> str:
    """Return the sweep's folder, relative to the project."""
    return f"sweeps/{sweep}"


def set_id(parameters: Mapping[str, Value]) -> str:
    """Return a hash of a set, whatever the order of its parameters: the first ID_DIGITS of a sha256."""
    text = json.dumps(dict(parameters), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def number_sets(sets: Sequence[Mapping[str, Value]]) -> tuple[ParameterSet, ...]:
    """Return the sets with their ids and their numbers, which start at 1."""
    return tuple(
        ParameterSet(number=number, id=set_id(parameters), parameters=dict(parameters))
        for number, parameters in enumerate(sets, 1)
    )


def space_digest(space: Space) -> str:
    """Return the sha256 of the space's keys that affect its sets; comments and other keys have no effect on it."""
    relevant = space.model_dump(by_alias=True, exclude_defaults=True, exclude={*_KEYS_WITHOUT_EFFECT})
    # The keys keep the file's order, which determines the order of a grid's sets.
    return hashlib.sha256(json.dumps(relevant, separators=(",", ":")).encode()).hexdigest()


def format_sets(sweep: str, space: Space, sets: Sequence[ParameterSet]) -> str:
    """Return the text of hyperparams.yml, which is the same byte for byte for the same space and sets."""
    entries = []
    for parameter_set in sets:
        quoted = {
            key: _Quoted(value) if isinstance(value, str) else value for key, value in parameter_set.parameters.items()
        }
        entries.append({"number": parameter_set.number, "id": _Quoted(parameter_set.id), "hyperparam_set": quoted})
    header = (
        f"# Generated from {SPACE_FILE} by `trainstack sweep expand {sweep}`. Edit {SPACE_FILE} instead.\n"
        f"# space: sha256:{space_digest(space)}\n"
    )
    body: str = yaml.dump(
        entries, Dumper=_DUMPER, sort_keys=False, default_flow_style=False, allow_unicode=True, width=1 << 20
    )
    return header + body


def parse_space_digest(text: str) -> str | None:
    """Return the digest of the space from the comment of hyperparams.yml, or None if there is none."""
    match = _DIGEST.search(text)
    return match["digest"] if match else None


class _Quoted(str):
    """A string to quote, since YAML parsers disagree about plain `12e4` and `no`."""

    __slots__ = ()


_DUMPER.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)
