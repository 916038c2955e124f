"""What a folder holds: names, sizes and digests, by which two folders are compared.

Names may be any that a file system takes, also such that are no UTF-8 or have line breaks.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainstack.cli.console import fail
from trainstack.cli.progress import bar

PARTIAL = ".trainstack-partial"
"""The folder of what has not arrived whole, below the one it belongs to. Reserved: nothing of this name is sent."""
PART = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}(\.[0-9a-f]{8}-[0-9]+)?")
"""The name of a part in that folder. Anything else in such a folder on a volume is an ordinary file."""
SMALL = "small"
"""The temporary name of a fetched file in that folder, while it is written."""


@dataclass(frozen=True, kw_only=True)
class Stat:
    """What is known of a file without reading it."""

    size: int
    stamp: str
    """Another one: somebody has written to the file, or put another in its place."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What a folder holds, by relative POSIX paths."""

    files: Mapping[str, Stat]
    folders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Links, pipes and the like."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The sizes, in bytes, of what is there of files that have not arrived whole."""
    kind: Literal["folder", "file", "nothing"] = "folder"
    """What was asked for. A file is the one file here, in the folder above it."""


def is_part(name: str) -> bool:
    """Whether a path on a volume is that of an unfinished upload's part."""
    *_, folder, file = ("", *name.split("/"))
    return folder == PARTIAL and PART.fullmatch(file) is not None


def local(source: Path) -> Tree:
    """What a folder of this machine holds, or that a file is one. Raises OSError where it cannot be read.

    Ends the command where it is neither: what comes out of a pipe can be read once, and has no size.
    """
    if not source.is_dir():
        found = stat(source)
        if not source.is_file():
            fail(f"{source} is neither a file nor a folder, but a pipe or the like; nothing is sent. Make a file of it")
        return Tree(files={source.name: found}, kind="file")
    files: dict[str, Stat] = {}
    folders: list[str] = []
    others: list[str] = []

    def stop(error: OSError) -> None:
        raise error

    for place, below, beside in os.walk(source, onerror=stop):
        for path in sorted(Path(place, name) for name in (*below, *beside)):
            name = path.relative_to(source).as_posix()
            if path.is_file():
                files[name] = stat(path)
            elif path.is_dir() and not path.is_symlink():
                folders.append(name)
            else:
                others.append(name)
    return Tree(files=files, folders=tuple(folders), others=tuple(others))


def stat(path: Path) -> Stat:
    """What is known of a file of this machine. Raises OSError."""
    found = path.stat()
    return Stat(size=found.st_size, stamp=f"{found.st_ino},{found.st_mtime_ns},{found.st_ctime_ns}")


def local_digests(paths: Mapping[str, Path]) -> dict[str, str]:
    """The sha256 of those of the files that are there, by their names."""
    sizes = {name: path.stat().st_size for name, path in paths.items() if path.is_file()}
    found = {}
    with bar(f"checking {len(sizes)} files here", sum(sizes.values())) as advance:
        for name, size in sizes.items():
            with paths[name].open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
            advance(size)
    return found


def inside(target: Path, name: str) -> Path:
    """The place of a file below a folder. Ends the command when it would lie outside, by a link that lies here."""
    path = target / name
    if not path.resolve().is_relative_to(target.resolve()):
        fail(f"the volume holds a file called {name!r}, which would land outside {target}; it was not written")
    return path


def partial(target: Path, wanted: Tree) -> Path:
    """The folder of this machine in which parts of fetched files lie: named so that no fetched file can be in it."""
    name = PARTIAL
    first = {each.partition("/")[0] for each in (*wanted.files, *wanted.folders) if each.startswith(PARTIAL)}
    while name in first:
        name += "-"
    return target / name


def discard(partial: Path) -> None:
    """Remove the parts of incomplete files there; anything else stays."""
    if not partial.is_dir() or partial.is_symlink():
        return
    for path in partial.iterdir():
        if path.name == SMALL or PART.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        partial.rmdir()
