"""Files to a volume and back, through a data loader: only what differs, checked by sha256 on both sides.

A broken connection loses nothing: what has arrived whole is not sent again, of a big file every whole chunk. A few
times it is made anew by itself. Names may be any that a file system takes, also such that are no UTF-8; only those with
a line break are refused, before anything is sent.
"""

import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rich.filesize import decimal

from cli import archive, parts
from cli.console import err, fail
from cli.loader import Loader
from cli.progress import bar
from cli.remote import BrokenConnectionError
from cli.trees import Stat, Tree, inside, local, local_digests, remote, remote_digests, unreadable
from cli.tries import Brought, Transfer, persevering

DONE = "_SUCCESS"
"""The file that says of the folder around it that it is complete: fetched when all else is there and checked."""


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
    """Bring a folder of the volume, or one file, to a folder of this machine; None: of the folder's name, or here.

    Files called DONE come when all others are here and checked. Links are told, not followed.

    Raises through `fail` when there is no such folder, when a file there cannot be read, or when what arrived is not
    what was sent. What arrived whole stays.
    """
    try:
        job = _Fetch(loader=loader, path=path, target=target)
        return persevering(loader, job.attempt, lambda: job.arrived)
    except OSError as error:
        fail(f"{target or path} cannot be written: {error}. What arrived whole stays; make room, and run it again")


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
        folder = _parent(path) if tree.kind == "file" else path
        found = remote_digests(loader, folder, tree.files)
        if missing := [name for name in tree.files if name not in found]:
            now = remote(loader, path).files
            _refuse_unreadable(loader, folder, {name: now[name] for name in missing if name in now})
        return {name: {"sha256": digest, "size": tree.files[name].size} for name, digest in found.items()}

    return persevering(loader, attempt, lambda: 0)


def _parent(path: str) -> str:
    return str(PurePosixPath(path.strip("/") or ".").parent)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _differs(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [name for name in wanted if found.get(name) != wanted[name]]


def _refuse_unreadable(loader: Loader, folder: str, files: Mapping[str, Stat]) -> None:
    """End the command when one of the files, that are still there, had no digest since it cannot be read."""
    if names := unreadable(loader, folder, files):
        fail(
            f"{len(names)} files in {folder} on the volume cannot be read, {names[0]!r} for one. What arrived whole "
            "stays; make them readable for the data loader's user, or see to the disk, and run the same command again"
        )


def _not_what_was_sent(names: list[str], where: str) -> BrokenConnectionError:
    return BrokenConnectionError(f"{len(names)} files in {where} are not what was sent, {names[0]!r} for one")


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
            folder, name = _parent(folder), PurePosixPath(folder).name
            there = remote(self.loader, folder)
        return folder, there, {name: wanted.files[self.source.name]}, {name: self.source}

    def _refuse(self, wanted: Tree, files: Iterable[str], folder: str, there: Tree) -> None:
        """End the command when something cannot be sent."""
        odd = [*wanted.others, *(name for name in (*wanted.files, *wanted.folders) if "\n" in name)]
        if odd:
            fail(
                f"{len(odd)} entries of {self.source} cannot be sent, {odd[0]!r} for one; nothing is sent. What can: "
                "files, folders and links to files, if their names have no line break. Rename or remove the others"
            )
        if not wanted.files:
            fail(f"{self.source} holds no file; nothing is sent")
        if there.kind == "file":
            fail(f"{folder} is a file on the volume, so no folder can be; nothing is sent. Choose another path")
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
        wrong = _differs(sent, remote_digests(self.loader, folder, files))
        self.verified.update((name, files[name]) for name in files if name not in wrong)
        if wrong:
            raise _not_what_was_sent(wrong, f"volume folder {folder}")

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


@dataclass(kw_only=True)
class _Fetch(Transfer):
    path: str
    target: Path | None
    told: bool = False

    def attempt(self) -> Brought:
        """Fetch what is not here yet. Raises BrokenConnectionError, OSError."""
        wanted = self._wanted()
        folder = _parent(self.path) if wanted.kind == "file" else self.path
        target = self.target or Path("" if wanted.kind == "file" else PurePosixPath(self.path).name)
        for name in ("", *wanted.folders):
            inside(target, name).mkdir(parents=True, exist_ok=True)
        marks = {name: state for name, state in wanted.files.items() if PurePosixPath(name).name == DONE}
        left = {name: state for name, state in wanted.files.items() if (name, state) not in self.verified}
        alike = {name for name, state in left.items() if _size(target / name) == state.size}
        hashed = {name: state for name, state in left.items() if name in alike or state.size < parts.BIG} | marks
        digests = remote_digests(self.loader, folder, hashed)
        found = local_digests({name: target / name for name in alike})
        self.verified.update((name, left[name]) for name in alike if name in digests and digests[name] == found[name])
        rest = {name: state for name, state in left.items() if (name, state) not in self.verified | set(marks.items())}
        if rest:
            # What says that all is here must not lie beside less than all.
            for name, state in marks.items():
                inside(target, name).unlink(missing_ok=True)
                self.verified.discard((name, state))
        late = {name: state for name, state in marks.items() if (name, state) not in self.verified}
        self.needed.update(rest, late)
        self.brought.where = str(target)
        self.brought.files, self.brought.sent = len(wanted.files), len(self.needed)
        self._fetch(folder, target, wanted, rest, digests)
        self._fetch(folder, target, wanted, late, digests)
        parts.discard(target)
        return self.brought

    def _wanted(self) -> Tree:
        wanted = remote(self.loader, self.path)
        if not wanted.files and not wanted.folders:
            fail(f"the volume has no files in {self.path}")
        if wanted.others and not self.told:
            self.told = True
            count, one = len(wanted.others), wanted.others[0]
            err.print(f"{count} links or the like are not fetched, {one!r} for one", style="yellow", markup=False)
        return wanted

    def _fetch(
        self, folder: str, target: Path, wanted: Tree, files: Mapping[str, Stat], digests: Mapping[str, str]
    ) -> None:
        """Fetch files and check them. Those that a run wrote to meanwhile are told, unless the run is finished."""
        if not files:
            return
        # A small one without a digest is gone meanwhile, or cannot be read.
        small = {name: digests[name] for name, state in files.items() if state.size < parts.BIG and name in digests}
        big = {name: state for name, state in files.items() if state.size >= parts.BIG}
        with bar(f"fetching {len(files)} files", sum(each.size for each in files.values())) as advance:
            meter = self.meter(advance)
            if small:
                archive.receive(self.loader, folder, target, small, meter.sent)
            for name, state in big.items():
                parts.receive(self.loader, folder, target, name, state, meter)
        wrong = _differs(small, local_digests({name: target / name for name in small}))
        without = [name for name in files if name not in small and name not in big]
        suspect = [*wrong, *big, *without]
        now = remote(self.loader, self.path).files if suspect else {}
        _refuse_unreadable(self.loader, folder, {name: now[name] for name in without if name in now})
        changed = [name for name in suspect if now.get(name) != files[name]]
        # What has not changed there was damaged on its way; and what is finished should not change at all.
        if damaged := [name for name in wrong if name not in changed]:
            raise _not_what_was_sent(damaged, str(target))
        finished = [
            name for name in changed if any(str(each / DONE) in wanted.files for each in PurePosixPath(name).parents)
        ]
        if finished:
            fail(
                f"{len(finished)} files of a finished run were written to while they were fetched, {finished[0]!r} for "
                "one; see who does that, and run the same command again"
            )
        self.brought.changed += tuple(changed)
        self.verified.update(files.items())
