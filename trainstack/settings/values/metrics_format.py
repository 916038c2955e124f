"""`objective.metricsFormat`: the regular expression that finds the objective in a program's log.

RE2 evaluates it in linear time: the expression may be from an untrusted pull request.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import re2

MOST_CHARACTERS = 1_000
_MEMORY_BYTES = 1 << 18
"""The limit of a compiled expression."""
_VALUE, _EPOCH = "value", "epoch"


def fault(expression: str) -> str:
    """Return why an expression is invalid, or an empty string."""
    if len(expression) > MOST_CHARACTERS:
        return f"has {len(expression)} characters, more than {MOST_CHARACTERS}"
    try:
        groups: Mapping[str, int] = _compiled(expression).groupindex
    except re2.error as error:
        text = error.args[0] if error.args else ""
        reason = text.decode(errors="replace") if isinstance(text, bytes) else text
        return f"is not a regular expression of RE2: {reason}"
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if _VALUE not in groups:
        return "has no group (?P<value>…)"
    unknown = sorted(groups.keys() - {_VALUE, _EPOCH})
    return f"has an unknown group: {unknown[0]}" if unknown else ""


def default_format(metric: str) -> str:
    """Return the default expression for a metric: `<metric>=<number>`, as Katib's, or `<metric>: <number>`."""
    number = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    return rf"(?:^|[^\w|-]){re2.escape(metric)}\s*[=:]\s*(?P<value>{number}|nan|[-+]?inf)"


def matches(expression: str, text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the value and the epoch, if any, of each match."""
    for match in _compiled(expression).finditer(text):
        found = match.groupdict()
        if found[_VALUE] is not None:
            yield found[_VALUE], found.get(_EPOCH)


@cache
def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    return re2.compile(expression, options)
