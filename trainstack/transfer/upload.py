"""Uploads to a volume through a data loader: only missing and different files, verified by sha256 on both sides.

An interrupted upload resumes: complete files, and complete chunks of large files, are not sent again. File names may be
any that a file system accepts, including invalid UTF-8 and line breaks, except PARTIAL.
"""

import itertools
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from trainstack.transfer import archive, chunks
from trainstack.transfer.attempts import Transfer, TransferResult
from trainstack.transfer.errors import TransferError
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import PARTIAL, Stat, Tree, local_digests, local_tree
from trainstack.transfer.volume_files import (
    damaged_error,
    differing_names,
    parent_folder,
    raise_for_same_files,
    volume_digests,
    volume_tree,
)


def upload(loader: Loader, source: Path, folder: str, last_file: str | None = None) -> TransferResult:
    """Upload a folder, or one file, to the volume. Links to files are sent as files.

    A file is written into `folder` if that ends with `/` or is an existing folder; otherwise it is the file's new path.
    `last_file`: a file that is sent after all others have been verified, because a run waits for it.

    Raises TransferError; if the content cannot be uploaded, before anything is sent.
    """
    try:
        return _Upload(loader=loader, source=source, folder=folder, last_file=last_file).run()
    except OSError as error:
        raise TransferError(
            f"cannot read {source}: {error}. Fix the cause and run the same command again when nothing writes to it"
        ) from error


@dataclass(kw_only=True)
class _Upload(Transfer):
    source: Path
    folder: str
    last_file: str | None
    command_id: str = field(default_factory=lambda: secrets.token_hex(4))
    """The prefix of the parts that this command writes."""
    attempts: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """The numbers of attempts to send a large file, which distinguish the parts of one command."""

    def attempt(self) -> TransferResult:
        tree = local_tree(self.source)
        folder, remote, files, paths = self._destination(tree)
        self._validate(tree, files, folder, remote)
        # Only files of equal size can be equal; the others need no digest.
        same_size = {
            name: state
            for name, state in self.missing(files).items()
            if name in remote.files and remote.files[name].size == state.size
        }
        if same_size:
            digests = volume_digests(self.loader, folder, same_size)
            local_sums = local_digests({name: paths[name] for name in same_size}, self.loader.progress)
            self.verified.update((name, same_size[name]) for name in digests if digests[name] == local_sums.get(name))
        missing = self.missing(files)
        self.required_files.update(missing)
        self.result.where = folder
        self.result.files, self.result.sent = len(files), len(self.required_files)
        folders = [name for name in tree.folders if name not in remote.folders]
        other_files = {name: state for name, state in missing.items() if name != self.last_file}
        small = {name: state for name, state in other_files.items() if state.size < chunks.BIG_FILE_BYTES}
        self._send_small(folder, small, paths, folders)
        self._send_big(folder, {name: state for name, state in other_files.items() if name not in small}, paths, remote)
        # A run that waits for the last file must find all others, and none of them overwritten.
        last_files = {name: state for name, state in missing.items() if name == self.last_file}
        self._raise_for_same_files(folder, [name for name in files if name not in last_files])
        self._send_small(folder, last_files, paths, [])
        if last_files:
            self._raise_for_same_files(folder, files)
        return self.result

    def _destination(self, tree: Tree) -> tuple[str, Tree, Mapping[str, Stat], Mapping[str, Path]]:
        """Return the target folder on the volume, its content, the files to send and their local paths."""
        remote = volume_tree(self.loader, self.folder)
        if tree.kind == "folder":
            return self.folder, remote, tree.files, {name: self.source / name for name in tree.files}
        folder, name = self.folder, self.source.name
        if remote.kind != "folder" and not folder.endswith("/"):
            folder, name = parent_folder(folder), PurePosixPath(folder).name
            remote = volume_tree(self.loader, folder)
        return folder, remote, {name: tree.files[self.source.name]}, {name: self.source}

    def _validate(self, tree: Tree, files: Iterable[str], folder: str, remote: Tree) -> None:
        """Raise TransferError if something cannot be sent."""
        if tree.special_files:
            raise TransferError(
                f"{len(tree.special_files)} entries of {self.source} cannot be sent, for example "
                f"{tree.special_files[0]!r}; nothing was sent. Only files, folders and links to files can be sent; "
                "move the other entries or replace them"
            )
        # A file of that name could be taken for a part of another upload.
        names = (*files, *tree.folders, folder)
        if reserved := [name for name in names if PARTIAL in name.split("/")]:
            raise TransferError(
                f"{reserved[0]!r} cannot be sent from {str(self.source)!r} to {folder!r}: {PARTIAL} is reserved for "
                "incomplete files; nothing was sent. If an interrupted fetch left that folder, repeat the fetch or "
                "delete the folder; otherwise rename it"
            )
        if not tree.files:
            raise TransferError(f"{self.source} contains no file; nothing was sent")
        if remote.kind == "file":
            raise TransferError(f"{folder} is a file on the volume, not a folder; nothing was sent. Use another path")
        if PARTIAL in remote.files:
            raise TransferError(
                f"{PARTIAL} in {folder} on the volume is a file, but the name is reserved for the folder of incomplete "
                "files; nothing was sent. Rename it in a pod that mounts the volume"
            )
        folders = set(remote.folders)
        conflicts = [name for name in files if name in folders]
        conflicts += [name for name in tree.folders if name in remote.files]
        if conflicts:
            raise TransferError(
                f"{conflicts[0]!r} is a file on one side and a folder on the other, in {self.source} and in {folder} "
                "on the volume; nothing was sent. Rename or delete one of them"
            )

    def _raise_for_same_files(self, folder: str, names: Collection[str]) -> None:
        """Raise TransferError if a file of this upload has replaced another file of it."""
        if self.required_files and len(names) > 1:
            listed = volume_tree(self.loader, folder).files
            raise_for_same_files(self.loader, folder, names, listed)

    def _send_small(
        self, folder: str, files: Mapping[str, Stat], paths: Mapping[str, Path], folders: Iterable[str]
    ) -> None:
        if not files and not folders:
            return
        with self.bar(f"sending {len(files)} files", files):
            sent_digests = archive.send(self, folder, files, paths, folders)
        damaged_names = differing_names(sent_digests, volume_digests(self.loader, folder, files))
        self.verified.update((name, files[name]) for name in files if name not in damaged_names)
        if damaged_names:
            raise damaged_error(damaged_names, f"volume folder {folder}")

    def _send_big(self, folder: str, files: Mapping[str, Stat], paths: Mapping[str, Path], remote: Tree) -> None:
        if not files:
            return
        with self.bar(f"sending {len(files)} big files", files):
            for name, state in files.items():
                offset, owner = 0, f"{self.command_id}-{next(self.attempts)}"
                if chunks.has_part(name, state, remote.parts):
                    offset = chunks.claim_part(self, paths[name], folder, name, state, owner)
                chunks.send(self, paths[name], folder, name, state, owner, offset)
                self.verified.add((name, state))
