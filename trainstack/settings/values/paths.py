"""Paths of values in messages: `queues.localQueues[research].clusterQueue`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.settings.errors import Place

_PLAIN = re.compile(r"^[A-Za-z0-9_-]+$")
_STEP = re.compile(r'\["(?P<quoted>[^"]+)"\]|\[(?P<element>[^\]"]+)\]|(?:^|\.)(?P<key>[A-Za-z0-9_-]+)')


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step of a path: the key of a map, or the name or index of a list's element."""

    key: str = ""
    element: str | None = None


def leading_steps(text: str) -> tuple[list[PathStep], int]:
    """Return the steps at the beginning of a text, and the index behind them."""
    steps, end = [], 0
    while match := _STEP.match(text, end):
        steps.append(PathStep(match["quoted"] or match["key"] or "", match["element"]))
        end = match.end()
    return steps, end


def parse_steps(path: str) -> list[PathStep]:
    """Return the steps of a path. Raises ValueError if the text is not a path."""
    steps, end = leading_steps(path)
    if not steps or end < len(path):
        raise ValueError(f"{path!r} is not a path")
    return steps


def child_path(path: str, key: str) -> str:
    """Return the path of a map's entry, quoting a key that is not a plain word."""
    if not _PLAIN.match(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def named_element_paths(path: str, names: Sequence[str | None]) -> Iterator[str]:
    """Yield the paths of a list's elements: by name where it is unique, else by index, from 0.

    `names`: the names of the elements, None for an element without a name.
    """
    counts = Counter(names) if names else {}
    for index, name in enumerate(names):
        yield f"{path}[{name if name is not None and counts[name] == 1 else index}]"


def nearest_place(places: Mapping[str, Place], path: str) -> Place | None:
    """Return the place of the value at a path, or of the closest enclosing value; None if no file sets either."""
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path)
