"""The size of the terminal as the variables `COLUMNS` and `LINES` set it, which may have any value."""

import os
import re
from collections.abc import Mapping, MutableMapping
from contextlib import suppress

_MIN_SIZES: Mapping[str, int] = {"COLUMNS": 40, "LINES": 10, "TERMINAL_WIDTH": 40}
"""The variables that Rich and Typer read, with the least size at which they print every message: at a width of 0, they
print nothing."""
_MAX_SIZE = 10_000
"""Help is as wide as the terminal; a greater width takes memory and no terminal has it."""


def set_usable_size(variables: MutableMapping[str, str]) -> None:
    """Remove sizes at which output would be lost; if the terminal itself is as small, set the least size."""
    for name, min_size in _MIN_SIZES.items():
        value = variables.get(name, str(min_size))
        if not re.fullmatch("[0-9]{1,5}", value) or not min_size <= int(value) <= _MAX_SIZE:
            del variables[name]
    for name, size in zip(("COLUMNS", "LINES"), _terminal_size(), strict=False):
        if 0 < size < _MIN_SIZES[name]:
            variables.setdefault(name, str(_MIN_SIZES[name]))


def _terminal_size() -> tuple[int, ...]:
    for descriptor in range(3):
        with suppress(OSError):
            return os.get_terminal_size(descriptor)
    return ()
