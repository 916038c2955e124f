"""The sha256 of every built file, recorded in its folder and verified before each use.

Hashing all tools takes about a second of CPU time. A folder that was verified recently is therefore not hashed again
if no file in it has been written since: the kernel updates a file's change time with each write, and no program can
set it.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from trainstack.toolchain.errors import ToolchainError

RECORD_NAME = "sha256"
"""Name of the record; `sha256sum --check sha256` accepts it."""
_DRAFT_PREFIX = ".sha256-"
_VERIFIED_NAME = f"{_DRAFT_PREFIX}verified"
"""Name of the file with the record's own sha256 and the stamps of the files that matched the record."""
_VERIFIED_SECONDS = 24 * 3600
"""How long a folder counts as verified. It is limited because a disk fault does not change a file's stamps."""
_RECENT_SECONDS = 2.0
"""A file that changed this recently may change again at the same change time, whose resolution is limited."""


def record_digests(folder: Path) -> None:
    _publish(folder, RECORD_NAME, "".join(f"{digest}  {name}\n" for name, digest in _digests(folder).items()))


def verify(folder: Path) -> None:
    """Compare a folder's files with its record; write the record if the folder has none.

    Raises ToolchainError if a file has changed, is missing or was added.
    """
    try:
        text = (folder / RECORD_NAME).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        record_digests(folder)
        return
    # Stamps are taken before and after hashing: a write in between must not count as verified.
    started, stamps = time.time(), _stamps(folder)
    verification = {"record": hashlib.sha256(text.encode()).hexdigest(), "stamps": stamps}
    if _is_verified(folder / _VERIFIED_NAME, verification, started):
        return
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
    actual = _digests(folder)
    differing = [name for name in sorted({*expected, *actual}) if expected.get(name) != actual.get(name)]
    if differing:
        faults = "; ".join(
            f"{folder / name} is missing"
            if name not in actual
            else f"{folder / name} was added after the build"
            if name not in expected
            else f"{folder / name} has the sha256 {actual[name]}, but {expected[name]} is recorded"
            for name in differing
        )
        raise ToolchainError(f"{faults}. Nothing was run: remove {folder} and rebuild it with `trainstack dev tools`")
    if stamps == _stamps(folder) and all(started - changed / 1e9 > _RECENT_SECONDS for *_, changed in stamps.values()):
        with suppress(OSError):  # a cache that cannot be written is hashed each time
            _publish(folder, _VERIFIED_NAME, json.dumps(verification))


def recorded_digest(file: Path) -> str:
    """Return the recorded sha256 of a built program; empty if the file is not one."""
    folder = file.parents[1]
    try:
        lines = (folder / RECORD_NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    entries = (line.partition("  ") for line in lines)
    return next((digest for digest, _, name in entries if name == str(file.relative_to(folder))), "")


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _publish(folder: Path, name: str, text: str) -> None:
    # By rename, so that a concurrent verification reads a complete file.
    draft = folder / f"{_DRAFT_PREFIX}{os.getpid()}"
    draft.write_text(text, encoding="utf-8")
    draft.replace(folder / name)


def _is_verified(file: Path, verification: Mapping[str, object], now: float) -> bool:
    try:
        is_recent = 0 <= now - file.stat().st_mtime < _VERIFIED_SECONDS
        return is_recent and bool(json.loads(file.read_text(encoding="utf-8")) == verification)
    except (OSError, ValueError):
        return False


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Return device, inode, size, modification and change time of each file; the times in nanoseconds."""
    stamps = {}
    for file in _files(folder):
        stat = file.stat()
        stamp = [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        stamps[str(file.relative_to(folder))] = stamp
    return stamps


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _is_record(path.relative_to(folder)))


def _digests(folder: Path) -> dict[str, str]:
    files = _files(folder)
    # Hashing releases the interpreter lock, so hundreds of MB use every core.
    with ThreadPoolExecutor() as pool:
        pairs = zip(files, pool.map(sha256, files), strict=True)
        return {str(file.relative_to(folder)): digest for file, digest in pairs}


def _is_record(name: Path) -> bool:
    return str(name) == RECORD_NAME or str(name).startswith(_DRAFT_PREFIX)
