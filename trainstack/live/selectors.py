"""Evaluation of label selectors on the items of a list.

The API server evaluates them too, but a proxy may drop the query of a request, and the list then has all objects.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

_REQUIREMENT = re.compile(r"(?P<absent>!?)(?P<name>[^\s=!]+)(=(?P<value>\S*)| in \((?P<values>.*)\))?")
"""The forms that Trainstack uses: `a=b`, `a in (b, c)`, `a` and `!a`."""
_COMMA = re.compile(r",(?![^(]*\))")


def selects(path: str, item: Mapping[str, Any]) -> bool:
    """Return whether the `labelSelector` of a list's path selects an item. A path without one selects every item."""
    (selector,) = parse_qs(path.partition("?")[2]).get("labelSelector", [""])
    labels = item["metadata"].get("labels", {})
    return all(_is_met(requirement.strip(), labels) for requirement in _COMMA.split(selector) if requirement)


def _is_met(requirement: str, labels: Mapping[str, str]) -> bool:
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        return True
    value = labels.get(match["name"])
    if match["value"] is not None:
        return value == match["value"]
    if match["values"] is not None:
        return value in match["values"].replace(" ", "").split(",")
    return (value is None) == bool(match["absent"])
