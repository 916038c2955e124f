"""The one rule by which files are laid over each other.

Maps merge key by key. Lists of named things (every element a map with a `name`) merge by name: what both hold is merged
in the base's place, what is new follows. Names that differ in `namespace` are different things. Every other list
replaces, so `[]` empties. `null` deletes: the value falls back to the model's default.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainstack.settings.errors import Place
from trainstack.settings.loading.source import Node, Scalar
from trainstack.settings.values.paths import child, elements

Plain = Scalar | tuple["Plain", ...] | dict[str, "Plain"]


def merge(base: Node, over: Node) -> Node:
    """What `over` makes of `base`; every value keeps the place where it was set. Nulls stay, for `prune` to remove."""
    if isinstance(base.data, Mapping) and isinstance(over.data, Mapping):
        both = {key: merge(base.data[key], each) if key in base.data else each for key, each in over.data.items()}
        return Node({**base.data, **both}, over.where)
    if _named(base) and _named(over):
        return Node(tuple(_by_name(base.items, over.items)), over.where)
    return over


def prune(node: Node) -> Node:
    """The same without null entries of maps."""
    if isinstance(node.data, Mapping):
        return Node({key: prune(each) for key, each in node.data.items() if each.data is not None}, node.where)
    if isinstance(node.data, tuple):
        return Node(tuple(prune(each) for each in node.data), node.where)
    return node


def plain(node: Node) -> Plain:
    """The values alone: dicts, tuples and scalars."""
    if isinstance(node.data, Mapping):
        return {key: plain(each) for key, each in node.data.items()}
    if isinstance(node.data, tuple):
        return tuple(plain(each) for each in node.data)
    return node.data


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every value with its path, parents before children."""
    yield path, node
    for key, each in node.entries.items():
        yield from walk(each, child(path, key))
    for name, each in zip(elements(path, [item.name for item in node.items]), node.items, strict=True):
        yield from walk(each, name)


def at(node: Node, steps: Sequence[str | int], known: dict[int, list[str]] | None = None) -> tuple[str, Node, bool]:
    """The path and value that the steps (keys and indices) lead to, and whether all of them could be gone.

    Where a step leads nowhere, the path names it and the value is the one that lacks it. `known`: what is kept between
    calls with the same tree, so that thousands of faults in a list do not each read all its names.
    """
    path, known = "", {} if known is None else known
    for step in steps:
        if isinstance(step, int) and step < len(node.items):
            if id(node) not in known:
                known[id(node)] = list(elements("", [item.name for item in node.items]))
            path, node = path + known[id(node)][step], node.items[step]
        elif isinstance(step, str) and step in node.entries:
            path, node = child(path, step), node.entries[step]
        else:
            return (f"{path}[{step}]" if isinstance(step, int) else child(path, step)), node, False
    return path, node, True


def overlay(node: Node, value: object, where: Place) -> Node:
    """The node with every value that differs in `value` (as JSON gives it) taken from there, set at `where`."""
    if isinstance(value, dict) and isinstance(node.data, Mapping):
        kept = {key: overlay(node.data[key], each, where) for key, each in value.items() if key in node.data}
        return Node({key: kept.get(key) or _made(each, where) for key, each in value.items()}, node.where)
    if isinstance(value, list) and isinstance(node.data, tuple) and len(value) == len(node.data):
        pairs = zip(node.data, value, strict=True)
        return Node(tuple(overlay(each, other, where) for each, other in pairs), node.where)
    same = type(node.data) is type(value) and node.data == value
    return node if same else _made(value, where)


def _made(value: object, where: Place) -> Node:
    if isinstance(value, dict):
        return Node({str(key): _made(each, where) for key, each in value.items()}, where)
    if isinstance(value, list):
        return Node(tuple(_made(each, where) for each in value), where)
    if value is None or isinstance(value, bool | int | float | str):
        return Node(value, where, str(value))
    raise TypeError(f"JSON holds no {type(value).__name__}")


def _named(node: Node) -> bool:
    return bool(node.items) and all(each.name is not None for each in node.items)


def _by_name(base: Sequence[Node], over: Sequence[Node]) -> Iterator[Node]:
    rest = dict(enumerate(over))
    named = defaultdict[str | None, list[int]](list)
    for index, each in rest.items():
        named[each.name].append(index)
    for each in base:
        match = next((index for index in named[each.name] if index in rest and _same(each, rest[index])), None)
        # A second of the same name stays, to be reported.
        yield each if match is None else merge(each, rest.pop(match))
    yield from rest.values()


def _same(one: Node, other: Node) -> bool:
    here, there = one.entries.get("namespace"), other.entries.get("namespace")
    return one.name == other.name and (here is None or there is None or here.data == there.data)
