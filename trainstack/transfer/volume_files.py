"""The files of a volume: scripts in a data loader's pod list, count, read and hash them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from rich.filesize import decimal

from trainstack.transfer.attempts import run_with_retries
from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.frames import END_COMMAND, SHELL_FUNCTIONS, Frames, decode_base64, encode_names
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import PARTIAL, Stat, Tree, is_part
from trainstack.transfer.pod_script import KILLED_EXIT_CODE, run_script

LOST_AND_FOUND = "lost+found"
"""The folder of fsck at the root of a file system."""
_SIZE = r"[0-9]{1,19}"
"""The size of one or more files in bytes: an integer of 64 bits."""
_STAT_LINE = re.compile(rf"(?P<size>{_SIZE}) (?P<stamp>[0-9]+,-?[0-9]+,-?[0-9]+)\Z")
# GNU sha256sum starts a line with a backslash if it escapes the name.
_SUM_LINE = re.compile(r"\\?(?P<digest>[0-9a-f]{64}) ")

# lost+found at the root of some volumes is readable by root only; if it is readable, it is an ordinary folder.
_PRUNE_LOST_AND_FOUND = f"""set --
if [ "$top" = . ] && [ -d {LOST_AND_FOUND} ] && ! {{ [ -r {LOST_AND_FOUND} ] && [ -x {LOST_AND_FOUND} ]; }}; then
  set -- -path ./{LOST_AND_FOUND} -prune -o
fi
"""
_XARGS = "xargs -0 -r -s 65536"
"""Batches far below the kernel's limit. busybox 1.35's `find -exec sh -c … {} +` exceeds the limit for 2 MiB of names
in a large environment, and loses the batch without a message or an exit status."""
_STAT_FORMAT = "%s %i,%Y,%Z"
# A frame has the lines that `stat` prints for a batch of names, then the names. If `stat` fails, it runs for each name
# alone. Names start with `./`, so that none is mistaken for an option.
_FILES_SCRIPT = f"""{SHELL_FUNCTIONS}
if lines=$(stat -c "{_STAT_FORMAT}" "$@" 2>/dev/null); then frame files "$lines" "$@"; exit; fi
for file; do
  if lines=$(stat -c "{_STAT_FORMAT}" "$file" 2>&1); then frame files "$lines" "$file"; else frame fault "$lines"; fi
done
"""
_NAMES_SCRIPT = f"""{SHELL_FUNCTIONS}
frame "$0" "$@"
"""
# What the programs print on stderr is a frame too, so that it is not mixed with messages of kubectl.
_LIST_SCRIPT = f"""{SHELL_FUNCTIONS}
top=$2
found() {{
  find . "$@" -print0 || {{ code=$?; [ $code -lt {KILLED_EXIT_CODE} ] || echo "find exited with $code" >&2; }}
}}
batches() {{ {_XARGS} "$@" >&3 || echo "xargs exited with $?" >&2; }}
if [ -d "$1" ]; then
  cd "$1" || exit
  frame folder
  {_PRUNE_LOST_AND_FOUND}
  exec 3>&1
  faults=$({{
    found "$@" -type f | batches sh -c '{_FILES_SCRIPT}' sh
    found "$@" -type d | batches sh -c '{_NAMES_SCRIPT}' folders
    found "$@" ! -type f ! -type d | batches sh -c '{_NAMES_SCRIPT}' others
  }} 2>&1)
  if [ -n "$faults" ]; then frame faults "$faults"; fi
elif [ -f "$1" ]; then
  cd "${{1%/*}}" || exit
  frame file
  lines=$(stat -c "{_STAT_FORMAT}" "./${{1##*/}}") || exit
  frame files "$lines" "./${{1##*/}}"
fi
{END_COMMAND}
"""
_DELETED_MESSAGES = ("No such file or directory", "Stale file handle")
"""Ends of the messages about files that were deleted or renamed since they were listed."""
# Without names and frames: the count verifies the list, so it must not use the same means.
_COUNT_SCRIPT = f"""{SHELL_FUNCTIONS}
top=$2
sum() {{ total=0; while read -r size; do total=$((total + size)); done; echo "$total"; }}
if [ -d "$1" ]; then
  cd "$1" || exit
  {_PRUNE_LOST_AND_FOUND}
  found() {{ find . "$@" -type f ! -path "*/{PARTIAL}/*" -print0; }}
  {END_COMMAND} "$(found "$@" | tr -cd "\\0" | wc -c)" "$(found "$@" | {_XARGS} stat -c %s | sum)"
else
  {END_COMMAND} 1 "$(stat -c %s "$1")"
fi
"""
_MOST_CHARACTERS = 100
"""The number of characters of a loader's output that a message shows."""
_BATCH_SIZE = 50
"""The number of names for one command: ten thousand exceed a command line."""
_LARGE_FILE_BYTES = 16 << 20
"""The minimum size, in bytes, of files that are hashed alone, so that the progress bar advances after each."""
# Lines of sha256sum are matched to names by position; a file whose name has a line break is passed on stdin instead.
# A file that was deleted meanwhile or cannot be read has no digest.
_HASH_SCRIPT = f"""{SHELL_FUNCTIONS}
cd "$1" || exit
batch=$2 count=0
sums() {{
  if lines=$(sha256sum "$@" </dev/null 2>/dev/null); then frame "$lines" "$@"; return; fi
  for file; do if lines=$(sha256sum "$file" </dev/null); then frame "$lines" "$file"; fi; done
}}
set --
while read_name; do
  count=$((count + 1))
  if [ ! -f "$name" ]; then continue; fi
  case $name in
    *"
"*) if lines=$(sha256sum <"$name"); then frame "$lines" "$name"; fi;;
    *) set -- "$@" "$name";;
  esac
  if [ $# -ge "$batch" ]; then sums "$@"; set --; fi
done
if [ $# -gt 0 ]; then sums "$@"; fi
{END_COMMAND} "$count"
"""

_STATS_SCRIPT = f"""{SHELL_FUNCTIONS}
cd "$1" || exit
count=0
while read_name; do
  count=$((count + 1))
  if lines=$(stat -c "{_STAT_FORMAT}" "$name" 2>/dev/null); then frame "$lines" "$name"; fi
done
{END_COMMAND} "$count"
"""
# Base64 contains no NUL, and wraps its lines; the last field is its exit status.
_CONTENTS_SCRIPT = f"""{SHELL_FUNCTIONS}
cd "$1" || exit
count=0
while read_name; do
  count=$((count + 1))
  if [ -f "$name" ]; then printf "3\\0%s\\0" "$name"; base64 <"$name"; printf "\\0%s\\0" $?; fi
done
{END_COMMAND} "$count"
"""


def volume_tree(loader: Loader, folder: str) -> Tree:
    """List a folder of the volume; nothing if it does not exist. The list may contain files that are deleted meanwhile.

    Raises TransferError if something cannot be listed, and BrokenConnectionError.
    """
    operation = f"list of the volume's files in {folder}"
    stats: dict[str, Stat] = {}
    frames = defaultdict[str, list[str]](list)
    with run_script(loader, operation, _LIST_SCRIPT, folder, _normalize_folder(folder), stdin=b"") as script:
        for frame_type, *fields in Frames(script.stdout, operation):
            match frame_type:
                case "files":
                    for name, match in _match_lines(fields, _STAT_LINE):
                        stats[name] = Stat(size=int(match["size"]), stamp=match["stamp"])
                case "folder" | "file" | "folders" | "others" | "fault" | "faults":
                    frames[frame_type] += fields
                case _:
                    raise BrokenConnectionError(f"the {operation} contains an unknown frame, {_shorten(frame_type)}")
    messages = [*frames["fault"], *(line for message in frames["faults"] for line in message.split("\n"))]
    if faults := [message for message in messages if not message.endswith(_DELETED_MESSAGES)]:
        raise TransferError(
            f"cannot list all of {folder} on the volume: {faults[0]}. Fix the cause and run the command again"
        )
    # The user's files and the parts of uploads are in the same folders; only the former are transferred.
    parts = {name: state.size for name, state in stats.items() if is_part(name)}
    files = {name: state for name, state in stats.items() if name not in parts}
    special_files = tuple(map(_relative_name, frames["others"]))
    folders = [_relative_name(name) for name in frames["folders"] if name != "."]
    # A folder that contains only parts is not one of the user's.
    only_parts = {name for name in folders if PurePosixPath(name).name == PARTIAL}
    only_parts -= {str(parent) for name in (*files, *special_files) for parent in PurePosixPath(name).parents}
    return Tree(
        files=files,
        folders=tuple(name for name in folders if name not in only_parts),
        special_files=special_files,
        parts=parts,
        kind="folder" if "folder" in frames else "file" if "file" in frames else "nothing",
    )


def volume_total(loader: Loader, folder: str) -> tuple[int, int]:
    """Return the number and bytes of the regular files in a folder of the volume, or of the one file.

    The count does not use `volume_tree`, and omits folders named PARTIAL. Raises BrokenConnectionError.
    """
    operation = f"count of the volume's files in {folder}"
    with run_script(loader, operation, _COUNT_SCRIPT, folder, _normalize_folder(folder), stdin=b"") as script:
        frames = Frames(script.stdout, operation)
        frames.next()
    match [field.strip() for field in frames.end]:
        case [count, size] if re.fullmatch(_SIZE, count) and re.fullmatch(_SIZE, size):
            return int(count), int(size)
    raise BrokenConnectionError(f"the {operation} printed {_shorten(frames.end)}")


def tree_total(tree: Tree) -> tuple[int, int]:
    """Return what `volume_total` returns for a folder with such a tree."""
    sizes = [state.size for name, state in tree.files.items() if f"/{PARTIAL}/" not in f"/{name}"]
    return len(sizes), sum(sizes)


def volume_digests(loader: Loader, folder: str, files: Mapping[str, Stat]) -> dict[str, str]:
    """Return the sha256 of each file that exists and can be read. Raises BrokenConnectionError."""
    digests: dict[str, str] = {}
    if not files:
        return digests
    large = [name for name, state in files.items() if state.size >= _LARGE_FILE_BYTES]
    small = [name for name, state in files.items() if state.size < _LARGE_FILE_BYTES]
    operation = "check of the volume's files"
    total = sum(state.size for state in files.values())
    with loader.progress.bar(f"checking {len(files)} files on the volume", total) as advance:
        for names, batch_size in ((small, _BATCH_SIZE), (large, 1)):
            if not names:
                continue
            stdin = encode_names(f"./{name}" for name in names)
            with run_script(loader, operation, _HASH_SCRIPT, folder, str(batch_size), stdin=stdin) as script:
                frames = Frames(script.stdout, operation)
                for frame in frames:
                    for name, match in _match_lines(frame, _SUM_LINE):
                        if name not in files:
                            raise BrokenConnectionError(
                                f"the {operation} has {_shorten(name)}, which was not requested"
                            )
                        digests[name] = match["digest"]
                        advance(files[name].size)
            if frames.end != [str(len(names))]:
                raise BrokenConnectionError(f"the {operation} ended after {_shorten(frames.end)} of {len(names)} names")
    return digests


def volume_contents(loader: Loader, folder: str, names: Sequence[str]) -> dict[str, bytes]:
    """Read each file that exists. Raises TransferError if one cannot be read, and BrokenConnectionError."""
    operation, contents = "reading of the volume's files", dict[str, bytes]()
    with run_script(
        loader, operation, _CONTENTS_SCRIPT, folder, stdin=encode_names(f"./{name}" for name in names)
    ) as script:
        frames = Frames(script.stdout, operation)
        for frame in frames:
            match frame:
                case [name, content, "0"] if _relative_name(name) in names:
                    contents[_relative_name(name)] = decode_base64(content, operation)
                case [name, _, status] if status != "0":
                    raise TransferError(
                        f"{_relative_name(name)!r} in {folder} on the volume cannot be read (exit {status})"
                    )
                case _:
                    raise BrokenConnectionError(f"the {operation} has {_shorten(frame[0])}, which was not requested")
        if frames.end != [str(len(names))]:
            raise BrokenConnectionError(f"the {operation} ended after {_shorten(frames.end)} of {len(names)} names")
    return contents


def raise_for_same_files(loader: Loader, folder: str, names: Collection[str], listed: Mapping[str, Stat]) -> None:
    """Raise TransferError if two sent files are the same file on the volume, or if one is missing there.

    The volume's file system may ignore a difference between their names, or a link on the volume may lead from one to
    the other. Then at most one of them is `listed`.
    """
    hidden = [name for name in names if name not in listed]
    if not hidden:
        return
    names_by_inode = {_inode(listed[name]): name for name in names if name in listed}
    states = _read_stats(loader, folder, hidden)
    for name in hidden:
        if name not in states:
            raise TransferError(f"{name!r} in {folder} on the volume was deleted or renamed during the upload")
        first_name = names_by_inode.setdefault(_inode(states[name]), name)
        if first_name != name:
            raise TransferError(
                f"{first_name!r} and {name!r} are one file in {folder} on the volume, because its file system ignores "
                "the difference of their names, or because of a link there; one of them was lost. Rename one of them "
                "and run the command again"
            )


def _inode(state: Stat) -> str:
    return state.stamp.partition(",")[0]


def _read_stats(loader: Loader, folder: str, names: Collection[str]) -> dict[str, Stat]:
    """Return the state of existing files, also of those behind a link on the volume."""
    operation, stats = "check of the volume's files", dict[str, Stat]()
    with run_script(
        loader, operation, _STATS_SCRIPT, folder, stdin=encode_names(f"./{name}" for name in names)
    ) as script:
        frames = Frames(script.stdout, operation)
        for frame in frames:
            for name, match in _match_lines(frame, _STAT_LINE):
                stats[name] = Stat(size=int(match["size"]), stamp=match["stamp"])
        if frames.end != [str(len(names))]:
            raise BrokenConnectionError(f"the {operation} ended after {_shorten(frames.end)} of {len(names)} names")
    return stats


def raise_for_unreadable(loader: Loader, folder: str, files: Mapping[str, Stat]) -> None:
    """Raise TransferError if one of the files, which exist but have no digest, cannot be read."""
    digests = volume_digests(loader, folder, files)
    if names := [name for name in files if name not in digests]:
        raise TransferError(
            f"{len(names)} files in {folder} on the volume cannot be read, for example {names[0]!r}. Complete files "
            "are kept; make these readable for the data loader's user, or check the disk, and run the same command "
            "again"
        )


def list_files(loader: Loader, path: str) -> dict[str, dict[str, str | int]]:
    """Return the sha256 and size of each file in a folder of the volume, or of the one file, by relative path.

    Raises TransferError if the list is incomplete or a file cannot be read.
    """

    def attempt() -> dict[str, dict[str, str | int]]:
        tree = volume_tree(loader, path)
        if tree.special_files:
            loader.progress.warn(f"  {special_files_warning(tree, 'listed')}")
        if tree.parts:
            example = f"{path.rstrip('/')}/{next(iter(tree.parts)).rpartition('/')[0]}"
            loader.progress.warn(
                f"  {decimal(sum(tree.parts.values()))} of incomplete uploads exist, for example in {example}; the "
                "same uploads resume from them. To discard them, delete that folder in a pod that mounts the volume"
            )
        folder = parent_folder(path) if tree.kind == "file" else path
        digests = volume_digests(loader, folder, tree.files)
        if missing := [name for name in tree.files if name not in digests]:
            current_files = volume_tree(loader, path).files
            raise_for_unreadable(
                loader, folder, {name: current_files[name] for name in missing if name in current_files}
            )
        return {name: {"sha256": digest, "size": tree.files[name].size} for name, digest in digests.items()}

    return run_with_retries(loader, attempt, lambda: 0)


def special_files_warning(tree: Tree, verb: str) -> str:
    """Return the warning that links and special files are not fetched or listed (`verb`)."""
    return f"{len(tree.special_files)} links or special files are not {verb}, for example {tree.special_files[0]!r}"


def parent_folder(path: str) -> str:
    return str(PurePosixPath(path.strip("/") or ".").parent)


def differing_names(expected: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    return [name for name in expected if digests.get(name) != expected[name]]


def damaged_error(names: Sequence[str], where: str) -> BrokenConnectionError:
    return BrokenConnectionError(f"{len(names)} files in {where} were damaged in transit, for example {names[0]!r}")


def _normalize_folder(folder: str) -> str:
    """Return the folder in the form that the scripts compare; `.` is the root of the volume."""
    return str(PurePosixPath(folder.strip("/") or "."))


def _relative_name(name: str) -> str:
    return name.removeprefix("./")


def _shorten(value: object) -> str:
    """Return a data loader's output for a message; the output may be of any length."""
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _match_lines(frame: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield each name of a frame with the match of its line; the lines precede the names."""
    lines, names = frame[0].split("\n") if frame else [], frame[1:]
    if len(lines) != len(names):
        raise BrokenConnectionError(
            f"received {len(lines)} lines for {len(names)} files of the volume, for example {_shorten(names[:1])}"
        )
    for name, line in zip(names, lines, strict=True):
        match = pattern.match(line)
        if match is None:
            raise BrokenConnectionError(f"the data loader printed {_shorten(line)} for {_shorten(name)}")
        yield _relative_name(name), match
