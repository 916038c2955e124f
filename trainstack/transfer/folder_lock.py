"""A lock on a local folder, which one command at a time can hold.

It locks the folder itself: no lock file is needed, and the kernel releases the lock when the process ends. It applies
to the processes of one machine.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstack.files.locks import describe_holder, try_lock
from trainstack.transfer.progress import TransferProgress

_QUIET_SECONDS = 1
"""How long a command waits before it reports the holder of the lock."""
_PAUSE_SECONDS = 0.1
"""The interval of attempts to take the lock."""


@contextmanager
def lock_folder(folder: Path, progress: TransferProgress) -> Iterator[bool]:
    """Hold the lock of a folder for the duration of the block; yield whether another command held it before.

    Reports the process that holds it after _QUIET_SECONDS. Raises OSError if the folder cannot be opened.
    """
    started, reported, waited = time.monotonic(), False, False
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not try_lock(handle):
            waited = True
            if not reported and time.monotonic() - started > _QUIET_SECONDS:
                progress.info(f"waiting for {describe_holder(handle)}, which is also fetching into {str(folder)!r}")
                reported = True
            time.sleep(_PAUSE_SECONDS)
        yield waited
    finally:
        os.close(handle)
