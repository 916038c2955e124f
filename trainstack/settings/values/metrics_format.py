"""The regular expression `objective.metricsFormat`, which finds the objective in a program's log.

RE2 evaluates it in linear time, since the expression may be from an untrusted pull request.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

MAX_CHARACTERS = 1_000
_MEMORY_BYTES = 1 << 18
"""The limit of the memory of a compiled expression: 256 KiB."""
_VALUE, _EPOCH = "value", "epoch"
_NO_SPAN = (-1, -1)
"""The span of a group that is not part of the match."""


def expression_fault(expression: str) -> str:
    """Return the fault of an expression, or an empty string if it is valid."""
    if len(expression) > MAX_CHARACTERS:
        return f"has {len(expression)} characters, more than {MAX_CHARACTERS}"
    try:
        groups: Mapping[str, int] = _compile(expression).groupindex
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


@dataclass(frozen=True)
class Match:
    """The spans of a match and its groups: the first character, and the one behind the last."""

    whole: tuple[int, int]
    value: tuple[int, int]
    epoch: tuple[int, int] | None


def find_matches(expression: str, text: str) -> Iterator[Match]:
    """Yield the matches of the expression in which the group `value` takes part."""
    groups: Mapping[str, int] = _compile(expression).groupindex
    for match in _compile(expression).finditer(text):
        value, epoch = (match.span(groups[name]) if name in groups else _NO_SPAN for name in (_VALUE, _EPOCH))
        if value != _NO_SPAN:
            yield Match(match.span(), value, None if epoch == _NO_SPAN else epoch)


@cache
def _compile(expression: str) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    return re2.compile(expression, options)
