"""Change several files of the project or none: preview, check and write them."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path

from trainstack.errors import TrainstackError
from trainstack.preflight.preflight import check
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.files import read_text
from trainstack.settings.loading.load import Loaded, load_with_places


def faults(root: Path, files: Mapping[str, str], stack: str) -> list[str]:
    """The errors of an environment if the project had these files, by their names in the root."""
    with _staged(root, files) as folder:
        try:
            loaded = load_with_places(folder, stack)
        except SettingsError as error:
            return [str(finding) for finding in error.findings]
        findings = check(loaded.settings, folder, loaded.places)
    return [str(finding) for finding in findings if finding.stops]


def load(root: Path, files: Mapping[str, str], stack: str) -> Loaded:
    """Load an environment as if the project had these files. Raises SettingsError."""
    with _staged(root, files) as folder:
        return load_with_places(folder, stack)


def diff(root: Path, files: Mapping[str, str]) -> str:
    """The change as a unified diff; empty if nothing changes."""
    parts: list[str] = []
    for name, text in files.items():
        path = root / name
        old = read_text(path) if path.is_file() else ""
        before = f"a/{name}" if path.is_file() else "/dev/null"
        parts += unified_diff(old.splitlines(keepends=True), text.splitlines(keepends=True), before, f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in parts)


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write all files, or none if one cannot be written. Raises TrainstackError."""
    before = {name: (root / name).read_bytes() if (root / name).is_file() else None for name in files}
    temporary_files: dict[str, Path] = {}
    renamed: list[str] = []
    try:
        for name, text in files.items():
            temporary_files[name] = _write_temporary(root / name, text)
        for name, temporary in temporary_files.items():
            temporary.replace(root / name)
            renamed.append(name)
    except OSError as error:
        for name in renamed:
            old = before[name]
            if old is None:
                (root / name).unlink()
            else:
                (root / name).write_bytes(old)
        for temporary in temporary_files.values():
            temporary.unlink(missing_ok=True)
        raise TrainstackError(
            f"nothing was changed: {error.filename or root}: {error.strerror or error}; make the path writable and run "
            "the command again"
        ) from None


def _write_temporary(path: Path, text: str) -> Path:
    """Write a file in the same folder, with the mode of the file that it will replace."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
    """Yield a folder with the content of the project and these files."""
    with tempfile.TemporaryDirectory(prefix="trainstack-") as folder:
        copy = Path(folder)
        for entry in root.iterdir():
            if entry.name not in files:
                (copy / entry.name).symlink_to(entry)
        for name, text in files.items():
            (copy / name).write_text(text, encoding="utf-8", newline="")
        yield copy
