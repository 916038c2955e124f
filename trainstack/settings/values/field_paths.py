"""Paths of fields within an object, such as `spec.components[0].template`."""

import re
from collections.abc import Mapping
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
    value: Any = body
    for step in _steps(path):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def put_at(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path of an object, and create the maps that lead to it.

    Raises ValueError if the path leads into a scalar, or to an element that its list lacks: lists are not extended.
    """
    *steps, last = _steps(path)
    holder: Any = body
    for step, following in zip(steps, [*steps[1:], last], strict=True):
        if isinstance(step, str) and isinstance(following, str) and isinstance(holder, dict):
            holder.setdefault(step, {})
        holder = _child(holder, step, path)
    if not (isinstance(holder, dict) and isinstance(last, str)):
        _child(holder, last, path)
    holder[last] = value


def _child(holder: Any, step: str | int, path: str) -> Any:
    with suppress(KeyError, IndexError):
        if isinstance(holder, dict) and isinstance(step, str):
            return holder[step]
        if isinstance(holder, list) and isinstance(step, int):
            return holder[step]
    raise ValueError(f"{path} leads to no field, since {step!r} is missing")


def _steps(path: str) -> list[str | int]:
    return [key or int(index) for key, index in _STEP.findall(path)]
