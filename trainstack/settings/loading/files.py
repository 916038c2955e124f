"""Read files from untrusted authors: regular files only, up to a size, without blocking the reader."""

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 2 << 20
"""Of one file of settings. A ConfigMap, which holds a sweep's sets, takes half of that."""


class FileError(OSError):
    """A file that exists but is not read, because of its kind or size."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(errno.EINVAL, problem, str(file))


def read_bytes(file: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most so many bytes.

    Raises FileError for any other file, and OSError where it cannot be opened.
    """
    _must_be_regular(file, file.stat().st_mode)
    # Another file may have taken its place since: without O_NONBLOCK the open of a FIFO waits for a writer.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as opened:
        _must_be_regular(file, os.fstat(opened.fileno()).st_mode)
        content = opened.read(most + 1)
    if len(content) > most:
        raise FileError(file, f"is larger than {most >> 20} MiB")
    return content


def read_text(file: Path) -> str:
    """The same as text, with its line endings as they are. Raises UnicodeDecodeError where it is not UTF-8."""
    return read_bytes(file).decode("utf-8")


def _must_be_regular(file: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise FileError(file, f"is {_kind(mode)}, not a regular file")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
    )
    return next((name for test, name in kinds if test(mode)), "a special file")
