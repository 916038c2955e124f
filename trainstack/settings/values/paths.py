"""How a value of an environment is named to people: `queues.localQueues[research].clusterQueue`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trainstack.settings.errors import Place

_PLAIN = re.compile(r"^[A-Za-z0-9_-]+$")


def child(path: str, key: str) -> str:
    """The path of a map's entry; a key that is no plain word stands in brackets and quotes."""
    if not _PLAIN.match(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def elements(path: str, names: Sequence[str | None]) -> Iterator[str]:
    """The paths of a list's elements: by name where each has one of its own, else by index from 0."""
    count = Counter(names)
    for index, name in enumerate(names):
        yield f"{path}[{name if name is not None and count[name] == 1 else index}]"


def nearest_place(places: Mapping[str, Place], path: str) -> Place | None:
    """Where the value, or what encloses it, is set; None when no file says anything about it."""
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path)
