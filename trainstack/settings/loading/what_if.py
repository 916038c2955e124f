"""What-if values, such as `queues.priorityClasses[low].value=5`, merged into an environment's files.

A path has the form that errors and `trainstack render --explain` print: keys after a dot, or quoted in `["…"]`; list
elements in brackets, by name or index. The value is YAML, and is merged by the merge rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainstack.settings.errors import Place, SettingsFinding, suggest_name
from trainstack.settings.loading.merge import element_paths, merge
from trainstack.settings.loading.yaml_reader import Node, parse_text
from trainstack.settings.values.paths import PathStep, child_path, leading_steps

_FORM = "write PATH=VALUE, such as queues.priorityClasses[low].value=5; `trainstack render --explain` prints the paths"


class _Fault(Exception):  # noqa: N818 (it never leaves this file)
    """The error of a path that does not exist. Its arguments: the last valid path, the message and the remedy."""


def apply_changes(tree: Node, changes: Sequence[str], findings: list[SettingsFinding]) -> Node:
    """Return the sections with each `PATH=VALUE` merged, in order.

    A new key is added, and the models validate it. Faults are added to `findings`, with the change as their place.
    """
    for change in changes:
        where = Place(f"--set {change}")
        steps, text = _parse_change(change)
        if not steps:
            findings.append(SettingsFinding(where, "", "is not a path with a value", _FORM))
            continue
        faults: list[SettingsFinding] = []
        value = _with_place(parse_text(text, change, faults), where)
        findings += (replace(fault, where=where) for fault in faults)
        try:
            tree = _merge_at(tree, steps, value, "")
        except _Fault as fault:
            findings.append(SettingsFinding(where, *fault.args))
    return tree


def _parse_change(change: str) -> tuple[list[PathStep], str]:
    """Return the steps of the path and the text of the value; no steps if the form is invalid."""
    steps, end = leading_steps(change)
    return (steps if change[end : end + 1] == "=" else []), change[end + 1 :]


def _with_place(node: Node, where: Place) -> Node:
    """Return the node with `where` as the place of all its values."""
    if isinstance(node.data, Mapping):
        return Node({key: _with_place(value, where) for key, value in node.data.items()}, where)
    if isinstance(node.data, tuple):
        return Node(tuple(_with_place(element, where) for element in node.data), where)
    return replace(node, where=where)


def _merge_at(node: Node, steps: Sequence[PathStep], value: Node, path: str) -> Node:
    if not steps:
        return merge(node, value)
    step, remaining_steps = steps[0], steps[1:]
    if step.element is not None:
        return _merge_in_list(node, step.element, remaining_steps, value, path)
    key = step.key
    if not isinstance(node.data, Mapping):
        raise _Fault(
            path, f"is not a map, so it has no {key}", suggest_name(f"{path}[{key}]", element_paths(node, path))
        )
    existing = node.data.get(key, Node({} if remaining_steps else None, value.where))
    return Node({**node.data, key: _merge_at(existing, remaining_steps, value, child_path(path, key))}, node.where)


def _merge_in_list(node: Node, name_or_index: str, remaining_steps: Sequence[PathStep], value: Node, path: str) -> Node:
    paths = element_paths(node, path)
    names = [element.removeprefix(path)[1:-1] for element in paths]
    if name_or_index in names:
        index = names.index(name_or_index)
    elif name_or_index.isdigit() and int(name_or_index) < len(names):
        index = int(name_or_index)
    else:
        raise _Fault(f"{path}[{name_or_index}]", "does not exist", suggest_name(name_or_index, names))
    items = list(node.items)
    items[index] = _merge_at(items[index], remaining_steps, value, paths[index])
    return Node(tuple(items), node.where)
