"""The rule by which files are merged.

Maps merge key by key. Lists of named elements (every element a map with a `name`) merge by name: an element of both
keeps its position in the base, and new elements follow. Elements of one name but different `namespace` are distinct.
Every other list replaces the base's, so `[]` clears it. `null` deletes: the value reverts to the model's default.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainstack.settings.errors import Place
from trainstack.settings.loading.source import Node, Scalar
from trainstack.settings.values.paths import child, elements

Plain = Scalar | tuple["Plain", ...] | dict[str, "Plain"]


def merge(base: Node, over: Node) -> Node:
    """Merge `over` over `base`; every value keeps its place. Nulls remain until `prune` removes them."""
    if isinstance(base.data, Mapping) and isinstance(over.data, Mapping):
        both = {key: merge(base.data[key], value) if key in base.data else value for key, value in over.data.items()}
        return Node({**base.data, **both}, over.where)
    if _named(base) and _named(over):
        return Node(tuple(_by_name(base.items, over.items)), over.where)
    return over


def prune(node: Node) -> Node:
    """Return the node without the null entries of its maps."""
    if isinstance(node.data, Mapping):
        return Node({key: prune(value) for key, value in node.data.items() if value.data is not None}, node.where)
    if isinstance(node.data, tuple):
        return Node(tuple(map(prune, node.data)), node.where)
    return node


def plain(node: Node) -> Plain:
    """Return the values without places: dicts, tuples and scalars."""
    if isinstance(node.data, Mapping):
        return {key: plain(value) for key, value in node.data.items()}
    if isinstance(node.data, tuple):
        return tuple(map(plain, node.data))
    return node.data


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every value with its path, parents before children."""
    yield path, node
    for key, value in node.entries.items():
        yield from walk(value, child(path, key))
    if node.items:
        for element_path, element in zip(element_paths(node, path), node.items, strict=True):
            yield from walk(element, element_path)


def element_paths(node: Node, path: str) -> list[str]:
    return list(elements(path, [element.name for element in node.items]))


def at(node: Node, steps: Sequence[str | int], known: dict[int, list[str]] | None = None) -> tuple[str, Node, bool]:
    """Return the path and node at the steps (keys and indices), and whether the value exists.

    If a step does not exist, the path ends with it and the node is the one that lacks it. `path_cache` has the paths
    of lists' elements between calls for one tree: a list may have thousands of faults.
    """
    path, known = "", {} if known is None else known
    for step in steps:
        if isinstance(step, int) and step < len(node.items):
            if id(node) not in known:
                known[id(node)] = element_paths(node, "")
            path, node = path + known[id(node)][step], node.items[step]
        elif isinstance(step, str) and step in node.entries:
            path, node = child(path, step), node.entries[step]
        else:
            return (f"{path}[{step}]" if isinstance(step, int) else child(path, step)), node, False
    return path, node, True


def overlay(node: Node, value: object, where: Place) -> Node:
    """Return the node with the content of `value` (parsed JSON); a value that differs gets the place `where`."""
    if isinstance(value, dict) and isinstance(node.data, Mapping):
        kept = {key: overlay(node.data[key], new, where) for key, new in value.items() if key in node.data}
        return Node({key: kept.get(key) or _node(new, where) for key, new in value.items()}, node.where)
    if isinstance(value, list) and isinstance(node.data, tuple) and len(value) == len(node.data):
        pairs = zip(node.data, value, strict=True)
        return Node(tuple(overlay(old, new, where) for old, new in pairs), node.where)
    same = type(node.data) is type(value) and node.data == value
    return node if same else _node(value, where)


def _node(value: object, where: Place) -> Node:
    if isinstance(value, dict):
        return Node({str(key): _node(entry, where) for key, entry in value.items()}, where)
    if isinstance(value, list):
        return Node(tuple(_node(element, where) for element in value), where)
    if value is None or isinstance(value, bool | int | float | str):
        return Node(value, where, str(value))
    raise TypeError(f"JSON has no {type(value).__name__}")


def _named(node: Node) -> bool:
    return bool(node.items) and all(element.name is not None for element in node.items)


def _by_name(base: Sequence[Node], over: Sequence[Node]) -> Iterator[Node]:
    rest = dict(enumerate(over))
    named = defaultdict[str | None, list[int]](list)
    for index, element in rest.items():
        named[element.name].append(index)
    for element in base:
        match = next((index for index in named[element.name] if index in rest and _same(element, rest[index])), None)
        # A duplicate name is kept, to be reported.
        yield element if match is None else merge(element, rest.pop(match))
    yield from rest.values()


def _same(one: Node, other: Node) -> bool:
    first, second = one.entries.get("namespace"), other.entries.get("namespace")
    return one.name == other.name and (first is None or second is None or first.data == second.data)
