"""Edits of loaded settings, validated as the values of files are.

A path has the form of `settings.values.paths`, and a value that of a file's, with tuples for lists. As in files, None
removes a key, which then has its default.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from trainstack.settings.model import Settings
from trainstack.settings.values.paths import PathStep, parse_steps

Edit = tuple[str, Any]
"""A path and its new value."""


def apply_edits(settings: Settings, edits: Iterable[Edit]) -> Settings:
    """Return the settings with all edits, which are validated together.

    Raises ValueError if a path does not exist, or if the settings would not load.
    """
    tree: Any = settings
    for path, value in edits:
        tree = _set_value(tree, parse_steps(path), value)
    return Settings.model_validate(tree, by_alias=True, by_name=False)


def _set_value(node: Any, steps: Sequence[PathStep], value: Any) -> Any:
    """Return a node with the value set at the steps; models on the path become maps of their set fields."""
    if not steps:
        return value
    step, remaining_steps = steps[0], steps[1:]
    if step.element is not None:
        return _set_element(node, step.element, remaining_steps, value)
    entries = _map_entries(node)
    if value is None and (not remaining_steps or step.key not in entries):
        return {key: entry for key, entry in entries.items() if key != step.key}
    return {**entries, step.key: _set_value(entries.get(step.key, {}), remaining_steps, value)}


def _set_element(node: Any, name_or_index: str, remaining_steps: Sequence[PathStep], value: Any) -> tuple[Any, ...]:
    if not isinstance(node, tuple | list):
        raise ValueError(f"{name_or_index} is an element of no list")  # noqa: TRY004 (as pydantic's errors)
    names = list(map(_name_of, node))
    if names.count(name_or_index) != 1 and not (name_or_index.isdecimal() and int(name_or_index) < len(node)):
        raise ValueError(f"the list has no element {name_or_index}")
    index = names.index(name_or_index) if names.count(name_or_index) == 1 else int(name_or_index)
    return (*node[:index], _set_value(node[index], remaining_steps, value), *node[index + 1 :])


def _name_of(element: Any) -> Any:
    return element.get("name") if isinstance(element, Mapping) else getattr(element, "name", None)


def _map_entries(node: Any) -> Mapping[str, Any]:
    if isinstance(node, BaseModel):
        fields = type(node).model_fields
        return {fields[name].alias or name: getattr(node, name) for name in node.model_fields_set}
    if not isinstance(node, Mapping):
        raise ValueError(f"{node!r} is not a map")  # noqa: TRY004 (as pydantic's errors)
    return node
