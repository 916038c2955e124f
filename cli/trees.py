"""What a folder holds, on a volume or here: the names and digests by which two folders are compared.

Names may be any that a file system takes, also such that are no UTF-8; those with a line break cannot be listed.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.console import fail
from cli.loader import Loader, in_pod

PARTIAL = ".trainstack-partial"
"""What is being fetched, until it is whole and gets its name. Left by an interrupted fetch, overwritten by the next."""

_FILES, _FOLDERS, _OTHERS, _END = " files", " folders", " others", " end"
"""Lines between the parts of a list. Every other line begins with a digest or with `./`."""
# Names with a line break come first: where there is one, the rest cannot be read. A list without its last line is not
# whole, whatever kubectl's exit code says. lost+found, at the root of some volumes, is root's alone.
_LIST = f"""set -e
seek() {{ find . -path ./lost+found -prune -o "$@"; }}
if [ -d "$1" ]; then
  cd "$1"
  seek -name '*
*' -print
  echo '{_FILES}'
  seek -type f -exec sha256sum {{}} +
  echo '{_FOLDERS}'
  seek -type d -print
  echo '{_OTHERS}'
  seek ! -type f ! -type d -print
fi
echo '{_END}'
"""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What a folder holds, by relative POSIX paths."""

    files: Mapping[str, str]
    """The sha256 of each."""
    folders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Links, pipes and the like."""


def remote(loader: Loader, folder: str) -> Tree:
    """What a folder of the volume holds; nothing where it does not exist."""
    done = subprocess.run(
        in_pod(loader, _LIST, folder), stdin=subprocess.DEVNULL, capture_output=True, check=False, env=os.environ
    )
    text, said = os.fsdecode(done.stdout), done.stderr.decode(errors="replace").strip()
    if done.returncode or not text.endswith(f"{_END}\n"):
        reason = said or f"kubectl ended with {done.returncode}, and the list has no end"
        fail(f"the volume's files in {folder} cannot be listed: {reason}. Run the same command again")
    if text == f"{_END}\n":
        return Tree(files={})
    odd, files, folders, others = _parts(text)
    if odd:
        names = "\n".join(odd)
        fail(
            f"names in {folder} on the volume have line breaks, so they cannot be listed: {names!r}; rename them there"
        )
    return Tree(
        files=dict(map(_entry, files)),
        folders=tuple(name.removeprefix("./") for name in folders if name != "."),
        others=tuple(name.removeprefix("./") for name in others),
    )


def local(folder: Path) -> Tree:
    """What a folder of this machine holds. Raises OSError where it cannot be read."""
    files: dict[str, str] = {}
    folders: list[str] = []
    others: list[str] = []

    def stop(error: OSError) -> None:
        raise error

    for place, below, beside in os.walk(folder, onerror=stop):
        for path in sorted(Path(place, name) for name in (*below, *beside) if name != PARTIAL):
            name = path.relative_to(folder).as_posix()
            if path.is_file():
                files[name] = _sha256(path)
            elif path.is_dir() and not path.is_symlink():
                folders.append(name)
            else:
                others.append(name)
    return Tree(files=files, folders=tuple(folders), others=tuple(others))


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The sha256 of those of the files that are there."""
    return {name: _sha256(folder / name) for name in names if (folder / name).is_file()}


def _parts(text: str) -> tuple[list[str], list[str], list[str], list[str]]:
    odd, _, rest = text.removesuffix(f"{_END}\n").rpartition(f"{_FILES}\n")
    files, _, rest = rest.partition(f"{_FOLDERS}\n")
    folders, _, others = rest.partition(f"{_OTHERS}\n")
    # Not splitlines, for which more than the line feed ends a line.
    odd_, files_, folders_, others_ = (part.split("\n")[:-1] for part in (odd, files, folders, others))
    return odd_, files_, folders_, others_


def _entry(line: str) -> tuple[str, str]:
    """Name and digest of a line of sha256sum's; GNU's has a backslash before it where it doubles those of the name."""
    digest, _, name = line.partition("  ")
    if digest.startswith("\\"):
        digest, name = digest[1:], re.sub(r"\\(.)", lambda each: {"r": "\r"}.get(each[1], each[1]), name)
    return name.removeprefix("./"), digest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
