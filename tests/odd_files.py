"""What may be in the place of a regular file."""

import os
import socket
from pathlib import Path


def make_socket(path: Path) -> None:
    """A bound socket. Its path has 107 characters at most: it is bound by its name, from the folder's descriptor."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def make_huge(path: Path) -> None:
    """A sparse file of 1 TiB."""
    with path.open("wb") as file:
        file.truncate(1 << 40)
