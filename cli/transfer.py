"""Files to a volume and back, through a data loader: only what differs, checked by sha256 on both sides.

A broken connection loses nothing: what has arrived whole is not sent again. Names may be any that a file system takes,
also such that are no UTF-8; only those with a line break are refused, before anything is sent.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

from cli.console import err, fail
from cli.loader import Loader, running
from cli.trees import PARTIAL, digests, local, remote

DONE = "_SUCCESS"
"""The file that says of the folder around it that it is complete: fetched when all else is there and checked."""

_CHUNK = 1 << 20
_TAKE = 'mkdir -p "$1" && cd "$1" && tar -xf -'
# busybox's tar reads no list of names, and ten thousand names are too many for a command line. So tar is run for every
# few, and several archives follow each other. GNU's tar reads escapes in names unless told not to.
_GIVE = """set -e
cd "$1"
set --
if tar --no-unquote --version >/dev/null 2>&1; then exact=--no-unquote; else exact=; fi
give() { tar $exact -cf - -- "$@" </dev/null; }
while IFS= read -r name; do
  set -- "$@" "$name"
  if [ $# -ge 50 ]; then give "$@"; set --; fi
done
if [ $# -gt 0 ]; then give "$@"; fi
"""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What a fetch brought."""

    sent: int
    """Files that had to be sent."""
    changed: tuple[str, ...] = ()
    """Those of them that an active run wrote to meanwhile: what is here is some state of them, unchecked."""


def remote_digests(loader: Loader, folder: str) -> dict[str, str]:
    """The sha256 of every file below a folder of the volume, by its relative path; empty where it does not exist.

    Raises through `fail` when the list did not arrive whole.
    """
    return dict(remote(loader, folder).files)


def upload(loader: Loader, source: Path, folder: str, last: str | None = None) -> int:
    """Bring a folder to the volume; return how many files had to be sent.

    Links to files are sent as files. Raises through `fail`, before anything is sent, when there is something that
    cannot be sent.

    Args:
        loader: through which.
        source: the folder on this machine.
        folder: where it goes on the volume.
        last: a file that is sent when all others are there and checked, since somebody waits for it.

    """
    try:
        return _upload(loader, source, folder, last)
    except OSError as error:
        fail(f"{source} cannot be read: {error}. Run the same command again when it can, and nobody changes it")


def _upload(loader: Loader, source: Path, folder: str, last: str | None) -> int:
    wanted = local(source)
    odd = [*wanted.others, *(name for name in (*wanted.files, *wanted.folders) if "\n" in name)]
    if odd:
        fail(
            f"{len(odd)} entries of {source} cannot be sent, {odd[0]!r} for one; nothing is sent. What can: files, "
            "folders and links to files, if their names have no line break. Rename or remove the others"
        )
    if not wanted.files:
        fail(f"{source} holds no file; nothing is sent")
    there = remote(loader, folder)
    missing = [name for name, digest in wanted.files.items() if there.files.get(name) != digest]
    folders = [name for name in wanted.folders if name not in there.folders]
    rest = [name for name in missing if name != last]
    if rest or folders:
        _send(loader, source, folder, rest, folders)
        found = remote(loader, folder)
        _verify(wanted.files, found.files, rest, f"volume folder {folder}")
        lost = set(folders) - set(found.folders)
        if lost:
            fail(f"{len(lost)} folders did not arrive in volume folder {folder}, {min(lost)!r} for one; run it again")
    if last in missing:
        _send(loader, source, folder, [last])
        _verify(wanted.files, remote(loader, folder).files, [last], f"volume folder {folder}")
    return len(missing)


def fetch(loader: Loader, folder: str, target: Path) -> Fetched:
    """Bring a folder of the volume to this machine.

    Files called DONE come when all others are here and checked. Links are told, not followed.

    Raises through `fail` when there is no such folder, or when what arrived is not what was sent.
    """
    wanted = remote(loader, folder)
    if not wanted.files and not wanted.folders:
        fail(f"the volume has no files in {folder}")
    if wanted.others:
        count, one = len(wanted.others), wanted.others[0]
        err.print(f"{count} links or the like are not fetched, {one!r} for one", style="yellow", markup=False)
    try:
        here = local(target).files if target.is_dir() else {}
        for name in ("", *wanted.folders):
            _inside(target, name).mkdir(parents=True, exist_ok=True)
        missing = [name for name, digest in wanted.files.items() if here.get(name) != digest]
        rest = [name for name in missing if not _says_done(name)]
        changed: tuple[str, ...] = ()
        if rest:
            # What says that all is here must not lie beside less than all.
            missing = [*rest, *filter(_says_done, wanted.files)]
            for name in missing[len(rest) :]:
                _inside(target, name).unlink(missing_ok=True)
            _receive(loader, folder, target, rest)
            changed = _changed(loader, folder, target, rest, wanted.files)
        marks = missing[len(rest) :]
        if marks:
            _receive(loader, folder, target, marks)
            _verify(wanted.files, digests(target, marks), marks, str(target))
    except OSError as error:
        fail(f"{target} cannot be written: {error}. What arrived whole stays; make room for the rest, and run it again")
    return Fetched(sent=len(missing), changed=changed)


def _changed(
    loader: Loader, folder: str, target: Path, names: Sequence[str], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """The files that a run wrote to between list and fetch; any other that differs ends the command."""
    found = digests(target, names)
    wrong = [name for name in names if found.get(name) != wanted[name]]
    if not wrong:
        return ()
    now = remote(loader, folder).files
    # What has not changed there was damaged on its way; and what is finished should not change at all.
    _verify(wanted, found, [name for name in wrong if now.get(name) == wanted[name]], str(target))
    changed = tuple(name for name in wrong if found.get(name) != now.get(name))
    finished = [name for name in changed if any(str(each / DONE) in wanted for each in PurePosixPath(name).parents)]
    if finished:
        fail(
            f"{len(finished)} files of a finished run were written to while they were fetched, {finished[0]!r} for "
            "one; see who does that, and run the same command again"
        )
    return changed


def _send(loader: Loader, source: Path, folder: str, names: Sequence[str], folders: Iterable[str] = ()) -> None:
    found = {name: (source / name).stat() for name in names}
    with (
        _bar(sum(each.st_size for each in found.values()), f"sending {len(names)} files") as progress,
        running(loader, "upload", _TAKE, folder, stdin=subprocess.PIPE) as process,
    ):
        if process.stdin is None:
            raise AssertionError
        for name in folders:
            process.stdin.write(_header(name, tarfile.DIRTYPE, 0o755, 0, time.time()))
        for name, each in found.items():
            process.stdin.write(_header(name, tarfile.REGTYPE, 0o644, each.st_size, each.st_mtime))
            left = each.st_size
            with (source / name).open("rb") as file:
                while left and (chunk := file.read(min(left, _CHUNK))):
                    process.stdin.write(chunk)
                    left -= len(chunk)
            if left:
                fail(f"{name!r} in {source} became shorter while it was sent; run the same command again")
            process.stdin.write(bytes(-each.st_size % tarfile.BLOCKSIZE))
            progress.advance(progress.task_ids[0], each.st_size)
        process.stdin.write(bytes(2 * tarfile.BLOCKSIZE))
        process.stdin.close()


def _header(name: str, kind: bytes, mode: int, size: int, mtime: float) -> bytes:
    """An archive's words before a file. Who owns it here means nothing there."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, int(mtime)
    return info.tobuf(tarfile.GNU_FORMAT, sys.getfilesystemencoding(), "surrogateescape")


def _receive(loader: Loader, folder: str, target: Path, names: Sequence[str]) -> None:
    with tempfile.TemporaryFile() as asked, _bar(None, f"fetching {len(names)} files") as progress:
        # With ./ no name looks like an option.
        asked.writelines(b"./" + os.fsencode(name) + b"\n" for name in names)
        asked.seek(0)
        with running(loader, "fetch", _GIVE, folder, stdin=asked, stdout=subprocess.PIPE) as process:
            if process.stdout is None:
                raise AssertionError
            known = frozenset(names)
            # Between two archives there are zeros.
            with tarfile.open(fileobj=process.stdout, mode="r|", ignore_zeros=True) as archive:
                for member in archive:
                    _keep(archive, member, target, known)
                    progress.advance(progress.task_ids[0], member.size)


def _keep(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, names: Collection[str]) -> None:
    """Write one file beside its place, then into it: what lies there under its name is whole."""
    name = PurePosixPath(member.name).as_posix()
    path = _inside(target, name)
    if name not in names:
        fail(f"the volume sent {name!r}, which was not asked for; it was not written")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = target / PARTIAL
    if member.islnk():
        # A second name of a file that came before, for which the archive does not repeat the content.
        shutil.copyfile(_inside(target, PurePosixPath(member.linkname).as_posix()), partial)
    elif content := archive.extractfile(member):
        with partial.open("wb") as out:
            shutil.copyfileobj(content, out, _CHUNK)
    else:
        return
    partial.replace(path)


def _inside(target: Path, name: str) -> Path:
    path = target / name
    if not path.resolve().is_relative_to(target.resolve()):
        fail(f"the volume holds a file called {name!r}, which would land outside {target}; it was not written")
    return path


def _verify(wanted: Mapping[str, str], found: Mapping[str, str], names: Iterable[str], where: str) -> None:
    wrong = [name for name in names if found.get(name) != wanted[name]]
    if wrong:
        fail(
            f"{len(wrong)} files in {where} are not what was sent, {wrong[0]!r} for one; run the same command again: "
            "it sends just these"
        )


def _says_done(name: str) -> bool:
    return PurePosixPath(name).name == DONE


def _bar(total: int | None, what: str) -> Progress:
    progress = Progress("  {task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=err)
    progress.add_task(what, total=total)
    return progress
