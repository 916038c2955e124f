"""Fetch the files of a volume, verify each, and compare their number and size with a separate count on the volume."""

import errno
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trainstack.transfer import archive, chunks
from trainstack.transfer.errors import TransferError
from trainstack.transfer.folder_lock import locked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import Stat, Tree, discard_parts, local_digests, partial_folder, path_inside
from trainstack.transfer.retry import Transfer, TransferResult
from trainstack.transfer.volume_files import (
    damaged_error,
    differing,
    parent,
    raise_for_unreadable,
    tree_total,
    volume_digests,
    volume_total,
    volume_tree,
)

DONE = "_SUCCESS"
"""The file that marks its folder as complete; it is fetched after all other files have been verified."""
_COUNTS = 3
"""How often the files of a folder that is being written are counted."""


def fetch(loader: Loader, path: str, target: Path | None = None) -> TransferResult:
    """Fetch a folder or file of the volume to a folder of this machine.

    The default target is a folder of the same name, or the current folder for a file. Links are reported, not followed.
    Waits for another fetch into the same target.

    Raises TransferError if the path does not exist, a file cannot be read, or verification fails. Complete files are
    kept.
    """
    try:
        with ExitStack() as stack:
            transfer = _Fetch(loader=loader, path=path, target=target, stack=stack)
            return transfer.run()
    except OSError as error:
        remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "fix the cause"
        raise TransferError(f"{error}. Complete files are kept; {remedy}, and run the same command again") from error


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _mismatch(path: str, first: str, first_total: tuple[int, int], second: str, second_total: tuple[int, int]) -> str:
    """Describe a difference that no concurrent write explains; a total is a number of files and of bytes."""
    return (
        f"what was fetched of {path} is not verified: {first} {first_total[0]} of {first_total[1]} bytes, {second} "
        f"{second_total[0]} of {second_total[1]} bytes. Run the same command again, and report the message if it recurs"
    )


@dataclass(kw_only=True)
class _Fetch(Transfer):
    path: str
    target: Path | None
    stack: ExitStack
    """Releases the lock of the target."""
    locked: bool = False
    warned: bool = False

    def attempt(self) -> TransferResult:
        tree = self._tree()
        target = self.target or Path("" if tree.kind == "file" else PurePosixPath(self.path).name)
        if not self.locked:
            target.mkdir(parents=True, exist_ok=True)
            self.locked = True
            if self.stack.enter_context(locked(target, self.loader.progress)):
                # Another command has fetched into the target meanwhile.
                tree = self._tree()
        folder = parent(self.path) if tree.kind == "file" else self.path
        for name in tree.folders:
            path_inside(target, name).mkdir(parents=True, exist_ok=True)
        markers = {name: state for name, state in tree.files.items() if PurePosixPath(name).name == DONE}
        missing = self.missing(tree.files)
        same_size = {name for name, state in missing.items() if _size(target / name) == state.size}
        hashed = {name: state for name, state in missing.items() if name in same_size or state.size < chunks.BIG}
        digests = volume_digests(self.loader, folder, hashed | markers)
        local = local_digests({name: target / name for name in same_size}, self.loader.progress)
        self.verified.update(
            (name, missing[name]) for name in same_size if name in digests and digests[name] == local[name]
        )
        rest = self.missing({name: state for name, state in tree.files.items() if name not in markers})
        if rest:
            # A marker must not exist in an incomplete folder.
            for name, state in markers.items():
                path_inside(target, name).unlink(missing_ok=True)
                self.verified.discard((name, state))
        last = self.missing(markers)
        self.needed.update(rest, last)
        self.result.where = str(target)
        self.result.files, self.result.sent = len(tree.files), len(self.needed)
        self._fetch(folder, target, tree, rest, digests)
        self._fetch(folder, target, tree, last, digests)
        self._compare_totals(tree, target)
        discard_parts(partial_folder(target, tree))
        return self.result

    def _tree(self) -> Tree:
        tree = volume_tree(self.loader, self.path)
        if not tree.files and not tree.folders:
            raise TransferError(f"the volume has no files in {self.path}; list its files with `trainstack ls`")
        if tree.others and not self.warned:
            self.warned = True
            count, example = len(tree.others), tree.others[0]
            self.loader.progress.warn(f"{count} links or special files are not fetched, for example {example!r}")
        return tree

    def _fetch(
        self, folder: str, target: Path, tree: Tree, files: Mapping[str, Stat], digests: Mapping[str, str]
    ) -> None:
        """Fetch and verify files. A file that changes meanwhile is reported, unless its run is finished."""
        if not files:
            return
        # A small file without a digest was deleted meanwhile, or cannot be read.
        small = {name: digests[name] for name, state in files.items() if state.size < chunks.BIG and name in digests}
        big = {name: state for name, state in files.items() if state.size >= chunks.BIG}
        partial = partial_folder(target, tree)
        written: dict[str, str] = {}
        with self.bar(f"fetching {len(files)} files", files):
            if small:
                written = archive.receive(self, folder, target, partial, small)
            for name, state in big.items():
                chunks.receive(self, folder, target, partial, name, state)
        wrong = differing(small, written)
        without_digest = [name for name in files if name not in small and name not in big]
        suspect = [*wrong, *big, *without_digest]
        now = volume_tree(self.loader, self.path).files if suspect else {}
        raise_for_unreadable(self.loader, folder, {name: now[name] for name in without_digest if name in now})
        changed = [name for name in suspect if now.get(name) != files[name]]
        # A wrong file that has not changed on the volume was damaged in transit.
        if damaged := [name for name in wrong if name not in changed]:
            raise damaged_error(damaged, str(target))
        self._note_changed(changed, tree)
        self.verified.update(files.items())

    def _note_changed(self, names: Iterable[str], tree: Tree) -> None:
        """Note files that changed meanwhile. Raises TransferError if they belong to a finished run."""
        new = [name for name in names if name not in self.result.changed]
        finished = [
            name for name in new if any(str(folder / DONE) in tree.files for folder in PurePosixPath(name).parents)
        ]
        if finished:
            raise TransferError(
                f"{len(finished)} files of a finished run were written to during the fetch, for example "
                f"{finished[0]!r}; stop the program that writes to them, and run the same command again"
            )
        self.result.changed += tuple(new)

    def _compare_totals(self, tree: Tree, target: Path) -> None:
        """Compare the fetched files with a count on the volume that does not use the list.

        Notes files that changed meanwhile. Raises TransferError for any other difference.
        """
        listed = tree
        for _ in range(_COUNTS):
            counted = volume_total(self.loader, self.path)
            if counted == tree_total(listed):
                break
            now = volume_tree(self.loader, self.path)
            if now.files == listed.files:
                raise TransferError(
                    _mismatch(self.path, "its files are counted as", counted, "but listed as", tree_total(listed))
                )
            listed = now
        deleted_or_new = tree.files.keys() ^ listed.files.keys()
        changed = [name for name, state in listed.files.items() if tree.files.get(name, state) != state]
        self._note_changed(sorted((*changed, *deleted_or_new)), tree)
        unchanged = {name: state.size for name, state in listed.files.items() if name not in self.result.changed}
        sizes = [size for name in unchanged if (size := _size(target / name)) is not None]
        local, remote = (len(sizes), sum(sizes)), (len(unchanged), sum(unchanged.values()))
        if local != remote:
            raise TransferError(_mismatch(self.path, "its files are", remote, f"but in {target} they are", local))
