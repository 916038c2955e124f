"""Fetches of a volume's files: every file is verified, and their number and size are compared with a separate count."""

import errno
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from trainstack.transfer import archive, chunks
from trainstack.transfer.errors import DamagedRecordError, TransferError
from trainstack.transfer.folder_lock import locked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import (
    Stat,
    Target,
    Tree,
    discard_parts,
    local_digests,
    partial_folder,
    path_inside,
)
from trainstack.transfer.record_check import DONE, Fault, Record, heads, records
from trainstack.transfer.retry import Transfer, TransferResult
from trainstack.transfer.volume_files import (
    damaged_error,
    differing,
    others_warning,
    parent,
    raise_for_unreadable,
    tree_total,
    volume_contents,
    volume_digests,
    volume_total,
    volume_tree,
)

_COUNTS = 3
"""The maximum number of counts of a folder that is being written."""
_MOST_HEAD_BYTES = 256 << 20
"""The maximum size of a file that is read into memory; a larger run.json is damaged."""
_MOST_FAULTS = 5
"""The number of a record's faults that a message names."""


def fetch(loader: Loader, path: str, target: Path | None = None) -> TransferResult:
    """Fetch a folder or file of the volume to a folder of this machine.

    The default target is a folder of the same name, or the current folder for a file. Links are reported, not followed.
    Waits for another fetch into the same target.

    Raises TransferError if the path does not exist, a file cannot be read, or verification fails. Complete files are
    kept.
    """
    try:
        with ExitStack() as stack:
            return _Fetch(loader=loader, path=path, folder=target, stack=stack).run()
    except OSError as error:
        remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "fix the cause"
        raise TransferError(f"{error}. Complete files are kept; {remedy}, and run the same command again") from error


def _mismatch(path: str, first: str, first_total: tuple[int, int], second: str, second_total: tuple[int, int]) -> str:
    """Describe a difference that no concurrent write explains; a total is a number of files and of bytes."""
    return (
        f"what was fetched of {path} is not verified: {first} {first_total[0]} of {first_total[1]} bytes, {second} "
        f"{second_total[0]} of {second_total[1]} bytes. Run the same command again, and report the message if it recurs"
    )


def _damage_error(path: str, target: Path, texts: Sequence[str]) -> DamagedRecordError:
    more = f"; and {len(texts) - _MOST_FAULTS} more" if len(texts) > _MOST_FAULTS else ""
    return DamagedRecordError(
        f"{path} on the volume differs from its run.json: {'; '.join(texts[:_MOST_FAULTS])}{more}. The other files "
        f"were fetched to {target}. If the files were changed on the volume, restore them and run the same command "
        "again; if they were lost, raise the run's `attempt` to train again. To fetch a file or folder without this "
        "comparison, use its path"
    )


@dataclass(kw_only=True)
class _Fetch(Transfer):
    path: str
    folder: Path | None
    """The target, if it is not the default."""
    stack: ExitStack
    """The stack that releases the lock of the target."""
    target: Target | None = None
    """None before the first attempt."""
    warned: bool = False
    """Whether the user has been warned of links and special files."""
    digests: dict[tuple[str, Stat], str] = field(default_factory=dict)
    """The sha256 of files in a state that the volume listed."""

    def attempt(self) -> TransferResult:
        tree, target = self._locked_tree()
        folder = parent(self.path) if tree.kind == "file" else self.path
        for name in tree.folders:
            path_inside(target.folder, name).mkdir(parents=True, exist_ok=True)
        markers = {name: state for name, state in tree.files.items() if PurePosixPath(name).name == DONE}
        self._compare_existing(folder, target, tree)
        recorded = self._records(folder, tree)
        # A damaged file must not replace what an earlier command has fetched.
        damaged = {fault.name for faults in self._compare(recorded, tree).values() for fault in faults}
        later = markers.keys() | damaged
        rest = self.missing({name: state for name, state in tree.files.items() if name not in later})
        if rest:
            # A marker must not exist in an incomplete folder.
            for name, state in markers.items():
                path_inside(target.folder, name).unlink(missing_ok=True)
                self.verified.discard((name, state))
        self.result.where = str(target.folder)
        self._fetch(folder, target, tree, rest)
        faults = self._compare_fetched(recorded, target, tree)
        damaged |= {f"{root}{DONE}" for root in faults}
        # The markers are last: a program that waits for one then finds all files of its folder.
        last = self.missing({name: markers[name] for name in markers if name not in damaged})
        self._fetch(folder, target, tree, last)
        if faults:
            raise _damage_error(self.path, target.folder, [fault.text for found in faults.values() for fault in found])
        self._compare_totals(tree, target)
        discard_parts(partial_folder(target.folder, tree))
        return self.result

    def _locked_tree(self) -> tuple[Tree, Target]:
        """Return the content of the volume's folder, and the target, which this command has locked."""
        tree = self._tree()
        if self.target is not None:
            return tree, self.target
        folder = self.folder or Path("" if tree.kind == "file" else PurePosixPath(self.path).name)
        folder.mkdir(parents=True, exist_ok=True)
        self.target = Target(folder)
        if self.stack.enter_context(locked(folder, self.loader.progress)):
            # Another command has fetched into the target meanwhile.
            tree = self._tree()
        return tree, self.target

    def _compare_existing(self, folder: str, target: Target, tree: Tree) -> None:
        """Hash the files that may be equal on both sides, and the volume's files that later steps verify."""
        missing = self.missing(tree.files)
        same_size = {name for name, state in missing.items() if target.size(name) == state.size}
        shown = {name: tree.files[name] for name in heads(tree)}
        hashed = {name: state for name, state in missing.items() if name in same_size or state.size < chunks.BIG}
        digests = volume_digests(self.loader, folder, hashed | shown)
        self.digests.update(((name, tree.files[name]), digest) for name, digest in digests.items())
        local = local_digests({name: target.folder / name for name in same_size}, self.loader.progress)
        for name in same_size:
            if name in digests and digests[name] == local[name]:
                self.verified.add((name, missing[name]))
                target.keep(name)

    def _tree(self) -> Tree:
        tree = volume_tree(self.loader, self.path)
        if not tree.files and not tree.folders:
            raise TransferError(f"the volume has no files in {self.path}; list its files with `trainstack ls`")
        if tree.others and not self.warned:
            self.warned = True
            self.loader.progress.warn(others_warning(tree, "fetched"))
        return tree

    def _records(self, folder: str, tree: Tree) -> list[Record]:
        """Read the finished records in the folder. Raises BrokenConnectionError if a file was damaged in transit."""
        names = [name for name in heads(tree) if tree.files[name].size <= _MOST_HEAD_BYTES]
        contents = volume_contents(self.loader, folder, names) if names else {}
        read = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        if wrong := differing({name: self.digests.get((name, tree.files[name]), "") for name in names}, read):
            raise damaged_error(wrong, f"a record in {self.path}")
        return records(contents)

    def _compare(self, recorded: Iterable[Record], tree: Tree) -> dict[str, list[Fault]]:
        """Return the known differences of records to their run.json, by root of the record."""
        digests = {name: digest for (name, state), digest in self.digests.items() if tree.files.get(name) == state}
        faults = {record.root: [*record.compare(tree, digests)] for record in recorded}
        return {root: found for root, found in faults.items() if found}

    def _compare_fetched(self, recorded: Sequence[Record], target: Target, tree: Tree) -> dict[str, list[Fault]]:
        """Return the differences of records to their run.json; delete the local markers of incomplete records."""
        names = [f"{record.root}{path}" for record in recorded for path in record.files]
        unknown = {name: tree.files[name] for name in names if name in tree.files}
        # A big file was verified by the sha512 of its chunks, but run.json has its sha256.
        unknown = {name: state for name, state in unknown.items() if (name, state) not in self.digests}
        if unknown:
            local = local_digests({name: target.folder / name for name in unknown}, self.loader.progress)
            self.digests.update(((name, unknown[name]), digest) for name, digest in local.items())
        faults = self._compare(recorded, tree)
        for root, found in faults.items():
            if not all(fault.expected and _is_complete(target, fault) for fault in found):
                (target.folder / f"{root}{DONE}").unlink(missing_ok=True)
        return faults

    def _fetch(self, folder: str, target: Target, tree: Tree, files: Mapping[str, Stat]) -> None:
        """Fetch and verify files. A file that changes meanwhile is reported, unless its run is finished."""
        self.needed.update(files)
        self.result.files, self.result.sent = len(tree.files), len(self.needed)
        if not files:
            return
        # A small file without a digest was deleted meanwhile, or cannot be read.
        digests = {
            name: self.digests.get((name, state), "") for name, state in files.items() if state.size < chunks.BIG
        }
        small = {name: digest for name, digest in digests.items() if digest}
        big = {name: state for name, state in files.items() if state.size >= chunks.BIG}
        partial = partial_folder(target.folder, tree)
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
            raise damaged_error(damaged, str(target.folder))
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

    def _compare_totals(self, tree: Tree, target: Target) -> None:
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
        local, remote = target.total(unchanged), (len(unchanged), sum(unchanged.values()))
        if local != remote:
            raise TransferError(
                _mismatch(self.path, "its files are", remote, f"but in {target.folder} they are", local)
            )


def _is_complete(target: Target, fault: Fault) -> bool:
    """Return whether an earlier command has fetched the file as run.json describes it."""
    size = target.size(fault.name)
    if size is None:
        return False
    with (target.folder / fault.name).open("rb") as file:
        return fault.expected == (size, hashlib.file_digest(file, "sha256").hexdigest())
