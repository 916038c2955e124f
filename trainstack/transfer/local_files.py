"""The files of a folder on this machine: sizes, digests, and where fetched files are written.

A file name may be any that a file system accepts, including invalid UTF-8 and line breaks.
"""

import errno
import hashlib
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

from trainstack.transfer.errors import TransferError
from trainstack.transfer.progress import TransferProgress

PARTIAL = ".trainstack-partial"
"""The folder of incomplete files in the folder of a transfer. Reserved: files of this name are not sent."""
PART_PATTERN = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}(\.[0-9a-f]{8}-[0-9]+)?")
"""The name of an incomplete file in that folder. Any other file there is an ordinary file."""
SMALL_FILE_NAME = "small"
"""The temporary name of a small file in that folder while it is fetched."""


_MISSING_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a link that leads to no file."""


@dataclass(frozen=True, kw_only=True)
class Stat:
    """A file's size, and a stamp that changes whenever the file is written or replaced."""

    size: int
    stamp: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The content of a folder, by relative POSIX paths."""

    files: Mapping[str, Stat]
    folders: tuple[str, ...] = ()
    special_files: tuple[str, ...] = ()
    """Links, pipes and other special files."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The sizes, in bytes, of incomplete files."""
    kind: Literal["folder", "file", "nothing"] = "folder"
    """The type of the path; for a file, `files` has one entry, by the file's name in its folder."""


def is_part(name: str) -> bool:
    """Return whether a path on a volume is an incomplete file of an upload."""
    *_, folder, file = ("", *name.split("/"))
    return folder == PARTIAL and PART_PATTERN.fullmatch(file) is not None


def local_tree(source: Path) -> Tree:
    """List a folder on this machine, or the one file. Raises OSError, and TransferError for a pipe or device."""
    if not source.is_dir():
        source_stat = read_stat(source)
        if not source.is_file():
            raise TransferError(
                f"{source} is neither a file nor a folder (a pipe or device); nothing was sent. Write its content to a "
                "file and upload that"
            )
        return Tree(files={source.name: source_stat}, kind="file")
    files: dict[str, Stat] = {}
    folders: list[str] = []
    special_files: list[str] = []

    def raise_error(error: OSError) -> None:
        raise error

    # `walk` does not follow links to folders, which may form a cycle; they count as special files.
    for parent, folder_names, file_names in os.walk(source, onerror=raise_error):
        folder = Path(parent).relative_to(source).as_posix()
        prefix = "" if folder == "." else f"{folder}/"
        for entry in sorted((*folder_names, *file_names)):
            name, path = prefix + entry, Path(parent, entry)
            try:
                entry_stat = path.stat()
            except OSError as error:
                if error.errno not in _MISSING_ERRORS:
                    raise
                special_files.append(name)
                continue
            if S_ISREG(entry_stat.st_mode):
                files[name] = _convert_stat(entry_stat)
            elif S_ISDIR(entry_stat.st_mode) and not path.is_symlink():
                folders.append(name)
            else:
                special_files.append(name)
    return Tree(files=files, folders=tuple(folders), special_files=tuple(special_files))


def read_stat(path: Path) -> Stat:
    return _convert_stat(path.stat())


def _convert_stat(status: os.stat_result) -> Stat:
    return Stat(size=status.st_size, stamp=f"{status.st_ino},{status.st_mtime_ns},{status.st_ctime_ns}")


def changed_error(path: Path) -> TransferError:
    return TransferError(
        f"{str(path)!r} changed during the upload; run the same command again when nothing writes to the file"
    )


def local_digests(paths: Mapping[str, Path], progress: TransferProgress) -> dict[str, str]:
    """Hash the existing files; return their sha256 by name."""
    sizes = {name: path.stat().st_size for name, path in paths.items() if path.is_file()}
    digests = {}
    with progress.bar(f"checking {len(sizes)} local files", sum(sizes.values())) as advance:
        for name, size in sizes.items():
            with paths[name].open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
            advance(size)
    return digests


def path_inside(target: Path, name: str) -> Path:
    """Return the path of a file in a folder. Raises TransferError if a local link or `..` leads outside."""
    path = target / name
    if not path.resolve().is_relative_to(target.resolve()):
        raise TransferError(f"the path of {name!r} from the volume is outside {target}; the file was not written")
    return path


@dataclass(frozen=True)
class LocalTarget:
    """A folder of this machine into which the files of a volume are written."""

    folder: Path
    _existing_folders: set[str] = field(default_factory=set)
    """Folders in it that exist, by relative path."""
    _names: dict[tuple[int, int], str] = field(default_factory=dict)
    """The name on the volume of each file that is complete, by device and inode."""

    def size(self, name: str) -> int | None:
        """Return the size of a regular file; None for a missing one and for a link, which a fetched file replaces."""
        with suppress(FileNotFoundError, NotADirectoryError):
            status = (self.folder / name).lstat()
            return status.st_size if S_ISREG(status.st_mode) else None
        return None

    def mark_complete(self, name: str) -> None:
        """Record that a file is complete, so that no file of another name replaces it."""
        self._names.setdefault(_file_id(self.folder / name), name)

    def rename(self, partial: Path, name: str) -> None:
        """Move a complete file to its final name. Raises TransferError if it would replace a file of another name."""
        path = self.prepare_path(name)
        with suppress(FileNotFoundError):
            replaced_id = _file_id(path)
            existing_name = self._names.get(replaced_id, name)
            if existing_name != name:
                self._raise_for_same_path(replaced_id, [existing_name, name])
            else:
                self._names.pop(replaced_id, None)
        self._names[_file_id(partial)] = name
        partial.replace(path)

    def prepare_path(self, name: str) -> Path:
        """Return the path of a file, and make its folder. Raises TransferError as `path_inside` does."""
        parent, path = posixpath.dirname(name), self.folder / name
        if parent not in self._existing_folders:
            path_inside(self.folder, parent).mkdir(parents=True, exist_ok=True)
            self._existing_folders.add(parent)
        if path.is_symlink():
            path_inside(self.folder, name)
        return path

    def total(self, names: Iterable[str]) -> tuple[int, int]:
        """Return the number and bytes of existing files. Raises TransferError if two names lead to the same file."""
        sizes: dict[str, int] = {}
        names_by_file_id: dict[tuple[int, int], list[str]] = {}
        for name in names:
            size = self.size(name)
            if size is not None:
                sizes[name] = size
                names_by_file_id.setdefault(_file_id(self.folder / name), []).append(name)
        for file_id, shared_names in names_by_file_id.items():
            if len(shared_names) > 1:
                self._raise_for_same_path(file_id, shared_names)
        return len(sizes), sum(sizes.values())

    def _raise_for_same_path(self, file_id: tuple[int, int], names: Sequence[str]) -> None:
        """Raise TransferError if a file with several names does not have as many hard links."""
        # By inode: the path of a folder may have several spellings too.
        parents = [(self.folder / name).parent.resolve() for name in names]
        folders = {_file_id(parent): parent for parent in parents}.values()
        links = sum(_file_id(path) == file_id for folder in folders for path in folder.iterdir())
        if links < len(names):
            raise TransferError(
                f"{str(self.folder / names[-1])!r} is the path of two files of the volume, {names[0]!r} and "
                f"{names[-1]!r}, because of a local link or because the file system ignores a difference of their "
                "names; fetch them into another folder"
            )


def _file_id(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def partial_folder(target: Path, tree: Tree) -> Path:
    """Return the local folder of incomplete fetched files; its name differs from those of all fetched files."""
    name = PARTIAL
    top_names = {path.partition("/")[0] for path in (*tree.files, *tree.folders)}
    while name in top_names:
        name += "-"
    return target / name


def discard_parts(partial: Path) -> None:
    """Delete the incomplete files in a folder, and the folder if it is empty then."""
    if not partial.is_dir() or partial.is_symlink():
        return
    for path in partial.iterdir():
        if path.name == SMALL_FILE_NAME or PART_PATTERN.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        partial.rmdir()
