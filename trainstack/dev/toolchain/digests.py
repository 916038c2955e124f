"""What was built is what is used: the sha256 of every file of a folder, kept in it and looked at before each use."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainstack.dev.toolchain.errors import ToolchainError

RECORD = "sha256"
"""The record's name in its folder; `sha256sum --check sha256` reads it too."""
_DRAFT = ".sha256-"


def record(folder: Path) -> None:
    """Write down what the files of a folder hold now."""
    lines = [f"{digest}  {name}\n" for name, digest in _digests(folder).items()]
    # Published by rename: whoever verifies at the same moment finds all of it or nothing.
    draft = folder / f"{_DRAFT}{os.getpid()}"
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(folder / RECORD)


def verify(folder: Path) -> None:
    """Hold the files of a folder against its record. One that was made before there were records gets one.

    Raises:
        ToolchainError: a file is not what it was, is gone or was added; with both digests of each.
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
            f"{folder / name} has the sha256 {found.get(name, '(no such file)')}, and had "
            f"{expected.get(name, '(no such file)')} when it was made"
            for name in differing
        )
        raise ToolchainError(f"{faults}. Nothing of it was run: remove {folder} and make it again with `make tools`")


def sha256(file: Path) -> str:
    """A file's digest in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _of_record(path.relative_to(folder)))
    # Hashing lets go of the interpreter: hundreds of MB take every core.
    with ThreadPoolExecutor() as pool:
        pairs = zip(files, pool.map(sha256, files), strict=True)
        return {str(file.relative_to(folder)): digest for file, digest in pairs}


def _of_record(name: Path) -> bool:
    return str(name) == RECORD or str(name).startswith(_DRAFT)
