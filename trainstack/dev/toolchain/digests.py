"""The sha256 of every built file, recorded in its folder and verified before each use."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainstack.dev.toolchain.errors import ToolchainError

RECORD = "sha256"
"""Name of the record; `sha256sum --check sha256` accepts it."""
_DRAFT = ".sha256-"


def record(folder: Path) -> None:
    lines = [f"{digest}  {name}\n" for name, digest in _digests(folder).items()]
    # Published by rename: a concurrent verification reads all of it or nothing.
    draft = folder / f"{_DRAFT}{os.getpid()}"
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(folder / RECORD)


def verify(folder: Path) -> None:
    """Compare a folder's files with its record; write the record if the folder has none.

    Raises ToolchainError if a file has changed, is missing or was added.
    """
    try:
        text = (folder / RECORD).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        record(folder)
        return
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
    found = _digests(folder)
    differing = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
    if differing:
        faults = "; ".join(
            f"{folder / name} is missing"
            if name not in found
            else f"{folder / name} was added after the build"
            if name not in expected
            else f"{folder / name} has the sha256 {found[name]}, but {expected[name]} is recorded"
            for name in differing
        )
        raise ToolchainError(f"{faults}. Nothing was run: remove {folder} and rebuild it with `trainstack dev tools`")


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _of_record(path.relative_to(folder)))
    # Hashing releases the interpreter lock, so hundreds of MB use every core.
    with ThreadPoolExecutor() as pool:
        pairs = zip(files, pool.map(sha256, files), strict=True)
        return {str(file.relative_to(folder)): digest for file, digest in pairs}


def _of_record(name: Path) -> bool:
    return str(name) == RECORD or str(name).startswith(_DRAFT)
