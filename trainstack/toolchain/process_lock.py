"""Locks between processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from trainstack.toolchain.progress import print_line


@contextmanager
def hold_lock(path: Path, console: Console) -> Iterator[None]:
    """Hold a lock file for the duration of the block; wait for another process that holds it.

    The kernel releases the lock when the process ends or crashes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line(console, f"{path.name}: waiting for another process to finish")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
