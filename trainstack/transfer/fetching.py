"""A fetch: files of a volume to this machine, checked one by one, and then counted."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainstack.cli.console import err, fail
from trainstack.cli.progress import bar
from trainstack.transfer import archive
from trainstack.transfer import chunks as parts
from trainstack.transfer.folder_lock import locked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import Stat, Tree, discard, inside, local_digests, partial
from trainstack.transfer.pod_script import BrokenConnectionError
from trainstack.transfer.retry import Brought, Transfer
from trainstack.transfer.volume_files import remote, remote_digests, remote_total, total, unreadable

DONE = "_SUCCESS"
"""The file that marks its folder as complete: fetched after all other files are complete and checked."""
_COUNTS = 3
"""How often the files of a folder that somebody writes to are counted."""


def parent(path: str) -> str:
    return str(PurePosixPath(path.strip("/") or ".").parent)


def differs(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [name for name in wanted if found.get(name) != wanted[name]]


def refuse_unreadable(loader: Loader, folder: str, files: Mapping[str, Stat]) -> None:
    """End the command if one of the files still exists but had no digest because it cannot be read."""
    if names := unreadable(loader, folder, files):
        fail(
            f"{len(names)} files in {folder} on the volume cannot be read, {names[0]!r} for one. Complete files "
            "stay; make them readable for the data loader's user, or check the disk, and run the same command again"
        )


def not_what_was_sent(names: list[str], where: str) -> BrokenConnectionError:
    return BrokenConnectionError(f"{len(names)} files in {where} are not what was sent, {names[0]!r} for one")


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _differ(path: str, one: str, found: tuple[int, int], other: str, wanted: tuple[int, int]) -> str:
    """Describe a difference that no concurrent write explains; the figures are numbers of files and bytes."""
    return (
        f"what was fetched of {path} is not verified: {one} {found[0]} of {found[1]} bytes, {other} {wanted[0]} of "
        f"{wanted[1]} bytes. Run the same command again, and report it if that does not help"
    )


@dataclass(kw_only=True)
class Fetch(Transfer):
    """One fetch, across its tries."""

    path: str
    target: Path | None
    held: ExitStack
    """What is released when the fetch ends: the lock of the folder that it writes to."""
    locked: bool = False
    told: bool = False

    def attempt(self) -> Brought:
        """Fetch what is not here yet. Raises BrokenConnectionError, OSError."""
        wanted = self._wanted()
        target = self.target or Path("" if wanted.kind == "file" else PurePosixPath(self.path).name)
        if self._lock(target):
            wanted = self._wanted()
        folder = parent(self.path) if wanted.kind == "file" else self.path
        for name in wanted.folders:
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
            # A marker of completeness must not exist in an incomplete folder.
            for name, state in marks.items():
                inside(target, name).unlink(missing_ok=True)
                self.verified.discard((name, state))
        late = {name: state for name, state in marks.items() if (name, state) not in self.verified}
        self.needed.update(rest, late)
        self.brought.where = str(target)
        self.brought.files, self.brought.sent = len(wanted.files), len(self.needed)
        self._fetch(folder, target, wanted, rest, digests)
        self._fetch(folder, target, wanted, late, digests)
        self._compare(wanted, target)
        discard(partial(target, wanted))
        return self.brought

    def _lock(self, target: Path) -> bool:
        """Lock the folder for this command; return whether another command held it before. Raises OSError."""
        if self.locked:
            return False
        target.mkdir(parents=True, exist_ok=True)
        self.locked = True
        return self.held.enter_context(locked(target))

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
        unfinished = partial(target, wanted)
        with bar(f"fetching {len(files)} files", sum(each.size for each in files.values())) as advance:
            meter = self.meter(advance)
            if small:
                archive.receive(self.loader, folder, target, unfinished, small, meter.sent)
            for name, state in big.items():
                parts.receive(self.loader, folder, target, unfinished, name, state, meter)
        wrong = differs(small, local_digests({name: target / name for name in small}))
        without = [name for name in files if name not in small and name not in big]
        suspect = [*wrong, *big, *without]
        now = remote(self.loader, self.path).files if suspect else {}
        refuse_unreadable(self.loader, folder, {name: now[name] for name in without if name in now})
        changed = [name for name in suspect if now.get(name) != files[name]]
        # What has not changed there was damaged on its way; and what is finished should not change at all.
        if damaged := [name for name in wrong if name not in changed]:
            raise not_what_was_sent(damaged, str(target))
        self._changed(changed, wanted)
        self.verified.update(files.items())

    def _changed(self, names: Iterable[str], wanted: Tree) -> None:
        """Note files that were written to meanwhile. Ends the command where they belong to a finished run."""
        new = [name for name in names if name not in self.brought.changed]
        finished = [
            name for name in new if any(str(each / DONE) in wanted.files for each in PurePosixPath(name).parents)
        ]
        if finished:
            fail(
                f"{len(finished)} files of a finished run were written to while they were fetched, {finished[0]!r} for "
                "one; find the writer, and run the same command again"
            )
        self.brought.changed += tuple(new)

    def _compare(self, wanted: Tree, target: Path) -> None:
        """Compare the number of files and of their bytes with a count on the volume that does not use the list.

        Where they differ since somebody writes there, those files are noted. Ends the command where they differ
        otherwise.
        """
        listed = wanted
        for _ in range(_COUNTS):
            counted = remote_total(self.loader, self.path)
            if counted == total(listed):
                break
            now = remote(self.loader, self.path)
            if now.files == listed.files:
                fail(_differ(self.path, "its files are counted as", counted, "but listed as", total(listed)))
            listed = now
        gone_or_new = wanted.files.keys() ^ listed.files.keys()
        changed = [name for name, state in listed.files.items() if wanted.files.get(name, state) != state]
        self._changed(sorted((*changed, *gone_or_new)), wanted)
        kept = [name for name in listed.files if name not in self.brought.changed]
        sizes = [size for name in kept if (size := _size(target / name)) is not None]
        here, there = (len(sizes), sum(sizes)), (len(kept), sum(listed.files[name].size for name in kept))
        if here != there:
            fail(_differ(self.path, "its files are", there, f"but in {target} they are", here))
