"""A lock that one command at a time holds on a local folder.

The folder itself is locked: no lock file is needed, and the kernel releases the lock when the process ends. The lock
applies to the processes of one machine.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstack.transfer.progress import Progress

_QUIET_SECONDS = 1
_PAUSE_SECONDS = 0.1


@contextmanager
def locked(folder: Path, progress: Progress) -> Iterator[bool]:
    """Hold the lock of a folder for the duration of the block; yield whether another command held it before.

    Reports the process that holds the lock after a second. Raises OSError if the folder cannot be opened.
    """
    started, reported, waited = time.monotonic(), False, False
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not _try_lock(handle):
            waited = True
            if not reported and time.monotonic() - started > _QUIET_SECONDS:
                progress.info(f"waiting for {_holder(handle)}, which is also fetching into {str(folder)!r}")
                reported = True
            time.sleep(_PAUSE_SECONDS)
        yield waited
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(handle: int) -> str:
    """The process that holds the lock, if the kernel exposes it."""
    inode = os.fstat(handle).st_ino
    try:
        for line in Path("/proc/locks").read_text().splitlines():
            # `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; a waiting process has `->` after the number.
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                command = Path(f"/proc/{fields[4]}/cmdline").read_bytes().decode(errors="replace")
                return f"process {fields[4]} ({command.replace(chr(0), ' ').strip()})"
    except OSError:
        pass
    return "another command"
