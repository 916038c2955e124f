"""Edits of loaded settings, validated as the values of files are.

A path has the form of `settings.values.paths`, and a value that of a file's, with tuples for lists. As in files, None
removes a key, which then has its default.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from trainstack.settings.model import Settings
from trainstack.settings.values.paths import Step, steps_of

Edit = tuple[str, Any]
"""A path and its new value."""


def edited(settings: Settings, edits: Iterable[Edit]) -> Settings:
    """Return the settings with all edits, which are validated together.

    Raises ValueError if a path does not exist, or if the settings would not load.
    """
    tree: Any = settings
    for path, value in edits:
        tree = _with(tree, steps_of(path), value)
    return Settings.model_validate(tree, by_alias=True, by_name=False)


def _with(node: Any, steps: Sequence[Step], value: Any) -> Any:
    """Return a node with the value set at the steps; models on the path become maps of their set fields."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step.element is not None:
        return _with_element(node, step.element, rest, value)
    entries = _entries(node)
    if value is None and (not rest or step.key not in entries):
        return {key: entry for key, entry in entries.items() if key != step.key}
    return {**entries, step.key: _with(entries.get(step.key, {}), rest, value)}


def _with_element(node: Any, word: str, rest: Sequence[Step], value: Any) -> tuple[Any, ...]:
    if not isinstance(node, tuple):
        raise ValueError(f"{word} is an element of no list")  # noqa: TRY004 (as pydantic's errors)
    names = list(map(_name, node))
    if names.count(word) != 1 and not (word.isdecimal() and int(word) < len(node)):
        raise ValueError(f"the list has no element {word}")
    index = names.index(word) if names.count(word) == 1 else int(word)
    return (*node[:index], _with(node[index], rest, value), *node[index + 1 :])


def _name(element: Any) -> Any:
    return element.get("name") if isinstance(element, Mapping) else getattr(element, "name", None)


def _entries(node: Any) -> Mapping[str, Any]:
    if isinstance(node, BaseModel):
        fields = type(node).model_fields
        return {fields[name].alias or name: getattr(node, name) for name in node.model_fields_set}
    if not isinstance(node, Mapping):
        raise ValueError(f"{node!r} is not a map")  # noqa: TRY004 (as pydantic's errors)
    return node
