"""One process at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from trainstack.dev.toolchain.progress import say


@contextmanager
def locked(path: Path, console: Console) -> Iterator[None]:
    """Hold a lock file; wait, and say so, while another process holds it.

    The kernel drops the lock when its holder ends, however that happens, so a crash leaves nothing to clean up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(console, f"{path.name}: another process is at it, waiting for it to finish")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
