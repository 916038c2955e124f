"""The paths of a project's files, and changes of the files, also in a branch of an untrusted author.

A symbolic link may point to another file of the project, but neither outside it nor into its hidden folders, such as
`.git` and `.venv`. Every command that changes files of a project uses `edit_project`.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path, PurePath

from trainstack.errors import TrainstackError, remedy_of
from trainstack.files.locks import describe_holder, try_lock
from trainstack.files.regular import FileError, read_bytes
from trainstack.files.replacement import Replacement, remove_leftovers

LOCK_SECONDS = 60
"""The wait for another command that is changing the project's files, which takes it a few seconds."""
_PAUSE_SECONDS = 0.05
_MAX_BYTES = 16 << 20
"""The maximum size of a file that a command changes, 16 MiB."""
_original_roots: dict[Path, Path] = {}
"""The root of the original project by the folder of its overlay (`overlay_project`)."""


class EditError(TrainstackError):
    """A change of a project's files that was not made."""


def project_file(root: Path, name: str | Path) -> Path:
    """Return the path of a project's file, with all links followed, whether or not it exists.

    Raises FileError if the file is outside the project, or if a link points into a hidden folder.
    """
    if "\0" in str(name):
        raise FileError(root, f"cannot have a file {str(name)!r}")
    real_path, real_root = Path(os.path.realpath(root / name)), Path(os.path.realpath(root))
    for allowed_root in (real_root, _original_roots.get(real_root, real_root)):
        if real_path.is_relative_to(allowed_root):
            is_link = real_path != Path(os.path.normpath(allowed_root / name))
            if is_link and any(part.startswith(".") for part in real_path.relative_to(allowed_root).parts):
                raise FileError(root / name, f"is a link to {real_path}, in a hidden folder")
            return real_path
    raise FileError(root / name, f"leads out of the project, to {real_path}")


def output_file(path: Path) -> Path:
    """Return the path of an output file that the user of a command has named.

    Raises FileError if a relative path without `..` leads out of the current folder, which may be an untrusted branch.
    The user has chosen an absolute path or one with `..`, so it is not checked.
    """
    return path if path.is_absolute() or ".." in path.parts else project_file(Path.cwd(), path)


def write_output(path: Path, content: bytes) -> None:
    """Write a file, pipe or device. Raises OSError, also for a pipe without a reader, instead of waiting for one."""
    output_path = output_file(path)
    try:
        descriptor = os.open(output_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            os.set_blocking(descriptor, True)
            file.write(content)
    except OSError as error:
        # The error of a full disk has no file name, and the others have the resolved path.
        error.filename = str(path)
        raise


@contextmanager
def overlay_project(root: Path, files: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Fill the empty `folder` with `files` and with links to the other files of the project at `root`, and yield it."""
    _link_entries(Path(os.path.realpath(root)), PurePath(), {PurePath(name) for name in files}, folder)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    real_folder = Path(os.path.realpath(folder))
    _original_roots[real_folder] = Path(os.path.realpath(root))
    try:
        yield folder
    finally:
        del _original_roots[real_folder]


def _link_entries(root: Path, subfolder: PurePath, files: AbstractSet[PurePath], folder: Path) -> None:
    """Create links to a subfolder's entries, but real folders for those that `files` are in."""
    folders = {file.parents[-len(subfolder.parts) - 2] for file in files if len(file.parts) > len(subfolder.parts) + 1}
    (folder / subfolder).mkdir(exist_ok=True)
    for entry in (root / subfolder).iterdir() if (root / subfolder).is_dir() else ():
        name = subfolder / entry.name
        if name not in files and name not in folders:
            (folder / name).symlink_to(root / name)
    for name in folders:
        _link_entries(root, name, {file for file in files if name in file.parents}, folder)


@contextmanager
def edit_project(root: Path) -> Iterator["ProjectEdit"]:
    """Lock the project at `root` for the block, in which the yielded object changes its files.

    Read the files that the change depends on inside the block. Raises EditError if another command keeps the lock.
    """
    with _open_folder(root) as descriptor:
        yield ProjectEdit(root, is_locked=_wait_for_lock(descriptor, root))


@contextmanager
def try_lock_project(root: Path) -> Iterator[str]:
    """Lock the project at `root` for the block, if its file system has locks, without waiting.

    Yields a description of the command that holds the lock instead; empty if there is none.
    """
    with _open_folder(root) as descriptor:
        try:
            is_free = try_lock(descriptor)
        except OSError:
            is_free = True
        yield "" if is_free else describe_holder(descriptor)


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, root: Path) -> bool:
    """Wait for the lock. Return False if the file system has no locks. Raises EditError after LOCK_SECONDS."""
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise EditError(
                    f"nothing was changed: {describe_holder(descriptor)} has been using {root} for more than "
                    f"{LOCK_SECONDS} s",
                    "wait until it has ended, or end it, and run the command again",
                )
            time.sleep(_PAUSE_SECONDS)
    except OSError:
        return False
    return True


class ProjectEdit:
    """A change of the files of one project. File names are relative to its root."""

    def __init__(self, root: Path, *, is_locked: bool) -> None:
        self._root = root
        self._is_locked = is_locked
        self._texts: dict[str, str | None] = {}

    def read(self, name: str) -> str | None:
        """Return a file's text, or None if it does not exist. Raises EditError.

        `write` fails if another program changes the file after this read.
        """
        self._texts[name] = self._read(name)
        return self._texts[name]

    def write(self, files: Mapping[str, str]) -> None:
        """Write all files, or none if one cannot be written or has changed since `read`. Raises EditError.

        An existing file keeps its mode. A link is kept, and the file that it points to is written.
        """
        replacements: list[Replacement] = []
        name = ""
        try:
            for folder in {self._resolve(name).parent for name in files}:
                folder.mkdir(parents=True, exist_ok=True)
                # Without a lock, the temporary files of another running command could be removed.
                if self._is_locked:
                    remove_leftovers(folder)
            for name, text in files.items():
                path = self._resolve(name)
                old_text = self._read(name)
                self._ensure_unchanged(name, old_text)
                replacements.append(
                    Replacement.prepare(path, None if old_text is None else old_text.encode(), text.encode())
                )
            # All new contents are on the disk by now: below, only a rename or a concurrent change can fail.
            for name, replacement in zip(files, replacements, strict=True):
                self._ensure_unchanged(name, self._read(name))
                replacement.apply()
            self._texts |= files
        except BaseException as error:
            if unrestored_files := _undo(replacements):
                raise EditError(
                    f"the change of {name or self._root} failed ({error}), and these files have their new content: "
                    f"{', '.join(unrestored_files)}",
                    "restore them with git, and run the command again",
                ) from None
            if isinstance(error, OSError):
                failed_file = str(name or error.filename or self._root)
                raise _edit_error(failed_file, str(error.strerror or error), remedy_of(error)) from None
            raise

    def _resolve(self, name: str) -> Path:
        try:
            return project_file(self._root, name)
        except FileError as error:
            raise _edit_error(
                name, str(error.strerror), "replace it by a regular file and run the command again"
            ) from None

    def _read(self, name: str) -> str | None:
        try:
            return read_bytes(self._resolve(name), _MAX_BYTES).decode()
        except FileNotFoundError:
            return None
        except FileError as error:
            raise _edit_error(
                name, str(error.strerror), "replace it by a regular file and run the command again"
            ) from None
        except UnicodeDecodeError as error:
            raise _edit_error(name, f"is not UTF-8 text: {error}", "correct it and run the command again") from None

    def _ensure_unchanged(self, name: str, text: str | None) -> None:
        if name in self._texts and text != self._texts[name]:
            raise _edit_error(name, "was changed by another program in the meantime", "run the command again")


def _undo(replacements: Sequence[Replacement]) -> list[str]:
    """Undo all replacements, and return the files of those that could not be undone."""
    unrestored_files = []
    for replacement in reversed(replacements):
        try:
            replacement.undo()
        except OSError:
            unrestored_files.append(str(replacement.path))
    return unrestored_files


def _edit_error(name: str, problem: str, remedy: str) -> EditError:
    default_remedy = "make the path writable and run the command again"
    return EditError(f"nothing was changed: {name}: {problem}", remedy or default_remedy)
