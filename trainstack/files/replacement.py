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
LEFTOVERS = f"{_PREFIX}*{_SUFFIX}"
"""The glob pattern of these names."""


@dataclass
class Replacement:
    """A new file next to the one that it will replace."""

    place: Path
    before: bytes | None
    """The content of the existing file; None if there is none."""
    temporary: Path
    applied: bool = False

    @classmethod
    def of(cls, place: Path, before: bytes | None, content: bytes) -> "Replacement":
        """Write the new file, with the owner and the mode of the existing one. Raises OSError."""
        return cls(place, before, _write_temporary(place, content, exists=before is not None))

    def apply(self) -> None:
        self.temporary.replace(self.place)
        self.applied = True
        _flush_folder(self.place.parent)

    def undo(self) -> None:
        """Restore the old file, or remove the temporary one if it was not applied. Raises OSError."""
        if not self.applied:
            self.temporary.unlink(missing_ok=True)
        elif self.before is None:
            self.place.unlink(missing_ok=True)
        else:
            _write_temporary(self.place, self.before, exists=True).replace(self.place)
        self.applied = False


def replace_file(place: Path, content: bytes) -> None:
    """Write a file atomically. A link at its path is replaced. Raises OSError."""
    temporary = _write_temporary(place, content, exists=False)
    try:
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the files that killed commands left in a folder. The caller must have locked the folder's project."""
    for file in folder.glob(LEFTOVERS):
        if stat.S_ISREG(file.lstat().st_mode):
            file.unlink(missing_ok=True)


def _write_temporary(place: Path, content: bytes, *, exists: bool) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if exists:
                _copy_owner_and_mode(place, temporary)
            else:
                os.fchmod(descriptor, 0o666 & ~_umask())
            os.fsync(descriptor)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The error of a full disk names no file.
            error.filename = str(place)
        raise
    return temporary


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
