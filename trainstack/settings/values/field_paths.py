"""Paths of fields within an object, such as `spec.components[0].template`."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field

FieldPath = Annotated[str, Field(pattern=r"^spec(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$")]
"""A path below `spec`: keys joined by '.', and indexes of lists in brackets."""
StatusPath = Annotated[str, Field(pattern=r"^status(\.[A-Za-z0-9_-]+(\[[0-9]+\])*)+$")]
"""A path below `status`."""
_STEP = re.compile(r"([A-Za-z0-9_-]+)|\[([0-9]+)\]")


def value_at(body: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of an object, or None if it does not exist."""
    return _value_at_steps(body, _parse_steps(path))


def put_at(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path of an object, and create the maps that lead to it.

    Raises ValueError if the path leads into a scalar, or to an element that its list lacks: lists are not extended.
    """
    *steps, last_step = _parse_steps(path)
    parent: Any = body
    parent_path = ""
    for step, next_step in zip(steps, [*steps[1:], last_step], strict=True):
        if isinstance(step, str) and isinstance(next_step, str) and isinstance(parent, dict):
            parent.setdefault(step, {})
        parent = _child_value(parent, step, parent_path, path)
        parent_path = _child_path(parent_path, step)
    if not (isinstance(parent, dict) and isinstance(last_step, str)):
        _child_value(parent, last_step, parent_path, path)
    parent[last_step] = value


def remove_at(body: dict[str, Any], path: str) -> None:
    """Remove the field at a path of an object, if it exists."""
    *steps, last_step = _parse_steps(path)
    parent = _value_at_steps(body, steps)
    if isinstance(parent, dict):
        parent.pop(last_step, None)


def _value_at_steps(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def _child_value(parent: Any, step: str | int, parent_path: str, path: str) -> Any:
    with suppress(KeyError, IndexError):
        if isinstance(parent, dict) and isinstance(step, str):
            return parent[step]
        if isinstance(parent, list) and isinstance(step, int):
            return parent[step]
    raise ValueError(f"{path} leads to no field, since {_describe_missing_child(parent, step, parent_path)}")


def _describe_missing_child(parent: Any, step: str | int, parent_path: str) -> str:
    if isinstance(parent, list) and isinstance(step, str):
        return f"{parent_path} is a list, whose elements are written as {parent_path}[0]"
    if isinstance(parent, list):
        return f"{parent_path} has {len(parent)} element{'s' if len(parent) != 1 else ''}, counted from 0"
    if isinstance(parent, dict) and isinstance(step, str):
        return f"{_child_path(parent_path, step)} is missing"
    return f"{parent_path} is not a {'map' if isinstance(step, str) else 'list'}"


def _child_path(path: str, step: str | int) -> str:
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}" if path else step


def _parse_steps(path: str) -> list[str | int]:
    return [key or int(index) for key, index in _STEP.findall(path)]
