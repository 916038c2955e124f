"""Files of unusual types and sizes, in place of a regular file."""

import os
import socket
from pathlib import Path


def make_socket(path: Path) -> None:
    """Create a bound socket.

    The path of a socket has at most 107 characters, so it is bound relative to the folder's descriptor.
    """
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def make_sparse_file(path: Path) -> None:
    """Create a sparse file of 1 TiB."""
    with path.open("wb") as file:
        file.truncate(1 << 40)
