"""Locks on files and folders of this machine. The kernel releases them when the process that holds them ends."""

import fcntl
import os
from pathlib import Path


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder; return False if another process holds the lock.

    Raises OSError if the file system has no such locks: NFS has none for folders.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_new(path: Path, descriptor: int) -> bool:
    """Lock a file or folder that this process has just created and opened, if its file system has locks.

    Return False if the path no longer exists, since another process may remove it before it is locked. Return True if
    the file system has no locks.
    """
    try:
        return try_lock(descriptor) and os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def is_locked(descriptor: int) -> bool:
    """Return whether another process has locked an open file or folder; True if the file system has no locks."""
    try:
        return not try_lock(descriptor)
    except OSError:
        return True


def describe_holder(descriptor: int) -> str:
    """Describe the process that holds the lock: `another command` if the kernel does not expose it."""
    inode = os.fstat(descriptor).st_ino
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
