"""Invalid files, as people and broken programs write them: the project's own files with a few faults.

Most faults are in the structure: the file is parsed to YAML nodes, and a few nodes are swapped, dropped, duplicated,
renamed or replaced by a hostile value. The rest is unchanged, so that the program does not reject the file at once.
Other faults are in the bytes.
"""

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.faults.hostile import FRAGMENTS, LOOKALIKES, damage
from tests.special_files import make_socket, make_sparse_file
from trainstack.settings.loading.sweep_files import list_sweeps
from trainstack.settings.values.stack_name import list_stacks

ROOT = Path(__file__).resolve().parents[2]
SEARCH = "search"
"""The environment that has every sweep of the project; the project's own have none."""

_SWEEP = """
      - name: {name}
        parallelism: 2
        run: {{from: digits, kind: Job, roles: null, namespace: research, queue: research}}"""
_HOLE = "Hole{}Hole"
"""Stands in the written text for what a writer of YAML would not write."""


NON_REGULAR_FILES: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "1 TiB": make_sparse_file,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
}
"""What can replace a file, with the function that creates it."""


@dataclass(frozen=True)
class Case:
    """A file of the checkout, changed."""

    file: str
    stack: str
    """An environment that reads the file."""
    content: bytes
    changes: tuple[str, ...]
    """Descriptions of the changes."""


def make_checkout(folder: Path) -> Path:
    """Copy the project's settings files and the files that they name."""
    for file in (*ROOT.glob("Pulumi*.yaml"), ROOT / "defaults.yaml"):
        shutil.copy2(file, folder / file.name)
    for name in ("workloads", "sweeps", "trainstack/runs/wrapper"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    dev = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8").replace("encryptionsalt", "#")
    text = (folder / "defaults.yaml").read_text(encoding="utf-8")
    for operator in yaml.safe_load(text)["operators"].values():
        release, digest = folder / operator["manifest"]["path"], operator["manifest"]["sha256"]
        release.parent.mkdir(parents=True, exist_ok=True)
        release.write_text("# only its digest is looked at\n", encoding="utf-8")
        text = text.replace(digest, hashlib.sha256(release.read_bytes()).hexdigest())
    (folder / "defaults.yaml").write_text(text, encoding="utf-8")
    entries = "".join(_SWEEP.format(name=name) for name in list_sweeps(ROOT))
    (folder / f"Pulumi.{SEARCH}.yaml").write_text(f"{dev}\n  trainstack:sweeps:\n    sweeps:{entries}\n", "utf-8")
    return folder


def targets(checkout: Path) -> list[tuple[str, str]]:
    """Return the files that can be changed, each with an environment that reads it."""
    environments = [(f"Pulumi.{stack}.yaml", stack) for stack in list_stacks(checkout)]
    workloads = [(f"workloads/{name}/workload.yaml", stack) for name, stack in (("digits", "dev"), ("eidf", "eidf"))]
    of_sweeps = [
        f"sweeps/{name}/{file}" for name in list_sweeps(checkout) for file in ("space.yaml", "hyperparams.yml")
    ]
    spaces = [(file, SEARCH) for file in of_sweeps]
    return [*environments, ("defaults.yaml", "dev"), *workloads, *spaces]


def draw_case(checkout: Path, rng: random.Random) -> Case:
    """Return one of the files with one to three faults."""
    file, stack = rng.choice(targets(checkout))
    content = (checkout / file).read_bytes()
    changes: list[str] = []
    if rng.random() < 0.85:
        content = _restructured(content.decode(), rng, changes).encode()
    if not changes or rng.random() < 0.1:
        content = damage(content, rng, changes)
    return Case(file, stack, content, tuple(changes))


def _restructured(text: str, rng: random.Random, changes: list[str]) -> str:
    top = yaml.compose(text, Loader=yaml.CSafeLoader)
    if not isinstance(top, yaml.MappingNode | yaml.SequenceNode):
        return text
    holes: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_STRUCTURAL)(top, rng, changes, holes)
    written: str = yaml.serialize(top, Dumper=yaml.SafeDumper, allow_unicode=True, width=200)
    for number, fragment in enumerate(holes):
        written = written.replace(_HOLE.format(number), fragment)
    return written


def _below(node: yaml.Node) -> list[yaml.Node]:
    """Return the node and all nodes in it, without duplicates."""
    found = {id(node): node}
    left = [node]
    while left:
        each = left.pop()
        for entry in each.value if isinstance(each, yaml.CollectionNode) else ():
            value = entry[1] if isinstance(entry, tuple) else entry
            if id(value) not in found:
                found[id(value)] = value
                left.append(value)
    return list(found.values())


def _any(top: yaml.Node, rng: random.Random) -> tuple[yaml.CollectionNode, int]:
    """Return a random map or list in the file, and the index of one of its entries; -1 if all are empty."""
    found = [node for node in _below(top) if isinstance(node, yaml.CollectionNode) and node.value]
    if not found:
        return yaml.SequenceNode("tag:yaml.org,2002:seq", []), -1
    where = rng.choice(found)
    return where, rng.randrange(len(where.value))


def _value(where: yaml.CollectionNode, index: int) -> yaml.Node:
    entry = where.value[index]
    node: yaml.Node = entry[1] if isinstance(entry, tuple) else entry
    return node


def _put(where: yaml.CollectionNode, index: int, node: yaml.Node) -> None:
    entry = where.value[index]
    where.value[index] = (entry[0], node) if isinstance(entry, tuple) else node


def _named(where: yaml.CollectionNode, index: int) -> str:
    """Return the name of an entry for the description of a change."""
    entry = where.value[index]
    return str(getattr(entry[0], "value", "?")) if isinstance(entry, tuple) else f"[{index}]"


def _hole(text: str, holes: list[str]) -> yaml.ScalarNode:
    holes.append(text)
    return yaml.ScalarNode("tag:yaml.org,2002:str", _HOLE.format(len(holes) - 1))


def _hostile(top: yaml.Node, rng: random.Random, changes: list[str], holes: list[str]) -> None:
    """Replace a value with a hostile fragment."""
    where, index = _any(top, rng)
    if index >= 0:
        name = rng.choice(sorted(FRAGMENTS))
        changes.append(f"{_named(where, index)} becomes {name}")
        _put(where, index, _hole(FRAGMENTS[name], holes))


def _hostile_key(top: yaml.Node, rng: random.Random, changes: list[str], holes: list[str]) -> None:
    """Replace a key with a hostile fragment."""
    where, index = _any(top, rng)
    if isinstance(where, yaml.MappingNode) and index >= 0:
        name = rng.choice(sorted(FRAGMENTS))
        changes.append(f"the key {_named(where, index)} becomes {name}")
        where.value[index] = (_hole(FRAGMENTS[name], holes), where.value[index][1])


def _dropped(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Drop an entry."""
    where, index = _any(top, rng)
    if index >= 0:
        changes.append(f"{_named(where, index)} is dropped")
        del where.value[index]


def _doubled(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Duplicate an entry."""
    where, index = _any(top, rng)
    if index >= 0:
        changes.append(f"{_named(where, index)} is there twice")
        where.value.insert(rng.randrange(len(where.value) + 1), where.value[index])


def _swapped(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Swap two values, so that each is of a type that is valid elsewhere."""
    (one, here), (other, there) = _any(top, rng), _any(top, rng)
    if here < 0 or there < 0:
        return
    first, second = _value(one, here), _value(other, there)
    if any(first is node for node in _below(second)) or any(second is node for node in _below(first)):
        return  # one would hold itself, which an alias does too
    changes.append(f"{_named(one, here)} and {_named(other, there)} change places")
    _put(one, here, second)
    _put(other, there, first)


def _aliased(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Alias a value in another place, perhaps within itself."""
    (one, here), (other, there) = _any(top, rng), _any(top, rng)
    if here >= 0 and there >= 0:
        changes.append(f"{_named(other, there)} is an alias of {_named(one, here)}")
        _put(other, there, _value(one, here))


def _renamed(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Misspell a key or a text, sometimes with a letter of another alphabet."""
    where, index = _any(top, rng)
    if index < 0:
        return
    entry = where.value[index]
    node = rng.choice(entry) if isinstance(entry, tuple) else entry
    if isinstance(node, yaml.ScalarNode) and node.value:
        position = rng.randrange(len(node.value))
        letter = node.value[position]
        strange = rng.choice(" .-_/:#@\t\n\x1b\x00")
        new = rng.choice((LOOKALIKES.get(letter, letter.swapcase()), "", letter * 2, strange))
        changes.append(f"{node.value!r} is misspelt")
        node.value = node.value[:position] + new + node.value[position + 1 :]
        node.style = '"'


def _flattened(top: yaml.Node, rng: random.Random, changes: list[str], _holes: list[str]) -> None:
    """Convert a map to a list, a list to a map, or wrap a value in a list."""
    where, index = _any(top, rng)
    if index < 0:
        return
    node = _value(where, index)
    changes.append(f"{_named(where, index)} has another shape")
    if isinstance(node, yaml.MappingNode):
        made: yaml.Node = yaml.SequenceNode("tag:yaml.org,2002:seq", [value for _, value in node.value])
    elif isinstance(node, yaml.SequenceNode):
        keys = [yaml.ScalarNode("tag:yaml.org,2002:str", f"k{number}") for number in range(len(node.value))]
        made = yaml.MappingNode("tag:yaml.org,2002:map", list(zip(keys, node.value, strict=True)))
    else:
        made = yaml.SequenceNode("tag:yaml.org,2002:seq", [node])
    _put(where, index, made)


_Change = Callable[[yaml.Node, random.Random, list[str], list[str]], None]
_STRUCTURAL: tuple[_Change, ...] = (
    *(_hostile, _hostile, _hostile, _hostile_key),
    *(_dropped, _doubled, _swapped, _swapped, _aliased, _renamed, _renamed, _flattened),
)
