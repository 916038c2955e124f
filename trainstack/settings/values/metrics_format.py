"""`objective.metricsFormat`: the regular expression that finds the objective in what a program prints.

RE2 evaluates it: its time is linear in the length of the text, whatever the expression. A pull request of a fork may
bring one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import re2

MOST_CHARACTERS = 1_000
"""Of an expression."""
_MEMORY_BYTES = 1 << 18
"""Of a compiled expression: RE2 refuses one that needs more."""
_VALUE, _EPOCH = "value", "epoch"


def fault(expression: str) -> str:
    """Why an expression cannot be used; empty where it can."""
    if len(expression) > MOST_CHARACTERS:
        return f"has {len(expression)} characters, more than {MOST_CHARACTERS}"
    try:
        groups: Mapping[str, int] = _compiled(expression).groupindex
    except re2.error as error:
        return f"is not a regular expression of RE2: {_message(error)}"
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if _VALUE not in groups:
        return "has no group (?P<value>…)"
    unknown = sorted(groups.keys() - {_VALUE, _EPOCH})
    return f"has a group of another name: {unknown[0]}" if unknown else ""


def default_format(metric: str) -> str:
    """The expression for a metric without a format of its own: `<metric>=<number>` or `<metric>: <number>`.

    Katib's default has the first form.
    """
    number = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    return rf"(?:^|[^\w|-]){re2.escape(metric)}\s*[=:]\s*(?P<value>{number}|nan|[-+]?inf)"


def matches(expression: str, text: str) -> Iterator[tuple[str, str | None]]:
    """The values of all matches, each with its epoch, where the expression has such a group."""
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


def _message(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
