"""The comparison of a finished run's record with its run.json, which lists every published file with its sha256."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from trainstack.reports.record import parse_object
from trainstack.transfer.local_files import Tree

DONE = "_SUCCESS"
"""The file that marks its folder as complete; it is fetched after all other files have been verified."""
_RUN_JSON, _RESULT = "run.json", "result/"
_COPY = f"{_RESULT}.run.json"
"""The wrapper's copy of run.json, from which it completes a record."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A difference between a record and its run.json."""

    text: str
    name: str = ""
    """The path of the file that differs on the volume; empty if run.json cannot be relied on."""
    expected: tuple[int, str] | None = None
    """The file's size and sha256 according to run.json."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of a finished run in a fetched folder."""

    root: str
    """The prefix of its files' paths: empty, or a folder with `/`."""
    files: Mapping[str, Any]
    """The entry of each published file in run.json, by its path in the record."""
    faults: tuple[Fault, ...]
    """The reasons why run.json cannot be relied on."""

    def compare(self, tree: Tree, digests: Mapping[str, str]) -> Iterator[Fault]:
        """Yield all differences to the files on the volume; of a file without a digest, only the size is compared."""
        yield from self.faults
        if self.faults:
            return
        listed = {f"{self.root}{path}": entry for path, entry in self.files.items()}
        for name, entry in listed.items():
            if text := _difference(name, entry, tree, digests):
                yield Fault(text=f"{name!r} {text}", name=name, expected=_expected(entry))
        for name in (*tree.files, *tree.others):
            if name.startswith(f"{self.root}{_RESULT}") and name not in listed and name != f"{self.root}{_COPY}":
                yield Fault(text=f"{name!r} is not in run.json", name=name)


def heads(tree: Tree) -> list[str]:
    """Return the files of a fetched folder that identify its records and list the records' files."""
    if tree.kind != "folder":
        return []
    roots = [name.removesuffix(DONE) for name in tree.files if PurePosixPath(name).name == DONE]
    return [name for root in roots for name in _heads_of(root) if name in tree.files]


def records(contents: Mapping[str, bytes]) -> list[Record]:
    """Return the records of these head files, except those within another record's result.

    Other programs mark folders with a file of the same name, so a record needs the wrapper's marker or run.json too.
    """
    found: list[Record] = []
    for done in sorted((name for name in contents if PurePosixPath(name).name == DONE), key=len):
        root = done.removesuffix(DONE)
        record = _record(root, *(contents.get(name) for name in _heads_of(root)))
        if record is not None and not any(root.startswith(outer.root) for outer in found):
            found.append(record)
    return found


def _heads_of(root: str) -> tuple[str, str, str]:
    return f"{root}{DONE}", f"{root}{_RUN_JSON}", f"{root}{_COPY}"


def _record(root: str, done: bytes | None, run_json: bytes | None, copy: bytes | None) -> Record | None:
    mark, run, repeated = map(_object, (done, run_json, copy))
    if "run_json_sha256" not in mark and not any({"run_id", "files"} & value.keys() for value in (run, repeated)):
        return None
    files, name = run.get("files"), f"{root}{_RUN_JSON}"
    if run_json is None:
        fault = "is missing"
    elif not isinstance(files, dict):
        fault = "is damaged: it lists no files"
    elif ("run_id" in run or mark) and mark.get("run_json_sha256") != hashlib.sha256(run_json).hexdigest():
        fault = f"is not the one that {DONE} confirms by its sha256"
    elif copy not in (None, run_json):
        fault = f"differs from {root}{_COPY}"
    else:
        return Record(root=root, files=files, faults=())
    return Record(root=root, files={}, faults=(Fault(text=f"{name!r} {fault}"),))


def _object(content: bytes | None) -> Mapping[str, Any]:
    """Parse a JSON object; return {} for anything else."""
    try:
        return {} if content is None else parse_object(content, file_names=True)
    except ValueError:
        return {}


def _expected(entry: Any) -> tuple[int, str] | None:
    """Return a file's size and sha256; None if the entry in run.json is invalid."""
    size, digest = (entry.get("size"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    return (size, digest) if type(size) is int and isinstance(digest, str) else None


def _difference(name: str, entry: Any, tree: Tree, digests: Mapping[str, str]) -> str:
    expected = _expected(entry)
    if expected is None:
        return "has no valid size and sha256 in run.json"
    if name in tree.others:
        return "is a link or a special file"
    if name not in tree.files:
        return "is missing"
    size, digest = expected
    if tree.files[name].size != size:
        return f"has {tree.files[name].size} bytes instead of {size}"
    return "has another content" if digests.get(name, digest) != digest else ""
