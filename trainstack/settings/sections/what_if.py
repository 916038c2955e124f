"""What-if values, such as `queues.priorityClasses[low].value=5`, merged into an environment's files.

A path has the form that errors and `trainstack render --explain` print: keys after a dot, or quoted in `["…"]`; list
elements in brackets, by name or index. The value is YAML, and is merged by the merge rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainstack.settings.errors import Finding, Place, nearest
from trainstack.settings.loading.merge import element_paths, merge
from trainstack.settings.loading.source import Node, read_text
from trainstack.settings.values.paths import Step, child, leading_steps

_FORM = "write PATH=VALUE, such as queues.priorityClasses[low].value=5; `trainstack render --explain` prints the paths"


class _Fault(Exception):  # noqa: N818 (it never leaves this file)
    """The error of a path that does not exist. Its arguments: the last valid path, the message and the remedy."""


def changed(tree: Node, changes: Sequence[str], findings: list[Finding]) -> Node:
    """Return the sections with each `PATH=VALUE` merged, in order.

    A new key is added, and the models validate it. Faults are added to `findings`, with the change as their place.
    """
    for change in changes:
        where = Place(f"--set {change}")
        steps, text = _split(change)
        if not steps:
            findings.append(Finding(where, "", "is not a path with a value", _FORM))
            continue
        faults: list[Finding] = []
        value = _at(read_text(text, change, faults), where)
        findings += (replace(fault, where=where) for fault in faults)
        try:
            tree = _merged(tree, steps, value, "")
        except _Fault as fault:
            findings.append(Finding(where, *fault.args))
    return tree


def _split(change: str) -> tuple[list[Step], str]:
    """Return the steps of the path and the text of the value; no steps if the form is invalid."""
    steps, end = leading_steps(change)
    return (steps if change[end : end + 1] == "=" else []), change[end + 1 :]


def _at(node: Node, where: Place) -> Node:
    """Return the node with `where` as the place of all its values."""
    if isinstance(node.data, Mapping):
        return Node({key: _at(value, where) for key, value in node.data.items()}, where)
    if isinstance(node.data, tuple):
        return Node(tuple(_at(element, where) for element in node.data), where)
    return replace(node, where=where)


def _merged(node: Node, steps: Sequence[Step], value: Node, path: str) -> Node:
    if not steps:
        return merge(node, value)
    step, rest = steps[0], steps[1:]
    if step.element is not None:
        return _in_list(node, step.element, rest, value, path)
    key = step.key
    if not isinstance(node.data, Mapping):
        raise _Fault(path, f"is not a map, so it has no {key}", nearest(f"{path}[{key}]", element_paths(node, path)))
    old = node.data.get(key, Node({} if rest else None, value.where))
    return Node({**node.data, key: _merged(old, rest, value, child(path, key))}, node.where)


def _in_list(node: Node, word: str, rest: Sequence[Step], value: Node, path: str) -> Node:
    paths = element_paths(node, path)
    names = [element.removeprefix(path)[1:-1] for element in paths]
    if word in names:
        index = names.index(word)
    elif word.isdigit() and int(word) < len(names):
        index = int(word)
    else:
        raise _Fault(f"{path}[{word}]", "does not exist", nearest(word, names))
    items = list(node.items)
    items[index] = _merged(items[index], rest, value, paths[index])
    return Node(tuple(items), node.where)
