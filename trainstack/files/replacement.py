"""Atomic replacements of files: a reader gets the old or the new content, also after a crash."""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX, _SUFFIX = ".trainstack-", ".tmp"
"""The prefix and the suffix of the names of files that are being written."""
LEFTOVER_PATTERN = f"{_PREFIX}*{_SUFFIX}"
"""The glob pattern of these names."""


@dataclass
class Replacement:
    """A new file next to the one that it will replace."""

    path: Path
    old_content: bytes | None
    """The content of the existing file; None if there is none."""
    temporary_path: Path
    is_applied: bool = False

    @classmethod
    def prepare(cls, path: Path, old_content: bytes | None, content: bytes) -> "Replacement":
        """Write the new file, with the owner and the mode of the existing one. Raises OSError."""
        return cls(path, old_content, _write_temporary(path, content, exists=old_content is not None))

    def apply(self) -> None:
        self.temporary_path.replace(self.path)
        self.is_applied = True
        _flush_folder(self.path.parent)

    def undo(self) -> None:
        """Restore the old file, or remove the temporary one if it was not applied. Raises OSError."""
        if not self.is_applied:
            self.temporary_path.unlink(missing_ok=True)
        elif self.old_content is None:
            self.path.unlink(missing_ok=True)
        else:
            _write_temporary(self.path, self.old_content, exists=True).replace(self.path)
        self.is_applied = False


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically. A link at its path is replaced. Raises OSError."""
    temporary_path = _write_temporary(path, content, exists=False)
    try:
        temporary_path.replace(path)
    finally:
        temporary_path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the files that killed commands left in a folder. The caller must have locked the folder's project."""
    for file in folder.glob(LEFTOVER_PATTERN):
        if stat.S_ISREG(file.lstat().st_mode):
            file.unlink(missing_ok=True)


def _write_temporary(path: Path, content: bytes, *, exists: bool) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=path.parent)
    temporary_path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if exists:
                _copy_owner_and_mode(path, temporary_path)
            else:
                os.fchmod(descriptor, 0o666 & ~_umask())
            os.fsync(descriptor)
    except BaseException as error:
        temporary_path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The error of a full disk names no file.
            error.filename = str(path)
        raise
    return temporary_path


def _copy_owner_and_mode(source: Path, target: Path) -> None:
    status = source.stat()
    with suppress(PermissionError):
        os.chown(target, status.st_uid, status.st_gid)
    shutil.copymode(source, target)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Flush the rename itself to the disk, if the file system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
