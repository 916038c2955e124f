"""Small files, many in one stream: as tar archives."""

import hashlib
import shutil
import sys
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from trainstack.cli.console import fail
from trainstack.cli.progress import Advance
from trainstack.transfer.frames import END, FUNCTIONS, Frames, asked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import SMALL, Stat, inside, stat
from trainstack.transfer.pod_script import BrokenConnectionError, running

_SLICE = 1 << 20
_TAKE = f'{FUNCTIONS}\nmkdir -p "$1" && cd "$1" && tar -xf - && {END}'
# busybox's tar reads no list of names, and ten thousand names are too many for a command line. So tar is run for every
# few, and several archives follow each other. GNU's tar reads escapes in names unless told not to. A file that is gone
# meanwhile is left out.
_GIVE = f"""{FUNCTIONS}
set -e
cd "$1"
set --
if tar --no-unquote --version >/dev/null 2>&1; then exact=--no-unquote; else exact=; fi
give() {{ tar $exact -cf - -- "$@" </dev/null; }}
while read_name; do
  if [ -f "$name" ]; then set -- "$@" "$name"; fi
  if [ $# -ge 50 ]; then give "$@"; set --; fi
done
if [ $# -gt 0 ]; then give "$@"; fi
"""


def send(
    loader: Loader,
    folder: str,
    files: Mapping[str, Stat],
    paths: Mapping[str, Path],
    folders: Iterable[str],
    advance: Advance,
) -> dict[str, str]:
    """Send files, and folders that are empty perhaps; return the sha256 of each file as it was sent.

    Ends the command when a file was changed meanwhile. Raises BrokenConnectionError.
    """
    sent = {}
    with running(loader, "upload", _TAKE, folder) as script:
        told = script.input
        for name in folders:
            told.write(_header(name, tarfile.DIRTYPE, 0o755, 0, time.time()))
        for name, state in files.items():
            path = paths[name]
            told.write(_header(name, tarfile.REGTYPE, 0o644, state.size, path.stat().st_mtime))
            digest, left = hashlib.sha256(), state.size
            with path.open("rb") as file:
                while left and (data := file.read(min(left, _SLICE))):
                    digest.update(data)
                    told.write(data)
                    left -= len(data)
            if left or stat(path) != state:
                fail(
                    f"{str(path)!r} was changed while it was sent; run the same command again when nobody writes to it"
                )
            told.write(bytes(-state.size % tarfile.BLOCKSIZE))
            advance(state.size)
            sent[name] = digest.hexdigest()
        told.write(bytes(2 * tarfile.BLOCKSIZE))
        told.close()
        if found := Frames(script.output, "answer to the upload").next():
            raise BrokenConnectionError(f"the loader's tar printed {found}")
    return sent


def receive(loader: Loader, folder: str, target: Path, partial: Path, names: Collection[str], advance: Advance) -> None:
    """Fetch files of the volume, through a folder for what has not arrived whole.

    Raises BrokenConnectionError, OSError.
    """
    # With ./ no name looks like an option.
    given = asked(f"./{name}" for name in names)
    known = frozenset(names)
    partial.mkdir(parents=True, exist_ok=True)
    with (
        running(loader, "fetch", _GIVE, folder, given=given) as script,
        # Between two archives there are zeros.
        tarfile.open(fileobj=script.output, mode="r|", ignore_zeros=True) as archive,
    ):
        for member in archive:
            _keep(archive, member, target, partial / SMALL, known)
            advance(member.size)


def _header(name: str, kind: bytes, mode: int, size: int, mtime: float) -> bytes:
    """An archive's words before a file. Who owns it here means nothing there."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, int(mtime)
    return info.tobuf(tarfile.GNU_FORMAT, sys.getfilesystemencoding(), "surrogateescape")


def _keep(
    archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, partial: Path, names: Collection[str]
) -> None:
    """Write one file beside its place, then into it: what lies there under its name is whole."""
    name = PurePosixPath(member.name).as_posix()
    path = inside(target, name)
    if name not in names:
        fail(f"the volume sent {name!r}, which was not asked for; it was not written")
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():
        # A second name of a file that came before, for which the archive does not repeat the content.
        shutil.copyfile(inside(target, PurePosixPath(member.linkname).as_posix()), partial)
    elif content := archive.extractfile(member):
        with partial.open("wb") as out:
            shutil.copyfileobj(content, out, _SLICE)
    else:
        return
    partial.replace(path)
