"""Values that are tried without being written: `queues.priorityClasses[low].value=5`, laid over an environment's files.

A path is what errors and `trainstack render --explain` print: keys after a dot, or in `["…"]` where they are no plain
words; elements of lists in brackets, by name or by index. The value is YAML, laid over what is there by the merge rule.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainstack.settings.errors import Finding, Place, nearest
from trainstack.settings.loading.merge import merge
from trainstack.settings.loading.source import Node, read_text
from trainstack.settings.values.paths import child, elements

_STEP = re.compile(r'\["(?P<quoted>[^"]+)"\]|\[(?P<element>[^\]"]+)\]|(?:^|\.)(?P<key>[A-Za-z0-9_-]+)')
_FORM = "write PATH=VALUE, such as queues.priorityClasses[low].value=5; `trainstack render --explain` prints the paths"


class _Fault(Exception):  # noqa: N818 (it never leaves this file)
    """Where a path leads nowhere, and what there is instead."""


def changed(tree: Node, changes: Sequence[str], findings: list[Finding]) -> Node:
    """The merged sections with each `PATH=VALUE` laid over them, one after the other.

    A key that is not there yet is added; the models tell whether there may be such a key. What cannot be done is added
    to `findings`, with the change as its place.
    """
    for change in changes:
        where = Place(f"--set {change}")
        steps, text = _split(change)
        if not steps:
            findings.append(Finding(where, "", "is no path with a value", _FORM))
            continue
        faults: list[Finding] = []
        value = _at(read_text(text, change, faults), where)
        findings += (replace(each, where=where) for each in faults)
        try:
            tree = _laid(tree, steps, value, "")
        except _Fault as fault:
            findings.append(Finding(where, *fault.args))
    return tree


def _split(change: str) -> tuple[list[re.Match[str]], str]:
    """The steps and the text of the value; no steps where it has not that form."""
    steps, end = [], 0
    while match := _STEP.match(change, end):
        steps.append(match)
        end = match.end()
    return (steps if change[end : end + 1] == "=" else []), change[end + 1 :]


def _at(node: Node, where: Place) -> Node:
    """The value, with all that is in it, at another place."""
    if isinstance(node.data, Mapping):
        return Node({key: _at(each, where) for key, each in node.data.items()}, where)
    if isinstance(node.data, tuple):
        return Node(tuple(_at(each, where) for each in node.data), where)
    return replace(node, where=where)


def _laid(node: Node, steps: Sequence[re.Match[str]], value: Node, path: str) -> Node:
    if not steps:
        return merge(node, value)
    step, rest = steps[0], steps[1:]
    if step["element"] is not None:
        return _in_list(node, step["element"], rest, value, path)
    key = step["quoted"] or step["key"]
    if not isinstance(node.data, Mapping):
        known = list(elements(path, [each.name for each in node.items]))
        raise _Fault(path, f"is no map, so it has no {key}", nearest(f"{path}[{key}]", known))
    there = node.data.get(key, Node({} if rest else None, value.where))
    return Node({**node.data, key: _laid(there, rest, value, child(path, key))}, node.where)


def _in_list(node: Node, word: str, rest: Sequence[re.Match[str]], value: Node, path: str) -> Node:
    paths = list(elements(path, [each.name for each in node.items]))
    names = [each.removeprefix(path)[1:-1] for each in paths]
    if word in names:
        place = names.index(word)
    elif word.isdigit() and int(word) < len(names):
        place = int(word)
    else:
        raise _Fault(f"{path}[{word}]", "is not there", nearest(word, names))
    items = list(node.items)
    items[place] = _laid(items[place], rest, value, paths[place])
    return Node(tuple(items), node.where)
