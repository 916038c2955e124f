"""Changing files of the project all or none: looked at before, checked, and only then written."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path

from trainstack.cli.console import fail
from trainstack.preflight.preflight import check
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.files import read_text
from trainstack.settings.loading.load import Loaded, load_with_places


def faults(root: Path, files: Mapping[str, str], stack: str) -> list[str]:
    """What would be wrong with an environment if the project had these files, each by its name in the root."""
    with _staged(root, files) as there:
        try:
            loaded = load_with_places(there, stack)
        except SettingsError as error:
            return [str(each) for each in error.findings]
        found = check(loaded.settings, there, loaded.places)
    return [str(each) for each in found if each.stops]


def load(root: Path, files: Mapping[str, str], stack: str) -> Loaded:
    """An environment as it would load if the project had these files. Raises SettingsError."""
    with _staged(root, files) as there:
        return load_with_places(there, stack)


def diff(root: Path, files: Mapping[str, str]) -> str:
    """The change as a unified diff; empty when every file is as it would be."""
    parts: list[str] = []
    for name, text in files.items():
        path = root / name
        old = read_text(path) if path.is_file() else ""
        before = f"a/{name}" if path.is_file() else "/dev/null"
        parts += unified_diff(old.splitlines(keepends=True), text.splitlines(keepends=True), before, f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in parts)


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write all of the files, or none: each is made beside its place and then renamed. Ends the command if it fails."""
    before = {name: (root / name).read_bytes() if (root / name).is_file() else None for name in files}
    made: dict[str, Path] = {}
    renamed: list[str] = []
    try:
        for name, text in files.items():
            made[name] = _beside(root / name, text)
        for name, temporary in made.items():
            temporary.replace(root / name)
            renamed.append(name)
    except OSError as error:
        for name in renamed:
            old = before[name]
            if old is None:
                (root / name).unlink()
            else:
                (root / name).write_bytes(old)
        for temporary in made.values():
            temporary.unlink(missing_ok=True)
        fail(f"nothing is changed: {error.filename or root}: {error.strerror or error}; see that it can be written to")


def _beside(path: Path, text: str) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.is_file():
            shutil.copymode(path, temporary)
        else:
            temporary.chmod(0o644)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


@contextmanager
def _staged(root: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """A folder that has all that the project has, but these files as given."""
    with tempfile.TemporaryDirectory(prefix="trainstack-") as folder:
        there = Path(folder)
        for entry in root.iterdir():
            if entry.name not in files:
                (there / entry.name).symlink_to(entry)
        for name, text in files.items():
            (there / name).write_text(text, encoding="utf-8", newline="")
        yield there
