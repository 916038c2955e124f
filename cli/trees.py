"""What a folder holds, on a volume or here: names, sizes and digests, by which two folders are compared.

Names may be any that a file system takes, also such that are no UTF-8; those with a line break cannot be listed.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cli.console import fail
from cli.loader import Loader
from cli.progress import bar
from cli.remote import BrokenConnectionError, running

PARTIAL = ".trainstack-partial"
"""The folder of what has not arrived whole, below the one it belongs to. Neither listed nor sent."""

_FILE, _FILES, _FOLDERS, _OTHERS, _PARTS, _END = " file", " files", " folders", " others", " parts", " end"
_LACKS = " end, but it lacks something"
"""Lines between the parts of a list. Every other line begins with a size or with `./`."""
# Names with a line break come first: where there is one, the rest cannot be read. A list without its last line is not
# whole, whatever kubectl's exit code says. lost+found, at the root of some volumes, is root's alone. What a program
# could not list, since it is gone meanwhile or may not be read, is on the second output.
_LIST = f"""export LC_ALL=C
end='{_END}'
seek() {{ find . \\( -path ./lost+found -o -name {PARTIAL} \\) -prune -o "$@" || end='{_LACKS}'; }}
if [ -d "$1" ]; then
  cd "$1" || exit
  seek -name '*
*' -print
  echo '{_FILES}'
  seek -type f -exec stat -c '%s %i,%Y,%Z %n' {{}} +
  echo '{_FOLDERS}'
  seek -type d -print
  echo '{_OTHERS}'
  seek ! -type f ! -type d -print
  echo '{_PARTS}'
  find . -path ./lost+found -prune -o -path '*/{PARTIAL}/*' -type f -exec stat -c '%s %n' {{}} + || end='{_LACKS}'
elif [ -f "$1" ]; then
  cd "${{1%/*}}" || exit
  echo '{_FILE}'
  stat -c '%s %i,%Y,%Z %n' "./${{1##*/}}" || end='{_LACKS}'
fi
echo "$end"
"""
_GONE = ("No such file or directory", "Stale file handle")
"""What is said of a file that another program has removed, or given another name, since its name was read."""
# Ten thousand names are too many for a command line. A file that is gone meanwhile, or cannot be read, has no digest.
_HASH = f"""cd "$1" || exit
set --
while IFS= read -r name; do
  if [ -f "$name" ]; then set -- "$@" "$name"; fi
  if [ $# -ge 50 ]; then sha256sum "$@" </dev/null; set --; fi
done
if [ $# -gt 0 ]; then sha256sum "$@" </dev/null; fi
echo '{_END}'
"""


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


def remote(loader: Loader, folder: str) -> Tree:
    """What a folder of the volume holds; nothing where it does not exist.

    What goes meanwhile may be in it or not. Ends the command when something cannot be listed. Raises
    BrokenConnectionError.
    """
    with running(loader, f"list of the volume's files in {folder}", _LIST, folder, given=b"") as script:
        text = os.fsdecode(script.output.read())
        # kubectl has told all that it had to tell when it ends.
        script.process.wait()
        script.errors.seek(0)
        said = script.errors.read().decode(errors="replace").splitlines()
    if text.endswith(f"{_LACKS}\n"):
        lacks = [line for line in said if line.startswith(("find: ", "stat: ")) and not line.endswith(_GONE)]
        if lacks:
            fail(
                f"not all of {folder} on the volume can be listed: {lacks[0]}. Mend that and run the same command again"
            )
    elif not text.endswith(f"{_END}\n"):
        raise BrokenConnectionError(f"the list of the volume's files in {folder} has no end")
    text = text.removesuffix(f"{_END}\n").removesuffix(f"{_LACKS}\n")
    if text.startswith(f"{_FILE}\n"):
        return Tree(files=dict(map(_entry, _lines(text)[1:])), kind="file")
    if not text:
        return Tree(files={}, kind="nothing")
    odd, _, rest = text.rpartition(f"{_FILES}\n")
    if odd:
        fail(f"names in {folder} on the volume have line breaks, so they cannot be listed: {odd!r}; rename them there")
    files, _, rest = rest.partition(f"{_FOLDERS}\n")
    folders, _, rest = rest.partition(f"{_OTHERS}\n")
    others, _, parts = rest.partition(f"{_PARTS}\n")
    return Tree(
        files=dict(map(_entry, _lines(files))),
        folders=tuple(name.removeprefix("./") for name in _lines(folders) if name != "."),
        others=tuple(name.removeprefix("./") for name in _lines(others)),
        parts={name.removeprefix("./"): int(size) for size, _, name in (line.partition(" ") for line in _lines(parts))},
    )


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
        below[:] = [name for name in below if name != PARTIAL]
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


def remote_digests(loader: Loader, folder: str, files: Mapping[str, Stat]) -> dict[str, str]:
    """The sha256 of those of the files that are there, by their paths. Raises BrokenConnectionError."""
    if not files:
        return {}
    asked = b"".join(b"./" + os.fsencode(name) + b"\n" for name in files)
    found: dict[str, str] = {}
    line = ""
    with (
        bar(f"checking {len(files)} files on the volume", sum(each.size for each in files.values())) as advance,
        running(loader, "check of the volume's files", _HASH, folder, given=asked) as script,
    ):
        for raw in script.output:
            line = os.fsdecode(raw).removesuffix("\n")
            if line == _END:
                continue
            name, digest = _digest(line)
            found[name] = digest
            advance(files[name].size)
    if line != _END:
        raise BrokenConnectionError("the check of the volume's files has no end")
    return found


def unreadable(loader: Loader, folder: str, files: Mapping[str, Stat]) -> list[str]:
    """Which of the files, that had no digest but are still there, have none again. Raises BrokenConnectionError."""
    again = remote_digests(loader, folder, files)
    return [name for name in files if name not in again]


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


def _lines(text: str) -> list[str]:
    # Not splitlines, for which more than the line feed ends a line.
    return text.split("\n")[:-1]


def _entry(line: str) -> tuple[str, Stat]:
    size, stamp, name = line.split(" ", 2)
    return name.removeprefix("./"), Stat(size=int(size), stamp=stamp)


def _digest(line: str) -> tuple[str, str]:
    """Name and digest of a line of sha256sum's; GNU's has a backslash before it where it doubles those of the name."""
    digest, _, name = line.partition("  ")
    if digest.startswith("\\"):
        digest, name = digest[1:], re.sub(r"\\(.)", lambda each: {"r": "\r"}.get(each[1], each[1]), name)
    return name.removeprefix("./"), digest
