"""Transfer of many small files in one stream, as tar archives."""

import hashlib
import os
import posixpath
import shutil
import sys
import tarfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from trainstack.transfer.attempts import Transfer
from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.frames import END_COMMAND, SHELL_FUNCTIONS, Frames, encode_names
from trainstack.transfer.local_files import SMALL_FILE_NAME, LocalTarget, Stat, changed_error, read_stat
from trainstack.transfer.pod_script import run_script

_BLOCK_BYTES = 1 << 20
_UPLOAD_SCRIPT = f'{SHELL_FUNCTIONS}\nmkdir -p "$1" && cd "$1" && tar -xf - && {END_COMMAND}'
# busybox's tar does not read a list of names, and ten thousand names exceed a command line: so tar runs once for every
# 50 names, and the archives follow each other. GNU tar interprets escapes in names by default. A file that
# has been deleted meanwhile is omitted.
_FETCH_SCRIPT = f"""{SHELL_FUNCTIONS}
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
    transfer: Transfer, folder: str, files: Mapping[str, Stat], paths: Mapping[str, Path], folders: Iterable[str]
) -> dict[str, str]:
    """Send files and folders; return the sha256 of each file as sent.

    Raises TransferError if a file changes meanwhile, and BrokenConnectionError.
    """
    digests = {}
    with run_script(transfer.loader, "upload", _UPLOAD_SCRIPT, folder) as script:
        archive = script.stdin
        # Not by tarfile's writer, which cannot hash the bytes that it sends.
        for name in folders:
            archive.write(_header(name, tarfile.DIRTYPE, 0o755, 0, time.time()))
        for name, expected in files.items():
            path = paths[name]
            digest, remaining_bytes = hashlib.sha256(), expected.size
            with path.open("rb", buffering=0) as file:
                modified = os.fstat(file.fileno()).st_mtime
                archive.write(_header(name, tarfile.REGTYPE, 0o644, expected.size, modified))
                while remaining_bytes and (data := file.read(min(remaining_bytes, _BLOCK_BYTES))):
                    digest.update(data)
                    archive.write(data)
                    remaining_bytes -= len(data)
            # The size in the header is already sent: a file that has changed cannot be completed.
            if remaining_bytes or read_stat(path) != expected:
                raise changed_error(path)
            archive.write(bytes(-expected.size % tarfile.BLOCKSIZE))
            transfer.add_sent(expected.size)
            digests[name] = digest.hexdigest()
        archive.write(bytes(2 * tarfile.BLOCKSIZE))
        archive.close()
        if frame := Frames(script.stdout, "response to the upload").next():
            raise BrokenConnectionError(f"the loader's tar printed {frame}")
    return digests


def receive(
    transfer: Transfer, folder: str, target: LocalTarget, partial: Path, names: Collection[str]
) -> dict[str, str]:
    """Fetch files; return the sha256 of each as written. `partial` holds the one being written.

    Raises TransferError, BrokenConnectionError and OSError.
    """
    partial.mkdir(parents=True, exist_ok=True)
    digests = dict[str, str]()
    with _open_archive(transfer, folder, names) as archive:
        for name, member in _members(archive, names, digests):
            # The archive does not repeat the content of a hard link to an earlier member.
            content = (
                target.prepare_path(_link_target(member)).open("rb") if member.islnk() else archive.extractfile(member)
            )
            if content is not None:
                digests[name] = _write_file(content, member.size, target, name, partial / SMALL_FILE_NAME)
                transfer.add_sent(member.size)
    return digests


@contextmanager
def _open_archive(transfer: Transfer, folder: str, names: Iterable[str]) -> Iterator[tarfile.TarFile]:
    # With the prefix ./, no name is mistaken for an option.
    stdin = encode_names(f"./{name}" for name in names)
    with run_script(transfer.loader, "fetch", _FETCH_SCRIPT, folder, stdin=stdin) as script:
        try:
            # Zeros separate the archives.
            with tarfile.open(fileobj=script.stdout, mode="r|", ignore_zeros=True) as archive:
                yield archive
        except (ArithmeticError, LookupError, ValueError) as error:
            # tarfile raises these for headers that no tar writes.
            raise BrokenConnectionError(f"the data loader sent an invalid archive: {error!r}") from None


def _members(
    archive: tarfile.TarFile, names: Collection[str], received: Collection[str]
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Yield the members that are files, with their names; hard links only to names in `received`."""
    requested = frozenset(names)
    for member in archive:
        name = posixpath.normpath(member.name)
        if name not in requested or not (member.isreg() or member.isdir() or member.islnk()):
            raise TransferError(f"the volume sent {name!r}, which was not requested; it was not written")
        if member.islnk() and _link_target(member) not in received:
            raise TransferError(f"the volume sent {name!r} as a link to a file that it did not send")
        if not member.isdir():
            yield name, member


def _link_target(member: tarfile.TarInfo) -> str:
    return posixpath.normpath(member.linkname)


def _header(name: str, kind: bytes, mode: int, size: int, mtime: float) -> bytes:
    """Return the header of a file in an archive, without its owner."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, int(mtime)
    return info.tobuf(tarfile.GNU_FORMAT, sys.getfilesystemencoding(), "surrogateescape")


def _write_file(content: IO[bytes], size: int, target: LocalTarget, name: str, partial: Path) -> str:
    """Write one file to a temporary path, then rename it, so that a file with its final name is complete.

    Returns the sha256 of what was written, read back.
    """
    target.prepare_path(name)
    digest = hashlib.sha256()
    block = min(size, _BLOCK_BYTES) or _BLOCK_BYTES
    # Without a buffer, `write` may write less, for example on a full disk.
    with content, partial.open("w+b") as file:
        shutil.copyfileobj(content, file, block)
        file.seek(0)
        while data := file.read(block):
            digest.update(data)
    target.rename(partial, name)
    return digest.hexdigest()
