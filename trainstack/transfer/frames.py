r"""The one protocol that the scripts in a data loader's pod answer in, and the one form in which they take names.

An answer is a sequence of frames. A frame is the number of its fields and then the fields, each ended by a NUL, which
no file name and no line of text holds; the last frame is `end`. So no name is taken for a heading, and an answer that
was cut off has no end. The shell functions below need `sh`, and work in dash, busybox and bash alike.
"""

import os
from collections.abc import Iterable, Iterator
from typing import IO

from trainstack.transfer.pod_script import BrokenConnectionError

FUNCTIONS = r"""export LC_ALL=C
frame() { printf "%s\0" $# "$@"; }
read_name() {
  IFS= read -r name || return
  case $name in *\\*) name=$(printf %b. "$name"); name=${name%.};; esac
}
"""
"""Shell functions: `frame FIELD…` writes a frame; `read_name` reads the next of `asked` into $name.

They hold no single quote, so that a script may pass them on to another shell between single quotes."""
END = "frame end"
"""The last command of every script; fields after the word are the caller's."""
_END = "end"
_READ = 1 << 16
_MOST_DIGITS = 8


def asked(names: Iterable[str]) -> bytes:
    r"""Encode names for `read_name`: a line for each, in which `\\` is a backslash and `\n` a line break."""
    return b"".join(os.fsencode(name).replace(b"\\", b"\\\\").replace(b"\n", b"\\n") + b"\n" for name in names)


class Frames:
    """The frames of an answer as they arrive, each a list of its fields, without the last one.

    Iterating raises BrokenConnectionError where the answer is cut off or is no sequence of frames.
    """

    def __init__(self, stream: IO[bytes], what: str) -> None:
        self._fields = _fields(stream)
        self._what = what
        self.end: list[str] = []
        """The fields of the last frame after its first word, once all frames have been read."""

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the frames that are left."""
        while True:
            fields = self._frame()
            if fields[0] == _END:
                self.end = fields[1:]
                return
            yield fields

    def next(self) -> list[str]:
        """Return the next frame; [] at the end."""
        return next(iter(self), [])

    def _frame(self) -> list[str]:
        count = next(self._fields, b"")
        if not count.isdigit() or len(count) > _MOST_DIGITS or not int(count):
            found = f"found {os.fsdecode(count[:40])!r} instead of a frame" if count else "the answer has no last frame"
            raise BrokenConnectionError(f"the {self._what} was cut off: {found}")
        fields = [os.fsdecode(field) for _, field in zip(range(int(count)), self._fields, strict=False)]
        if len(fields) < int(count):
            raise BrokenConnectionError(f"the {self._what} was cut off: {len(fields)} of {int(count)} fields arrived")
        return fields


def _fields(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what is ended by a NUL, as it arrives; what is left without one is not whole, and is dropped."""
    read = getattr(stream, "read1", stream.read)
    begun: list[bytes] = []
    while data := read(_READ):
        first, *others = data.split(b"\0")
        begun.append(first)
        for field in others:
            yield b"".join(begun)
            begun = [field]
