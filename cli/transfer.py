"""Files to a volume and back, through a data loader: only what differs, checked by sha256 on both sides.

A broken connection loses nothing: what has arrived whole is not sent again.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

from cli.console import err, fail
from cli.kubectl import command, exec_words
from cli.loader import MOUNT, Loader

_CHUNK = 1 << 20
# NUL-free names only: tar and find of busybox end records by newline.
_LIST = 'cd "$1" 2>/dev/null && find . -type f ! -name "*.partial" -exec sha256sum {} +'
_TAKE = 'mkdir -p "$1" && cd "$1" && tar -xf -'
_GIVE = 'cd "$1" && shift && tar -cf - -- "$@"'


def local_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file below a folder, by its relative POSIX path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def remote_digests(loader: Loader, folder: str) -> dict[str, str]:
    """The same of a folder of the volume; empty where it does not exist."""
    done = _exec(loader, _LIST, _place(folder))
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    digests = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        digests[name.removeprefix("./")] = digest
    return digests


def upload(loader: Loader, source: Path, folder: str, last: str | None = None) -> int:
    """Bring a folder to the volume; return how many files had to be sent.

    Args:
        loader: through which.
        source: the folder on this machine.
        folder: where it goes on the volume.
        last: a file that is sent when all others are there and checked, since somebody waits for it.

    """
    wanted = local_digests(source)
    if not wanted:
        fail(f"{source} holds no file; nothing is sent")
    there = remote_digests(loader, folder)
    missing = [name for name, digest in wanted.items() if there.get(name) != digest]
    for batch in ([name for name in missing if name != last], [name for name in missing if name == last]):
        if batch:
            _send(loader, source, folder, batch)
            _verify(wanted, remote_digests(loader, folder), batch, f"volume folder {folder}")
    return len(missing)


def fetch(loader: Loader, folder: str, target: Path) -> int:
    """Bring a folder of the volume to this machine; return how many files had to be sent.

    Raises through `fail` when there is no such folder, or when what arrived is not what was sent.
    """
    wanted = remote_digests(loader, folder)
    if not wanted:
        fail(f"the volume has no files in {folder}")
    here = local_digests(target) if target.is_dir() else {}
    missing = [name for name, digest in wanted.items() if here.get(name) != digest]
    if missing:
        _receive(loader, folder, target, missing)
        _verify(wanted, {name: _sha256(target / name) for name in missing}, missing, str(target))
    return len(missing)


def _send(loader: Loader, source: Path, folder: str, names: Iterable[str]) -> None:
    files = [source / name for name in names]
    words = command(
        *exec_words(loader.namespace, loader.pod, loader.container, _TAKE, _place(folder)), context=loader.context
    )
    with _bar(sum(file.stat().st_size for file in files), f"sending {len(files)} files") as progress:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        if process.stdin is None:
            raise AssertionError
        try:
            with tarfile.open(fileobj=process.stdin, mode="w|", format=tarfile.GNU_FORMAT) as archive:
                for file in files:
                    archive.add(file, arcname=file.relative_to(source).as_posix(), filter=_anonymous)
                    progress.advance(progress.task_ids[0], file.stat().st_size)
            process.stdin.close()
        except BrokenPipeError:
            pass
        _end(process, "upload")


def _receive(loader: Loader, folder: str, target: Path, names: list[str]) -> None:
    words = command(
        *exec_words(loader.namespace, loader.pod, loader.container, _GIVE, _place(folder), *names),
        context=loader.context,
    )
    target.mkdir(parents=True, exist_ok=True)
    with _bar(None, f"fetching {len(names)} files") as progress:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        if process.stdout is None:
            raise AssertionError
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    _keep(archive, member, target)
                    progress.advance(progress.task_ids[0], member.size)
        except tarfile.TarError as error:
            err.print(f"the stream broke off: {error}", style="yellow", markup=False)
        _end(process, "fetch")


def _keep(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write one file beside its name, then into it: what lies there under its name is whole."""
    path = target / PurePosixPath(member.name)
    if not path.resolve().is_relative_to(target.resolve()):
        fail(f"the volume holds a file called {member.name!r}, which would land outside {target}; it was not written")
    content = archive.extractfile(member)
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        shutil.copyfileobj(content, out, _CHUNK)
    partial.replace(path)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who owns a file here means nothing there."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def _end(process: "subprocess.Popen[bytes]", what: str) -> None:
    errors = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
    if process.wait():
        fail(
            f"the {what} broke off: {errors or f'kubectl ended with {process.returncode}'}. What arrived whole stays; "
            "run the same command again and it goes on from there"
        )


def _verify(wanted: Mapping[str, str], found: Mapping[str, str], names: Iterable[str], where: str) -> None:
    wrong = [name for name in names if found.get(name) != wanted[name]]
    if wrong:
        fail(
            f"{len(wrong)} files in {where} are not what was sent, {wrong[0]!r} for one; run the same command again: "
            "it sends just these"
        )


def _exec(loader: Loader, script: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    words = command(
        *exec_words(loader.namespace, loader.pod, loader.container, script, *arguments), context=loader.context
    )
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=os.environ)


def _place(folder: str) -> str:
    return f"{MOUNT}/{folder.strip('/')}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bar(total: int | None, what: str) -> Progress:
    progress = Progress("  {task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=err)
    progress.add_task(what, total=total)
    return progress
