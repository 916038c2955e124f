"""One command at a time in a folder of this machine.

The lock is on the folder itself: it needs no file, and the kernel releases it when its process ends, however it ends.
It holds for the processes of one machine.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstack.cli.console import err

_SILENT_SECONDS = 1
_PAUSE_SECONDS = 0.1


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder while the block runs; yields whether another command held it before.

    After a second a message names the process that is waited for. Raises OSError where the folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _lock(handle, folder)
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> bool:
    began, named, waited = time.monotonic(), False, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
        else:
            return waited
        if not named and time.monotonic() - began > _SILENT_SECONDS:
            err.print(f"  waiting for {_holder(handle)}, which is also fetching into {str(folder)!r}", markup=False)
            named = True
        time.sleep(_PAUSE_SECONDS)


def _holder(handle: int) -> str:
    """Name the process that holds the lock, as far as the kernel shows it."""
    inode = os.fstat(handle).st_ino
    try:
        for line in Path("/proc/locks").read_text().splitlines():
            # `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; one that waits has `->` after its number.
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                command = Path(f"/proc/{words[4]}/cmdline").read_bytes().decode(errors="replace")
                return f"process {words[4]} ({command.replace(chr(0), ' ').strip()})"
    except OSError:
        pass
    return "another command"
