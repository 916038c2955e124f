"""The comparison of a finished run's record with its run.json, which lists every published file with its sha256."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from trainstack.reports.record import parse_object
from trainstack.transfer.local_files import Tree

SUCCESS_FILE = "_SUCCESS"
"""The file that marks its folder as complete; it is fetched after all other files have been verified."""
_RUN_JSON, _RESULT_FOLDER = "run.json", "result/"
_RUN_JSON_COPY = f"{_RESULT_FOLDER}.run.json"
"""The wrapper's copy of run.json, from which it completes a record."""


@dataclass(frozen=True, kw_only=True)
class RecordFault:
    """A difference between a record and its run.json."""

    text: str
    name: str = ""
    """The path of the file that differs on the volume; empty if run.json cannot be relied on."""
    expected: tuple[int, str] | None = None
    """The file's size and sha256 according to run.json."""


@dataclass(frozen=True, kw_only=True)
class FinishedRecord:
    """The record of a finished run in a fetched folder."""

    root: str
    """The prefix of its files' paths: empty, or a folder with `/`."""
    files: Mapping[str, Any]
    """The entry of each published file in run.json, by its path in the record."""
    faults: tuple[RecordFault, ...]
    """The reasons why run.json cannot be relied on."""

    def compare(self, tree: Tree, digests: Mapping[str, str]) -> Iterator[RecordFault]:
        """Yield all differences to the files on the volume; of a file without a digest, only the size is compared."""
        yield from self.faults
        if self.faults:
            return
        listed = {f"{self.root}{path}": entry for path, entry in self.files.items()}
        for name, entry in listed.items():
            if text := _describe_difference(name, entry, tree, digests):
                yield RecordFault(text=f"{name!r} {text}", name=name, expected=_expected_file(entry))
        for name in (*tree.files, *tree.special_files):
            if (
                name.startswith(f"{self.root}{_RESULT_FOLDER}")
                and name not in listed
                and name != f"{self.root}{_RUN_JSON_COPY}"
            ):
                yield RecordFault(text=f"{name!r} is not in run.json", name=name)


def find_heads(tree: Tree) -> list[str]:
    """Return the files of a fetched folder that identify its records and list the records' files."""
    if tree.kind != "folder":
        return []
    roots = [name.removesuffix(SUCCESS_FILE) for name in tree.files if PurePosixPath(name).name == SUCCESS_FILE]
    return [name for root in roots for name in _head_paths(root) if name in tree.files]


def find_records(contents: Mapping[str, bytes]) -> list[FinishedRecord]:
    """Return the records of these head files, except those within another record's result.

    Other programs mark folders with a file of the same name, so a record needs the wrapper's marker or run.json too.
    """
    outermost_records: list[FinishedRecord] = []
    for marker in sorted((name for name in contents if PurePosixPath(name).name == SUCCESS_FILE), key=len):
        root = marker.removesuffix(SUCCESS_FILE)
        record = _parse_record(root, *(contents.get(name) for name in _head_paths(root)))
        if record is not None and not any(root.startswith(outer.root) for outer in outermost_records):
            outermost_records.append(record)
    return outermost_records


def _head_paths(root: str) -> tuple[str, str, str]:
    return f"{root}{SUCCESS_FILE}", f"{root}{_RUN_JSON}", f"{root}{_RUN_JSON_COPY}"


def _parse_record(
    root: str, marker: bytes | None, run_json: bytes | None, run_json_copy: bytes | None
) -> FinishedRecord | None:
    marker_fields, run_fields, copy_fields = map(_parse_json, (marker, run_json, run_json_copy))
    if "run_json_sha256" not in marker_fields and not any(
        {"run_id", "files"} & value.keys() for value in (run_fields, copy_fields)
    ):
        return None
    files, name = run_fields.get("files"), f"{root}{_RUN_JSON}"
    if run_json is None:
        fault = "is missing"
    elif not isinstance(files, dict):
        fault = "is damaged: it lists no files"
    elif ("run_id" in run_fields or marker_fields) and marker_fields.get("run_json_sha256") != hashlib.sha256(
        run_json
    ).hexdigest():
        fault = f"is not the one that {SUCCESS_FILE} confirms by its sha256"
    elif run_json_copy not in (None, run_json):
        fault = f"differs from {root}{_RUN_JSON_COPY}"
    else:
        return FinishedRecord(root=root, files=files, faults=())
    return FinishedRecord(root=root, files={}, faults=(RecordFault(text=f"{name!r} {fault}"),))


def _parse_json(content: bytes | None) -> Mapping[str, Any]:
    """Parse a JSON object; return {} for anything else."""
    try:
        return {} if content is None else parse_object(content, file_names=True)
    except ValueError:
        return {}


def _expected_file(entry: Any) -> tuple[int, str] | None:
    """Return a file's size and sha256; None if the entry in run.json is invalid."""
    size, digest = (entry.get("size"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    return (size, digest) if type(size) is int and isinstance(digest, str) else None


def _describe_difference(name: str, entry: Any, tree: Tree, digests: Mapping[str, str]) -> str:
    expected = _expected_file(entry)
    if expected is None:
        return "has no valid size and sha256 in run.json"
    if name in tree.special_files:
        return "is a link or a special file"
    if name not in tree.files:
        return "is missing"
    size, digest = expected
    if tree.files[name].size != size:
        return f"has {tree.files[name].size} bytes instead of {size}"
    return "has another content" if digests.get(name, digest) != digest else ""
