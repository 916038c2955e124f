"""Paths of values in messages: `queues.localQueues[research].clusterQueue`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trainstack.settings.errors import Place

_PLAIN = re.compile(r"^[A-Za-z0-9_-]+$")


def child(path: str, key: str) -> str:
    """Return the path of a map's entry, quoting a key that is not a plain word."""
    if not _PLAIN.match(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def elements(path: str, names: Sequence[str | None]) -> Iterator[str]:
    """Yield the paths of a list's elements, by name where it is unique, else by index from 0."""
    count = Counter(names) if names else {}
    for index, name in enumerate(names):
        yield f"{path}[{name if name is not None and count[name] == 1 else index}]"


def nearest_place(places: Mapping[str, Place], path: str) -> Place | None:
    """Return where the value, or the closest enclosing one, is set, if any file sets it."""
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path)
