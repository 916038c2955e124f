"""Temporary files, also secret ones, that do not outlive their process.

A killed process cannot remove its files. A secret file is therefore in memory on systems with memory files, such as
Linux. The process that uses a temporary folder locks it, so that the next command can recognize and remove the folders
of processes that have ended.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trainstack.files.locks import try_lock, try_lock_new

PREFIX = "trainstack-process-"
"""The prefix of the names of temporary folders. Other folders must not have it: `remove_leftovers` removes them."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder that only this account can open. It is removed at the end of the block."""
    folder, lock = _create_locked_folder()
    try:
        # The outer folder has the lock, so that the caller may lock the inner one.
        (folder / "content").mkdir()
        yield folder / "content"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@dataclass(frozen=True)
class SecretFile:
    """A file that only this account can read, until `close` or the end of the process."""

    path: Path
    """The path for this process, and for child processes that end before it."""
    inherited_path: Path
    """The path for a child process that inherits the descriptor and may outlive this process."""
    descriptor: int
    folder: Path | None = None
    """The file's temporary folder; None if the file is in memory."""

    def close(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.descriptor)


def secret_file(content: bytes) -> SecretFile:
    return _create_in_memory(content) or _create_in_folder(content)


def remove_leftovers() -> None:
    """Remove the temporary folders of processes of this account that have ended."""
    with suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            if entry.name.startswith(PREFIX) and _is_private(entry):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _create_locked_folder() -> tuple[Path, int]:
    while True:
        # mkdtemp creates a folder that only its owner can open.
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if try_lock_new(folder, descriptor):
                return folder, descriptor
            os.close(descriptor)


def _create_in_memory(content: bytes) -> SecretFile | None:
    """Return None on systems without memory files, or without access to them by a path."""
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("trainstack", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    if not path.is_file():
        os.close(descriptor)
        return None
    os.fchmod(descriptor, 0o600)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return SecretFile(path, Path(f"/proc/self/fd/{descriptor}"), descriptor)


def _create_in_folder(content: bytes) -> SecretFile:
    # The descriptor is the folder's lock: a program that inherits it keeps other commands from removing the file.
    folder, lock = _create_locked_folder()
    path = folder / "secret"
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
    return SecretFile(path, path, lock, folder)


def _is_private(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _remove_unlocked(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if try_lock(descriptor):
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)
