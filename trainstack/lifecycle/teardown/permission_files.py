"""Files that permit one run of the program to delete a stack, while the command that wrote the file runs."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainstack.files.locks import is_locked, try_lock_new

_FOLDER = Path(".trainstack/teardown-permissions")
"""The folder of the files, relative to the project."""
_NAME = re.compile("[0-9a-f]{32}")


@contextmanager
def write_permission_file(root: Path, text: str) -> Iterator[str]:
    """Write a permission, and yield its name, which is random: only a program that receives the name can use it."""
    remove_stale_permissions(root)
    file, descriptor = _create_locked_file(root / _FOLDER)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as stream:
            stream.write(text)
        yield file.name
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def consume_permission(root: Path, name: str) -> str | None:
    """Remove a permission and return its text; return None if it does not exist or its command has ended."""
    if not _NAME.fullmatch(name):
        return None
    file = root / _FOLDER / name
    try:
        with _open_file(file) as descriptor, os.fdopen(descriptor, encoding="utf-8", closefd=False) as stream:
            is_valid, text = is_locked(descriptor), stream.read()
            # Only one of two programs with the same permission can remove the file.
            file.unlink()
    except FileNotFoundError:
        return None
    return text if is_valid else None


def remove_stale_permissions(root: Path) -> None:
    """Remove the permissions of killed commands."""
    for file in (root / _FOLDER).glob("*"):
        with suppress(OSError):
            if _NAME.fullmatch(file.name) and not _is_file_locked(file):
                file.unlink()


def _is_file_locked(file: Path) -> bool:
    with _open_file(file) as descriptor:
        return is_locked(descriptor)


def _create_locked_file(folder: Path) -> tuple[Path, int]:
    """Create a locked file; return it with the descriptor that has the lock."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        file = folder / secrets.token_hex(16)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        if try_lock_new(file, descriptor):
            return file, descriptor
        os.close(descriptor)


@contextmanager
def _open_file(file: Path) -> Iterator[int]:
    # NFS locks only files that are open for writing.
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
