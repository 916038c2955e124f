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
    form = _REQUIREMENT.fullmatch(requirement)
    if form is None:
        return True
    value = labels.get(form["name"])
    if form["value"] is not None:
        return value == form["value"]
    if form["values"] is not None:
        return value in form["values"].replace(" ", "").split(",")
    return (value is None) == bool(form["absent"])
