"""The texts of a line of a log, without the control sequences of terminals."""

import re
from collections.abc import Iterator

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
)
"""Control sequences, operating system commands (links, titles), strings, and other escapes of terminals."""
_CURSOR_MOVES = "ABEFGHf"
"""The last characters of the sequences that move the cursor, so that the following text is printed elsewhere."""
_MAX_TEXT_CHARACTERS = 10_000
"""The maximum length of a text; the remainder is not read."""


def terminal_texts(line: str) -> Iterator[str]:
    """Yield the texts of a line without colors, split where a terminal overwrites: overwritten texts count, too."""
    if "\x1b" in line or "\x9b" in line:
        line = _SEQUENCE.sub(_replacement, line)
    if "\b" in line:
        line = re.sub("\b+", "\r", line)
    yield from (piece[:_MAX_TEXT_CHARACTERS].strip() for piece in line.split("\r"))


def _replacement(sequence: re.Match[str]) -> str:
    if sequence["final"] == "C":
        return " "
    return "\r" if sequence["final"] and sequence["final"] in _CURSOR_MOVES else ""
