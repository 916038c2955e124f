"""Reads of files of untrusted authors: only regular files, up to a maximum size, and never blocking."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 2 << 20
"""The maximum size of a settings file, 2 MiB: twice a ConfigMap's, which may contain a sweep's parameter sets."""

_FILE_TYPES = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


class FileError(OSError):
    """A file that is not read because of its type or size."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(errno.EINVAL, problem, str(file))


def read_bytes(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file of at most `limit` bytes.

    Raises FileError for other types and larger files, and OSError if the file cannot be opened.
    """
    with open_regular(file) as stream:
        status = os.fstat(stream.fileno())
        content = stream.read(min(status.st_size, limit) + 1)
        if len(content) > status.st_size:
            # The file is growing, or has no size, as in /proc.
            content += stream.read(max(0, limit + 1 - len(content)))
    if len(content) > limit:
        raise FileError(file, f"is larger than {limit >> 20} MiB")
    return content


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file for reading. Raises FileError for other types, and OSError if it cannot be opened."""
    _ensure_regular(file, file.stat().st_mode)
    # Another process may have replaced the file by a FIFO: without O_NONBLOCK, opening one waits for a writer.
    stream = os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb")
    try:
        _ensure_regular(file, os.fstat(stream.fileno()).st_mode)
    except FileError:
        stream.close()
        raise
    return stream


def read_text(file: Path) -> str:
    """Read a file as UTF-8 text, keeping its line endings. Raises UnicodeDecodeError for other encodings."""
    return read_bytes(file).decode("utf-8")


def _ensure_regular(file: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise FileError(file, f"is {_FILE_TYPES.get(stat.S_IFMT(mode), 'a special file')}, not a regular file")
