"""Fetches of a volume's files: every file is verified, and their number and size are compared with a separate count."""

import errno
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from trainstack.transfer import archive, chunks
from trainstack.transfer.attempts import Transfer, TransferResult
from trainstack.transfer.errors import DamagedRecordError, TransferError
from trainstack.transfer.folder_lock import lock_folder
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import (
    LocalTarget,
    Stat,
    Tree,
    discard_parts,
    local_digests,
    partial_folder,
    path_inside,
)
from trainstack.transfer.record_check import SUCCESS_FILE, FinishedRecord, RecordFault, find_heads, find_records
from trainstack.transfer.volume_files import (
    damaged_error,
    differing_names,
    parent_folder,
    raise_for_unreadable,
    special_files_warning,
    tree_total,
    volume_contents,
    volume_digests,
    volume_total,
    volume_tree,
)

_MOST_COUNTS = 3
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


def _describe_mismatch(
    path: str, first: str, first_total: tuple[int, int], second: str, second_total: tuple[int, int]
) -> str:
    """Describe a difference that no concurrent write explains; a total is a number of files and of bytes."""
    return (
        f"what was fetched of {path} is not verified: {first} {first_total[0]} of {first_total[1]} bytes, {second} "
        f"{second_total[0]} of {second_total[1]} bytes. Run the same command again, and report the message if it recurs"
    )


def _damage_error(path: str, target: Path, differences: Sequence[str]) -> DamagedRecordError:
    more = f"; and {len(differences) - _MOST_FAULTS} more" if len(differences) > _MOST_FAULTS else ""
    return DamagedRecordError(
        f"{path} on the volume differs from its run.json: {'; '.join(differences[:_MOST_FAULTS])}{more}. The other "
        f"files were fetched to {target}. If the files were changed on the volume, restore them and run the same "
        "command again; if they were lost, raise the run's `attempt` to train again. To fetch a file or folder "
        "without this comparison, use its path"
    )


@dataclass(kw_only=True)
class _Fetch(Transfer):
    path: str
    folder: Path | None
    """The target, if it is not the default."""
    stack: ExitStack
    """The stack that releases the lock of the target."""
    target: LocalTarget | None = None
    """None before the first attempt."""
    has_warned: bool = False
    """Whether the user has been warned of links and special files."""
    digests: dict[tuple[str, Stat], str] = field(default_factory=dict)
    """The sha256 of files in a state that the volume listed."""

    def attempt(self) -> TransferResult:
        tree, target = self._lock_and_read_tree()
        folder = parent_folder(self.path) if tree.kind == "file" else self.path
        for name in tree.folders:
            path_inside(target.folder, name).mkdir(parents=True, exist_ok=True)
        markers = {name: state for name, state in tree.files.items() if PurePosixPath(name).name == SUCCESS_FILE}
        self._compare_existing(folder, target, tree)
        finished_records = self._read_records(folder, tree)
        # A damaged file must not replace what an earlier command has fetched.
        damaged_names = {
            fault.name for faults in self._compare_records(finished_records, tree).values() for fault in faults
        }
        postponed_names = markers.keys() | damaged_names
        missing_files = self.missing({name: state for name, state in tree.files.items() if name not in postponed_names})
        if missing_files:
            # A marker must not exist in an incomplete folder.
            for name, state in markers.items():
                path_inside(target.folder, name).unlink(missing_ok=True)
                self.verified.discard((name, state))
        self.result.where = str(target.folder)
        self._fetch_files(folder, target, tree, missing_files)
        faults = self._compare_fetched(finished_records, target, tree)
        damaged_names |= {f"{root}{SUCCESS_FILE}" for root in faults}
        # The markers are last: a program that waits for one then finds all files of its folder.
        missing_markers = self.missing({name: markers[name] for name in markers if name not in damaged_names})
        self._fetch_files(folder, target, tree, missing_markers)
        # Damage is reported last, so that all undamaged files are fetched.
        if faults:
            raise _damage_error(
                self.path, target.folder, [fault.text for record_faults in faults.values() for fault in record_faults]
            )
        self._compare_totals(tree, target)
        discard_parts(partial_folder(target.folder, tree))
        return self.result

    def _lock_and_read_tree(self) -> tuple[Tree, LocalTarget]:
        """Return the content of the volume's folder, and the target, which this command has locked."""
        tree = self._read_tree()
        if self.target is not None:
            return tree, self.target
        folder = self.folder or Path("" if tree.kind == "file" else PurePosixPath(self.path).name)
        folder.mkdir(parents=True, exist_ok=True)
        self.target = LocalTarget(folder)
        if self.stack.enter_context(lock_folder(folder, self.loader.progress)):
            # Another command has fetched into the target meanwhile.
            tree = self._read_tree()
        return tree, self.target

    def _compare_existing(self, folder: str, target: LocalTarget, tree: Tree) -> None:
        """Hash the files that may be equal on both sides, and the volume's files that later steps verify."""
        missing = self.missing(tree.files)
        same_size = {name for name, state in missing.items() if target.size(name) == state.size}
        head_files = {name: tree.files[name] for name in find_heads(tree)}
        files_to_hash = {
            name: state for name, state in missing.items() if name in same_size or state.size < chunks.BIG_FILE_BYTES
        }
        digests = volume_digests(self.loader, folder, files_to_hash | head_files)
        self.digests.update(((name, tree.files[name]), digest) for name, digest in digests.items())
        local = local_digests({name: target.folder / name for name in same_size}, self.loader.progress)
        for name in same_size:
            if name in digests and digests[name] == local[name]:
                self.verified.add((name, missing[name]))
                target.mark_complete(name)

    def _read_tree(self) -> Tree:
        tree = volume_tree(self.loader, self.path)
        if not tree.files and not tree.folders:
            raise TransferError(f"the volume has no files in {self.path}; list its files with `trainstack ls`")
        if tree.special_files and not self.has_warned:
            self.has_warned = True
            self.loader.progress.warn(special_files_warning(tree, "fetched"))
        return tree

    def _read_records(self, folder: str, tree: Tree) -> list[FinishedRecord]:
        """Read the finished records in the folder. Raises BrokenConnectionError if a file was damaged in transit."""
        names = [name for name in find_heads(tree) if tree.files[name].size <= _MOST_HEAD_BYTES]
        contents = volume_contents(self.loader, folder, names) if names else {}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        if damaged_names := differing_names(
            {name: self.digests.get((name, tree.files[name]), "") for name in names}, digests
        ):
            raise damaged_error(damaged_names, f"a record in {self.path}")
        return find_records(contents)

    def _compare_records(self, finished_records: Iterable[FinishedRecord], tree: Tree) -> dict[str, list[RecordFault]]:
        """Return the known differences of records to their run.json, by root of the record."""
        digests = {name: digest for (name, state), digest in self.digests.items() if tree.files.get(name) == state}
        faults = {record.root: [*record.compare(tree, digests)] for record in finished_records}
        return {root: record_faults for root, record_faults in faults.items() if record_faults}

    def _compare_fetched(
        self, finished_records: Sequence[FinishedRecord], target: LocalTarget, tree: Tree
    ) -> dict[str, list[RecordFault]]:
        """Return the differences of records to their run.json; delete the local markers of incomplete records."""
        names = [f"{record.root}{path}" for record in finished_records for path in record.files]
        files_without_digest = {name: tree.files[name] for name in names if name in tree.files}
        # A big file was verified by the sha512 of its chunks, but run.json has its sha256.
        files_without_digest = {
            name: state for name, state in files_without_digest.items() if (name, state) not in self.digests
        }
        if files_without_digest:
            local = local_digests({name: target.folder / name for name in files_without_digest}, self.loader.progress)
            self.digests.update(((name, files_without_digest[name]), digest) for name, digest in local.items())
        faults = self._compare_records(finished_records, tree)
        for root, record_faults in faults.items():
            if not all(fault.expected and _is_complete(target, fault) for fault in record_faults):
                (target.folder / f"{root}{SUCCESS_FILE}").unlink(missing_ok=True)
        return faults

    def _fetch_files(self, folder: str, target: LocalTarget, tree: Tree, files: Mapping[str, Stat]) -> None:
        """Fetch and verify files. A file that changes meanwhile is reported, unless its run is finished."""
        self.required_files.update(files)
        self.result.files, self.result.sent = len(tree.files), len(self.required_files)
        if not files:
            return
        # A small file without a digest was deleted meanwhile, or cannot be read.
        digests = {
            name: self.digests.get((name, state), "")
            for name, state in files.items()
            if state.size < chunks.BIG_FILE_BYTES
        }
        small = {name: digest for name, digest in digests.items() if digest}
        big = {name: state for name, state in files.items() if state.size >= chunks.BIG_FILE_BYTES}
        partial = partial_folder(target.folder, tree)
        written_digests: dict[str, str] = {}
        with self.bar(f"fetching {len(files)} files", files):
            if small:
                written_digests = archive.receive(self, folder, target, partial, small)
            for name, state in big.items():
                chunks.receive(self, folder, target, partial, name, state)
        wrong_names = differing_names(small, written_digests)
        without_digest = [name for name in files if name not in small and name not in big]
        suspect_names = [*wrong_names, *big, *without_digest]
        current_files = volume_tree(self.loader, self.path).files if suspect_names else {}
        raise_for_unreadable(
            self.loader, folder, {name: current_files[name] for name in without_digest if name in current_files}
        )
        changed = [name for name in suspect_names if current_files.get(name) != files[name]]
        # A wrong file that has not changed on the volume was damaged in transit.
        if damaged := [name for name in wrong_names if name not in changed]:
            raise damaged_error(damaged, str(target.folder))
        self._note_changed(changed, tree)
        self.verified.update(files.items())

    def _note_changed(self, names: Iterable[str], tree: Tree) -> None:
        """Note files that changed meanwhile. Raises TransferError if they belong to a finished run."""
        new = [name for name in names if name not in self.result.changed]
        finished = [
            name
            for name in new
            if any(str(folder / SUCCESS_FILE) in tree.files for folder in PurePosixPath(name).parents)
        ]
        if finished:
            raise TransferError(
                f"{len(finished)} files of a finished run were written to during the fetch, for example "
                f"{finished[0]!r}; stop the program that writes to them, and run the same command again"
            )
        self.result.changed += tuple(new)

    def _compare_totals(self, tree: Tree, target: LocalTarget) -> None:
        """Compare the fetched files with a count on the volume that does not use the list.

        Notes files that changed meanwhile. Raises TransferError for any other difference.
        """
        listed_tree = tree
        for _ in range(_MOST_COUNTS):
            counted = volume_total(self.loader, self.path)
            if counted == tree_total(listed_tree):
                break
            current_tree = volume_tree(self.loader, self.path)
            if current_tree.files == listed_tree.files:
                raise TransferError(
                    _describe_mismatch(
                        self.path, "its files are counted as", counted, "but listed as", tree_total(listed_tree)
                    )
                )
            listed_tree = current_tree
        deleted_or_new = tree.files.keys() ^ listed_tree.files.keys()
        changed = [name for name, state in listed_tree.files.items() if tree.files.get(name, state) != state]
        self._note_changed(sorted((*changed, *deleted_or_new)), tree)
        unchanged = {name: state.size for name, state in listed_tree.files.items() if name not in self.result.changed}
        local, remote = target.total(unchanged), (len(unchanged), sum(unchanged.values()))
        if local != remote:
            raise TransferError(
                _describe_mismatch(self.path, "its files are", remote, f"but in {target.folder} they are", local)
            )


def _is_complete(target: LocalTarget, fault: RecordFault) -> bool:
    """Return whether an earlier command has fetched the file as run.json describes it."""
    size = target.size(fault.name)
    if size is None:
        return False
    with (target.folder / fault.name).open("rb") as file:
        return fault.expected == (size, hashlib.file_digest(file, "sha256").hexdigest())
