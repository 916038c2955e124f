"""Files to a volume and back, through a data loader: only what differs, checked by sha256 on both sides.

A broken connection loses nothing: what has arrived whole is not sent again, of a big file every whole chunk. A few
times it is made anew by itself. Names may be any that a file system takes, also such that are no UTF-8 or have line
breaks; only PARTIAL is refused, before anything is sent.
"""

import errno
import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rich.filesize import decimal

from trainstack.cli.console import err, fail
from trainstack.cli.progress import bar
from trainstack.transfer import archive
from trainstack.transfer import chunks as parts
from trainstack.transfer.fetching import Fetch, differs, not_what_was_sent, parent, refuse_unreadable
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import PARTIAL, Stat, Tree, local, local_digests
from trainstack.transfer.retry import Brought, Transfer, persevering
from trainstack.transfer.volume_files import remote, remote_digests


def upload(loader: Loader, source: Path, folder: str, last: str | None = None) -> Brought:
    """Bring a folder to the volume, or one file into a folder of the volume.

    Links to files are sent as files. Raises through `fail`, before anything is sent, when there is something that
    cannot be sent.

    Args:
        loader: through which.
        source: the folder, or file, on this machine.
        folder: where it goes on the volume. A file is put into it if it ends with `/` or is there, else gets its name.
        last: a file that is sent when all others are there and checked, since somebody waits for it.

    """
    try:
        job = _Upload(loader=loader, source=source, folder=folder, last=last)
        return persevering(loader, job.attempt, lambda: job.arrived)
    except OSError as error:
        fail(f"{source} cannot be read: {error}. Run the same command again when it can, and nobody changes it")


def fetch(loader: Loader, path: str, target: Path | None = None) -> Brought:
    """Fetch a folder of the volume, or one file, to a folder of this machine; None: of the folder's name, or here.

    Files called DONE are fetched last, when all others are complete and checked. Links are reported, not followed. The
    number of local files and bytes is compared with a count on the volume that does not use the list. The function
    waits for another fetch into the same folder.

    Raises through `fail` when there is no such folder, when a file there cannot be read, or when what arrived is not
    what was sent or counted. Complete files stay.
    """
    try:
        with ExitStack() as held:
            job = Fetch(loader=loader, path=path, target=target, held=held)
            return persevering(loader, job.attempt, lambda: job.arrived)
    except OSError as error:
        mend = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "fix the cause"
        fail(f"{error}. What arrived whole stays; {mend}, and run the same command again")


def listing(loader: Loader, path: str) -> dict[str, dict[str, str | int]]:
    """The sha256 and size of every file below a folder of the volume, or of the one file, by its relative path.

    Empty where there is none. Raises through `fail` when the list did not arrive whole, or a file cannot be read.
    """

    def attempt() -> dict[str, dict[str, str | int]]:
        tree = remote(loader, path)
        if tree.parts:
            one, size = next(iter(tree.parts)), sum(tree.parts.values())
            where = f"{path.rstrip('/')}/{one.rpartition('/')[0]}"
            err.print(
                f"  {decimal(size)} of unfinished uploads are there, in {where} for one; the same uploads go on "
                "from it. To be rid of them remove that folder, in a pod that mounts the volume",
                style="yellow",
                markup=False,
            )
        folder = parent(path) if tree.kind == "file" else path
        found = remote_digests(loader, folder, tree.files)
        if missing := [name for name in tree.files if name not in found]:
            now = remote(loader, path).files
            refuse_unreadable(loader, folder, {name: now[name] for name in missing if name in now})
        return {name: {"sha256": digest, "size": tree.files[name].size} for name, digest in found.items()}

    return persevering(loader, attempt, lambda: 0)


@dataclass(kw_only=True)
class _Upload(Transfer):
    source: Path
    folder: str
    last: str | None
    command: str = field(default_factory=lambda: secrets.token_hex(4))
    """By which the parts that it writes to are known."""
    tries: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def attempt(self) -> Brought:
        """Bring what is not there yet. Raises BrokenConnectionError, OSError."""
        wanted = local(self.source)
        folder, there, files, paths = self._destination(wanted)
        self._refuse(wanted, files, folder, there)
        alike = {
            name: state
            for name, state in files.items()
            if (name, state) not in self.verified and name in there.files and there.files[name].size == state.size
        }
        if alike:
            found = remote_digests(self.loader, folder, alike)
            here = local_digests({name: paths[name] for name in alike})
            self.verified.update((name, alike[name]) for name in found if found[name] == here.get(name))
        missing = {name: state for name, state in files.items() if (name, state) not in self.verified}
        self.needed.update(missing)
        self.brought.where = folder
        self.brought.files, self.brought.sent = len(files), len(self.needed)
        folders = [name for name in wanted.folders if name not in there.folders]
        rest = {name: state for name, state in missing.items() if name != self.last}
        self._small(folder, {name: state for name, state in rest.items() if state.size < parts.BIG}, paths, folders)
        self._big(folder, {name: state for name, state in rest.items() if state.size >= parts.BIG}, paths, there)
        self._small(folder, {name: state for name, state in missing.items() if name == self.last}, paths, [])
        return self.brought

    def _destination(self, wanted: Tree) -> tuple[str, Tree, Mapping[str, Stat], Mapping[str, Path]]:
        """The folder on the volume, what it holds, and what goes there under which names, from where."""
        there = remote(self.loader, self.folder)
        if wanted.kind == "folder":
            return self.folder, there, wanted.files, {name: self.source / name for name in wanted.files}
        folder, name = self.folder, self.source.name
        if there.kind != "folder" and not folder.endswith("/"):
            folder, name = parent(folder), PurePosixPath(folder).name
            there = remote(self.loader, folder)
        return folder, there, {name: wanted.files[self.source.name]}, {name: self.source}

    def _refuse(self, wanted: Tree, files: Iterable[str], folder: str, there: Tree) -> None:
        """End the command when something cannot be sent."""
        if wanted.others:
            fail(
                f"{len(wanted.others)} entries of {self.source} cannot be sent, {wanted.others[0]!r} for one; nothing "
                "is sent. Only files, folders and links to files can be sent; rename or remove the others"
            )
        names = (*files, *wanted.folders, folder)
        if reserved := [name for name in names if PARTIAL in name.split("/")]:
            fail(
                f"{reserved[0]!r} cannot be sent from {str(self.source)!r} to {folder!r}: {PARTIAL} is reserved for "
                "files that have not arrived whole; nothing is sent. If an interrupted fetch left that folder, run "
                "that fetch again or remove the folder; otherwise rename it"
            )
        if not wanted.files:
            fail(f"{self.source} holds no file; nothing is sent")
        if there.kind == "file":
            fail(f"{folder} is a file on the volume, so no folder can be; nothing is sent. Choose another path")
        if PARTIAL in there.files:
            fail(
                f"{PARTIAL} in {folder} on the volume is a file, but the name is reserved for the folder of files that "
                "have not arrived whole; nothing is sent. Rename it in a pod that mounts the volume"
            )
        folders = set(there.folders)
        other = [name for name in files if name in folders]
        other += [name for name in wanted.folders if name in there.files]
        if other:
            fail(
                f"{other[0]!r} is a file on one side and a folder on the other, in {self.source} and in {folder} on "
                "the volume; nothing is sent. Rename or remove one of them"
            )

    def _small(self, folder: str, files: Mapping[str, Stat], paths: Mapping[str, Path], folders: Iterable[str]) -> None:
        if not files and not folders:
            return
        with bar(f"sending {len(files)} files", sum(each.size for each in files.values())) as advance:
            sent = archive.send(self.loader, folder, files, paths, folders, self.meter(advance).sent)
        wrong = differs(sent, remote_digests(self.loader, folder, files))
        self.verified.update((name, files[name]) for name in files if name not in wrong)
        if wrong:
            raise not_what_was_sent(wrong, f"volume folder {folder}")

    def _big(self, folder: str, files: Mapping[str, Stat], paths: Mapping[str, Path], there: Tree) -> None:
        if not files:
            return
        with bar(f"sending {len(files)} big files", sum(each.size for each in files.values())) as advance:
            meter = self.meter(advance)
            for name, state in files.items():
                offset, taker = 0, f"{self.command}-{next(self.tries)}"
                if parts.begun(name, state, there.parts):
                    offset = parts.resumable(self.loader, paths[name], folder, name, state, taker, meter)
                parts.send(self.loader, paths[name], folder, name, state, taker, offset, meter)
                self.verified.add((name, state))
