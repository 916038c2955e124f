"""JSON trees as Pulumi's engine and its Kubernetes provider compare them."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands for a value that is not known yet (`pulumi.runtime.rpc.UNKNOWN`)."""
Body = dict[str, Any]
Path = tuple[Any, ...]
"""Keys of maps and indexes of lists."""

_STEP = re.compile(r"\.?([^.\[\]]+)|\[\"((?:[^\"\\]|\\.)*)\"\]|\[(\d+)\]")


def parse(path: str) -> Path:
    """A property path such as `metadata.labels["trainstack.dev/launch"]`."""
    steps: list[Any] = []
    for name, quoted, index in _STEP.findall(path):
        steps.append(int(index) if index else quoted or name)
    return tuple(steps)


def value_at(tree: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    for step in path:
        in_list = isinstance(tree, list) and isinstance(step, int) and step < len(tree)
        if not in_list and not (isinstance(tree, dict) and step in tree):
            return None
        tree = tree[step]
    return tree


def set_value(tree: Body, path: Path, value: Any) -> None:
    """Set the value at a path of maps; None removes it."""
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = copy(value)


def copy(tree: Any) -> Any:
    """Return a deep copy."""
    return json.loads(json.dumps(tree))


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
    """The paths at which a JSON merge patch from old to new would change something: lists are compared as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in new or key not in old:
                yield (*path, key)
            else:
                yield from differences(old[key], new[key], (*path, key))
    elif old != new:
        yield path


def is_below(path: Path, parents: Sequence[Path]) -> bool:
    """Return whether a path is one of these paths or inside one."""
    return any(path[: len(parent)] == parent for parent in parents)


def prune(live: Any, shape: Any) -> Any:
    """The part of a live value that has the shape of what was declared."""
    if isinstance(live, dict) and isinstance(shape, dict):
        return {key: prune(value, shape[key]) for key, value in live.items() if key in shape}
    if isinstance(live, list) and isinstance(shape, list):
        return [prune(*pair) for pair in zip(live, shape, strict=False)]
    return live


def contains_unknown(tree: Any) -> bool:
    """Return whether the tree has an unknown value."""
    return UNKNOWN in json.dumps(tree)


def floats_to_integers(tree: Any) -> Any:
    """Convert whole floats to integers: the protocol has only floats."""
    if isinstance(tree, dict):
        return {key: floats_to_integers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [floats_to_integers(value) for value in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def without_nulls(tree: Any) -> Any:
    """Remove nulls, as the provider does."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [without_nulls(value) for value in tree]
    return tree
