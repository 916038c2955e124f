r"""The protocol of scripts in a data loader's pod: frames on their standard output, encoded names on their input.

A frame is the number of its fields, then the fields; each number and field ends with a NUL, which no file name
contains. The last frame is `end`, so a truncated response is detected, and no file name is mistaken for a frame's
type. The shell functions work in dash, busybox and bash.
"""

import base64
import os
from collections.abc import Iterable, Iterator
from typing import IO

from trainstack.transfer.errors import BrokenConnectionError

SHELL_FUNCTIONS = r"""export LC_ALL=C
frame() { printf "%s\0" $# "$@"; }
read_name() {
  IFS= read -r name || return
  case $name in *\\*) name=$(printf %b. "$name"); name=${name%.};; esac
}
"""
"""Shell functions: `frame FIELD…` writes a frame; `read_name` reads the next encoded name into $name.

They contain no single quote, so a script can pass them to another shell in single quotes."""
END_COMMAND = "frame end"
"""The last command of every script; the caller may append fields."""
_END_TYPE = "end"
"""The type of the last frame."""
_READ_BYTES = 1 << 16
"""The number of bytes that are read at once."""
_MAX_DIGITS = 8
"""The maximum length of a number of fields; a longer one is no frame."""


def encode_names(names: Iterable[str]) -> bytes:
    r"""Encode names for `read_name`, one per line; `\\` is a backslash and `\n` a line break."""
    return b"".join(os.fsencode(name).replace(b"\\", b"\\\\").replace(b"\n", b"\\n") + b"\n" for name in names)


def decode_base64(field: str, operation: str) -> bytes:
    """Decode the output of `base64`. Raises BrokenConnectionError if it is invalid."""
    try:
        return base64.b64decode(field.replace("\n", ""), validate=True)
    except ValueError:
        raise BrokenConnectionError(f"the {operation} is damaged: a file's content is not base64") from None


class Frames:
    """The frames of a response as they arrive, without the last one; each frame is a list of its fields.

    Iteration raises BrokenConnectionError if the response is truncated or is not a sequence of frames.
    """

    def __init__(self, stream: IO[bytes], operation: str) -> None:
        self._fields = _split_fields(stream)
        self._operation = operation
        self.end: list[str] = []
        """The fields of the last frame after `end`, once all frames have been read."""

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the remaining frames."""
        while (fields := self._next_frame())[0] != _END_TYPE:
            yield fields
        self.end = fields[1:]

    def next(self) -> list[str]:
        """Return the next frame; [] after the last one."""
        return next(iter(self), [])

    def _next_frame(self) -> list[str]:
        count = next(self._fields, b"")
        if not count.isdigit() or len(count) > _MAX_DIGITS or not int(count):
            problem = f"found {os.fsdecode(count[:40])!r} instead of a frame" if count else "it has no last frame"
            raise BrokenConnectionError(f"the {self._operation} was truncated: {problem}")
        fields = [os.fsdecode(field) for _, field in zip(range(int(count)), self._fields, strict=False)]
        if len(fields) < int(count):
            raise BrokenConnectionError(
                f"the {self._operation} was truncated: {len(fields)} of {int(count)} fields arrived"
            )
        return fields


def _split_fields(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the fields as they arrive, without a last one that lacks its NUL."""
    read = getattr(stream, "read1", stream.read)
    pending: list[bytes] = []
    while data := read(_READ_BYTES):
        first, *others = data.split(b"\0")
        pending.append(first)
        for field in others:
            yield b"".join(pending)
            pending = [field]
