"""What a folder of a volume holds, as scripts in a data loader's pod list, count and hash it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from trainstack.cli.console import fail
from trainstack.cli.progress import bar
from trainstack.transfer.frames import END, FUNCTIONS, Frames, asked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import PARTIAL, Stat, Tree, is_part
from trainstack.transfer.pod_script import KILLED, BrokenConnectionError, running

T = TypeVar("T")
LOST = "lost+found"
_STAT_LINE = re.compile(r"(?P<size>[0-9]+) (?P<stamp>[0-9]+,-?[0-9]+,-?[0-9]+)")
_SUM_LINE = re.compile(r"\\?(?P<digest>[0-9a-f]{64}) ")

# lost+found, at the root of some volumes, is root's alone; where it may be read it is a folder like any other.
_PRUNED = f"""set --
if [ "$top" = . ] && [ -d {LOST} ] && ! {{ [ -r {LOST} ] && [ -x {LOST} ]; }}; then set -- -path ./{LOST} -prune -o; fi
"""
_XARGS = "xargs -0 -r -s 65536"
"""Batches far below the kernel's limit. busybox 1.35's `find -exec sh -c … {} +` exceeds it when there are 2 MiB of
names and the environment is larger than usual, and loses the batch without a message or an exit status."""
_STAT = "%s %i,%Y,%Z"
# A batch of names and what `stat` prints of it, a line for each name, are one frame; where `stat` fails on one, every
# name is asked about alone. Names begin with `./`, so that none looks like an option.
_FILES = f"""{FUNCTIONS}
if told=$(stat -c "{_STAT}" "$@" 2>/dev/null); then frame files "$told" "$@"; exit; fi
for each; do
  if told=$(stat -c "{_STAT}" "$each" 2>&1); then frame files "$told" "$each"; else frame fault "$told"; fi
done
"""
_NAMES = f"""{FUNCTIONS}
frame "$0" "$@"
"""
# What programs print on their second output is a frame too: only there it is not mixed with kubectl's own words.
_LIST = f"""{FUNCTIONS}
top=$2
found() {{ find . "$@" -print0 || {{ code=$?; [ $code -lt {KILLED} ] || echo "find ended with $code" >&2; }}; }}
batches() {{ {_XARGS} "$@" >&3 || echo "xargs ended with $?" >&2; }}
if [ -d "$1" ]; then
  cd "$1" || exit
  frame folder
  {_PRUNED}
  exec 3>&1
  faults=$({{
    found "$@" -type f | batches sh -c '{_FILES}' sh
    found "$@" -type d | batches sh -c '{_NAMES}' folders
    found "$@" ! -type f ! -type d | batches sh -c '{_NAMES}' others
  }} 2>&1)
  if [ -n "$faults" ]; then frame faults "$faults"; fi
elif [ -f "$1" ]; then
  cd "${{1%/*}}" || exit
  frame file
  told=$(stat -c "{_STAT}" "./${{1##*/}}") || exit
  frame files "$told" "./${{1##*/}}"
fi
{END}
"""
_GONE = ("No such file or directory", "Stale file handle")
"""How the message ends of a file that another program has removed, or given another name, since its name was read."""
# Without names and frames for each: what the list is compared with has to be found by other means.
_COUNT = f"""{FUNCTIONS}
top=$2
sum() {{ total=0; while read -r size; do total=$((total + size)); done; echo "$total"; }}
if [ -d "$1" ]; then
  cd "$1" || exit
  {_PRUNED}
  found() {{ find . "$@" -type f ! -path "*/{PARTIAL}/*" -print0; }}
  {END} "$(found "$@" | tr -cd "\\0" | wc -c)" "$(found "$@" | {_XARGS} stat -c %s | sum)"
else
  {END} 1 "$(stat -c %s "$1")"
fi
"""
_BATCH = 50
"""Ten thousand names are too many for a command line."""
_LARGE = 16 << 20
"""Bytes from which on files are hashed one by one, so that the bar moves after each."""
# The lines of sha256sum are used by their number: a name that has a line break is read from its input instead. A file
# that is gone meanwhile, or cannot be read, has no digest.
_HASH = f"""{FUNCTIONS}
cd "$1" || exit
batch=$2 asked=0
sums() {{
  if told=$(sha256sum "$@" </dev/null 2>/dev/null); then frame "$told" "$@"; return; fi
  for each; do if told=$(sha256sum "$each" </dev/null); then frame "$told" "$each"; fi; done
}}
set --
while read_name; do
  asked=$((asked + 1))
  if [ ! -f "$name" ]; then continue; fi
  case $name in
    *"
"*) if told=$(sha256sum <"$name"); then frame "$told" "$name"; fi;;
    *) set -- "$@" "$name";;
  esac
  if [ $# -ge "$batch" ]; then sums "$@"; set --; fi
done
if [ $# -gt 0 ]; then sums "$@"; fi
{END} "$asked"
"""


@dataclass(kw_only=True)
class _Listed:
    """The frames of a list, by what they are."""

    kind: Literal["folder", "file", "nothing"] = "nothing"
    files: dict[str, Stat] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Messages of programs, of a line or several, without those about files that are gone meanwhile."""

    def take(self, what: str, told: Sequence[str]) -> None:
        """Add a frame. Raises BrokenConnectionError where it is none of a list."""
        match what:
            case "folder" | "file":
                self.kind = "folder" if what == "folder" else "file"
            case "files":
                self.files.update(_batch(told, _stat))
            case "folders":
                self.folders += [_plain(name) for name in told if name != "."]
            case "others":
                self.others += map(_plain, told)
            case "fault":
                self.faults += [message for message in told if not message.endswith(_GONE)]
            case "faults":
                lines = [line for message in told for line in message.split("\n")]
                self.faults += [line for line in lines if not line.endswith(_GONE)]
            case _:
                raise BrokenConnectionError(f"the list of the volume's files contains an unknown frame, {what!r}")

    def tree(self) -> Tree:
        """What is listed, with parts of unfinished uploads apart from files."""
        parts = {name: state.size for name, state in self.files.items() if is_part(name)}
        files = {name: state for name, state in self.files.items() if name not in parts}
        folders = self.folders
        if emptied := {name for name in folders if name.rpartition("/")[2] == PARTIAL}:
            # What holds nothing but parts is no folder of the user's.
            emptied -= {str(each) for name in (*files, *self.others) for each in PurePosixPath(name).parents}
            folders = [name for name in folders if name not in emptied]
        return Tree(files=files, folders=tuple(folders), others=tuple(self.others), parts=parts, kind=self.kind)


def remote(loader: Loader, folder: str) -> Tree:
    """What a folder of the volume holds; nothing where it does not exist.

    What goes meanwhile may be in it or not. Ends the command when something cannot be listed. Raises
    BrokenConnectionError.
    """
    what, listed = f"list of the volume's files in {folder}", _Listed()
    with running(loader, what, _LIST, folder, _top(folder), given=b"") as script:
        for kind, *told in Frames(script.output, what):
            listed.take(kind, told)
    if listed.faults:
        fail(
            f"not all of {folder} on the volume can be listed: {listed.faults[0]}. Fix the cause and run the command "
            "again"
        )
    return listed.tree()


def remote_total(loader: Loader, folder: str) -> tuple[int, int]:
    """The number of regular files below a folder of the volume, or of the one file, and the sum of their bytes.

    Counted apart from the list of `remote`, and without names; what lies in folders called PARTIAL is left out. Raises
    BrokenConnectionError.
    """
    what = f"count of the volume's files in {folder}"
    with running(loader, what, _COUNT, folder, _top(folder), given=b"") as script:
        frames = Frames(script.output, what)
        frames.next()
    match [field.strip() for field in frames.end]:
        case [count, size] if count.isdecimal() and size.isdecimal():
            return int(count), int(size)
    raise BrokenConnectionError(f"the {what} printed {frames.end}")


def total(tree: Tree) -> tuple[int, int]:
    """What `remote_total` has to find where a folder holds such a tree."""
    sizes = [each.size for name, each in tree.files.items() if f"/{PARTIAL}/" not in f"/{name}"]
    return len(sizes), sum(sizes)


def remote_digests(loader: Loader, folder: str, files: Mapping[str, Stat]) -> dict[str, str]:
    """The sha256 of those of the files that are there, by their paths. Raises BrokenConnectionError."""
    found: dict[str, str] = {}
    if not files:
        return found
    large = [name for name, state in files.items() if state.size >= _LARGE]
    small = [name for name, state in files.items() if state.size < _LARGE]
    what = "check of the volume's files"
    with bar(f"checking {len(files)} files on the volume", sum(each.size for each in files.values())) as advance:
        for names, batch in ((small, _BATCH), (large, 1)):
            if not names:
                continue
            given = asked(f"./{name}" for name in names)
            with running(loader, what, _HASH, folder, str(batch), given=given) as script:
                frames = Frames(script.output, what)
                for told in frames:
                    digests = _batch(told, _digest)
                    found.update(digests)
                    advance(sum(files[name].size for name in digests))
            if frames.end != [str(len(names))]:
                raise BrokenConnectionError(f"the {what} ended after {frames.end} of {len(names)} names")
    return found


def unreadable(loader: Loader, folder: str, files: Mapping[str, Stat]) -> list[str]:
    """Which of the files, that had no digest but are still there, have none again. Raises BrokenConnectionError."""
    again = remote_digests(loader, folder, files)
    return [name for name in files if name not in again]


def _top(folder: str) -> str:
    """The folder as the scripts compare it; `.` for the volume itself."""
    return str(PurePosixPath(folder.strip("/") or "."))


def _plain(name: str) -> str:
    return name.removeprefix("./")


def _batch(told: Sequence[str], read: Callable[[str], T]) -> dict[str, T]:
    """What a program has printed of each of several names: its lines, then the names."""
    lines, names = told[0].split("\n"), told[1:]
    if len(lines) != len(names):
        raise BrokenConnectionError(f"{len(lines)} lines about {len(names)} files of the volume, {names[:1]} for one")
    return {_plain(name): read(line) for name, line in zip(names, lines, strict=True)}


def _stat(line: str) -> Stat:
    match = _STAT_LINE.fullmatch(line)
    if match is None:
        raise BrokenConnectionError(f"the loader's stat printed {line!r}")
    return Stat(size=int(match["size"]), stamp=match["stamp"])


def _digest(line: str) -> str:
    # GNU's sha256sum begins a line with a backslash where it escapes the name.
    match = _SUM_LINE.match(line)
    if match is None:
        raise BrokenConnectionError(f"the loader's sha256sum printed {line!r}")
    return match["digest"]
