"""The rule by which files are merged.

Maps merge key by key. Lists of named elements (every element a map with a `name`) merge by name: an element of both
keeps its position in the base, and new elements follow. Elements of one name but different `namespace` are distinct.
Every other list replaces the base's, so `[]` clears it. `null` deletes: the value reverts to the model's default.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trainstack.settings.errors import Place
from trainstack.settings.loading.yaml_reader import Node, Scalar
from trainstack.settings.values.paths import child_path, named_element_paths

Plain = Scalar | tuple["Plain", ...] | dict[str, "Plain"]


def merge(base: Node, over: Node) -> Node:
    """Merge `over` over `base`; every value keeps its place. Nulls remain until `prune` removes them."""
    if isinstance(base.data, Mapping) and isinstance(over.data, Mapping):
        merged = {key: merge(base.data[key], value) if key in base.data else value for key, value in over.data.items()}
        return Node({**base.data, **merged}, over.where)
    if _is_named_list(base) and _is_named_list(over):
        return Node(tuple(_merge_by_name(base.items, over.items)), over.where)
    return over


def prune(node: Node) -> Node:
    """Return the node without the null entries of its maps."""
    if isinstance(node.data, Mapping):
        return Node({key: prune(value) for key, value in node.data.items() if value.data is not None}, node.where)
    if isinstance(node.data, tuple):
        return Node(tuple(map(prune, node.data)), node.where)
    return node


def to_plain(node: Node) -> Plain:
    """Return the values without places: dicts, tuples and scalars."""
    if isinstance(node.data, Mapping):
        return {key: to_plain(value) for key, value in node.data.items()}
    if isinstance(node.data, tuple):
        return tuple(map(to_plain, node.data))
    return node.data


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every value with its path, parents before children."""
    yield path, node
    for key, value in node.entries.items():
        yield from walk(value, child_path(path, key))
    if node.items:
        for element_path, element in zip(element_paths(node, path), node.items, strict=True):
            yield from walk(element, element_path)


def element_paths(node: Node, path: str) -> list[str]:
    return list(named_element_paths(path, [element.name for element in node.items]))


def locate(
    node: Node, steps: Sequence[str | int], path_cache: dict[int, list[str]] | None = None
) -> tuple[str, Node, bool]:
    """Return the path and node at the steps (keys and indices), and whether the value exists.

    If a step does not exist, the path ends with it and the node is the one that lacks it. `path_cache` has the paths
    of lists' elements between calls for one tree: a list may have thousands of faults.
    """
    path, path_cache = "", {} if path_cache is None else path_cache
    for step in steps:
        if isinstance(step, int) and step < len(node.items):
            if id(node) not in path_cache:
                path_cache[id(node)] = element_paths(node, "")
            path, node = path + path_cache[id(node)][step], node.items[step]
        elif isinstance(step, str) and step in node.entries:
            path, node = child_path(path, step), node.entries[step]
        else:
            return (f"{path}[{step}]" if isinstance(step, int) else child_path(path, step)), node, False
    return path, node, True


def overlay(node: Node, value: object, where: Place) -> Node:
    """Return the node with the content of `value` (parsed JSON); a value that differs gets the place `where`."""
    if isinstance(value, dict) and isinstance(node.data, Mapping):
        overlaid = {key: overlay(node.data[key], new, where) for key, new in value.items() if key in node.data}
        return Node({key: overlaid.get(key) or to_node(new, where) for key, new in value.items()}, node.where)
    if isinstance(value, list) and isinstance(node.data, tuple) and len(value) == len(node.data):
        pairs = zip(node.data, value, strict=True)
        return Node(tuple(overlay(old, new, where) for old, new in pairs), node.where)
    is_same = type(node.data) is type(value) and node.data == value
    return node if is_same else to_node(value, where)


def to_node(value: object, where: Place) -> Node:
    if isinstance(value, dict):
        return Node({str(key): to_node(entry, where) for key, entry in value.items()}, where)
    if isinstance(value, list):
        return Node(tuple(to_node(element, where) for element in value), where)
    if value is None or isinstance(value, bool | int | float | str):
        return Node(value, where, str(value))
    raise TypeError(f"JSON has no {type(value).__name__}")


def _is_named_list(node: Node) -> bool:
    return bool(node.items) and all(element.name is not None for element in node.items)


def _merge_by_name(base: Sequence[Node], over: Sequence[Node]) -> Iterator[Node]:
    remaining = dict(enumerate(over))
    indices_by_name = defaultdict[str | None, list[int]](list)
    for index, element in remaining.items():
        indices_by_name[element.name].append(index)
    for element in base:
        match = next(
            (
                index
                for index in indices_by_name[element.name]
                if index in remaining and _is_same_element(element, remaining[index])
            ),
            None,
        )
        # A duplicate name is kept, to be reported.
        yield element if match is None else merge(element, remaining.pop(match))
    yield from remaining.values()


def _is_same_element(base: Node, over: Node) -> bool:
    base_namespace, over_namespace = base.entries.get("namespace"), over.entries.get("namespace")
    return base.name == over.name and (
        base_namespace is None or over_namespace is None or base_namespace.data == over_namespace.data
    )
