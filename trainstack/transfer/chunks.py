"""Big files, in chunks: each is checked by sha256 on both sides, and a file goes on behind the last one that is whole.

What has arrived lies in the folder PARTIAL, under a name made of the file's and of which state of it that is, so two
states are never mixed. Two commands may send the same file to a volume at once: who writes to a part first gives it a
name of its own, so that the other finds none, and afterwards gives it back.
"""

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trainstack.cli.console import fail
from trainstack.transfer.frames import END, FUNCTIONS, Frames, asked
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import PARTIAL, Stat, inside, stat
from trainstack.transfer.pod_script import KILLED, BrokenConnectionError, Running, running

BIG = 64 << 20
"""Bytes from which on a file goes in chunks; what is smaller is sent again whole."""
CHUNK = 16 << 20
"""At most two of them are sent again after a break. The far side starts three programs for each."""

_IDLE_MINUTES = 1
"""Whoever has not touched a part of his for longer is taken for dead, and another may take it."""
_SLICE = 1 << 20
_SUM = re.compile(rb"^([0-9a-f]{64})  -$", re.MULTILINE)
# The name is the first line of the input, in the form of `asked`: kubectl's arguments have to be text. A chunk's size
# is the last word. The digest of a chunk is a frame.
_LOOP = f"""{FUNCTIONS}
for chunk; do :; done
next() {{ count=$(($2 - $1)); if [ $count -gt $chunk ]; then count=$chunk; fi; }}
read_() {{ dd if="$1" bs=1M iflag=skip_bytes,count_bytes,fullblock skip="$2" count="$3" status=none; }}
sum() {{ told=$(read_ "$@" | sha256sum); frame sum "${{told%% *}}"; }}
set -e
cd "$1"
"""
_WHAT = "check of what is there already"
_SUMS = f"""if [ ! -f "$name" ]; then {END}; exit; fi
have=$(stat -c %s "$name") offset=0
while [ $offset -lt "$2" ]; do
  next $offset "$2"
  keep
  if [ $((offset + count)) -gt "$have" ]; then break; fi
  sum "$name" $offset $count
  offset=$((offset + count))
done
{END}
"""
# The digests of those chunks of a file of size $2 that are wholly there.
_CHECK = f"""{_LOOP}
keep() {{ :; }}
read_name
{_SUMS}"""
# The same of the part $3, once it has the name $3.$4: one that was given back, that of an earlier try of this command,
# or a dead one's. Touched first, since it must not seem dead itself.
_CLAIM = f"""{_LOOP}
if ! cd {PARTIAL} 2>/dev/null; then {END}; exit; fi
name=$3.$4
keep() {{ touch -c "$name"; }}
for each in "$3" "$3.${{4%-*}}"-* $(find . -name "$3.*" -mmin +{_IDLE_MINUTES}); do
  if [ -f "$each" ] && touch -c "$each" && mv "$each" "$name" 2>/dev/null; then break; fi
done
{_SUMS}"""
# While one chunk arrives the one before it is read back and hashed. `whole` is the sender's word that all digests are
# right. A part that is gone, or another, was taken by somebody else: dd would begin it anew, with a hole. It ends as if
# killed where its input does, so that another try is made. With the file done, its other parts are of no use: those
# that nobody writes to are removed.
_TAKE = f"""mkdir -p "$1/{PARTIAL}"
{_LOOP}
size=$2 offset=$3 free={PARTIAL}/$4 part={PARTIAL}/$4.$5 time=$6
read_name
if [ "$offset" = 0 ]; then : > "$part"; fi
truncate -c -s "$offset" "$part"
inode=$(stat -c %i "$part") || exit {KILLED}
ours() {{ if [ "$(stat -c %i "$part" 2>/dev/null)" != "$inode" ]; then exit {KILLED}; fi; }}
trap 'if [ -f "$part" ] && [ ! -e "$free" ]; then mv "$part" "$free"; fi' EXIT
while [ "$offset" -lt "$size" ]; do
  next "$offset" "$size"
  ours
  dd of="$part" bs=1M iflag=count_bytes,fullblock oflag=seek_bytes count=$count seek="$offset" conv=notrunc status=none
  wait
  sum "$part" "$offset" $count &
  offset=$((offset + count))
  ours
  if [ "$(stat -c %s "$part")" -lt "$offset" ]; then exit {KILLED}; fi
done
wait
IFS= read -r said || true
if [ "$said" != whole ]; then exit {KILLED}; fi
mkdir -p "${{name%/*}}"
if [ -h "$name" ]; then rm -f "$name"; fi
if [ -d "$name" ]; then echo "$name is a folder on the volume, so no file can be" >&2; exit 1; fi
ours
touch -d "@$time" "$part"
mv -f "$part" "$name"
for each in "${{free%-*}}"-*; do case $each in */*.*) ;; *) rm -f "$each";; esac; done
find {PARTIAL} -name "${{4%-*}}-*" -mmin +{_IDLE_MINUTES} -exec rm -f {{}} + 2>/dev/null || true
rmdir {PARTIAL} 2>/dev/null || true
{END}
"""
# The bytes on one output, as many as the reader has asked for, and, as fast as they come, their digests on the other,
# where kubectl may print too.
_GIVE = f"""{_LOOP}
read_name
chunks() {{
  offset=$1
  while [ "$offset" -lt "$2" ]; do
    next "$offset" "$2"
    "$3" "$name" "$offset" $count
    offset=$((offset + count))
  done
}}
digest() {{ read_ "$@" | sha256sum >&2; }}
chunks "$3" "$2" digest &
chunks "$3" "$2" read_
wait
"""


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Who wants to know how far a file is."""

    compared: Callable[[int], None]
    """So many more bytes are there already, and the same."""
    resumed: Callable[[int], None]
    """The file goes on behind so many bytes."""
    sent: Callable[[int], None]
    """So many more went through the connection."""
    reached: Callable[[str, int], None]
    """The file of this name has come to this offset."""


def key(name: str, state: Stat) -> str:
    """What the part of a file is called: by its name, and by its state."""
    which = hashlib.sha256(os.fsencode(name)), hashlib.sha256(f"{state.size} {state.stamp}".encode())
    return "-".join(each.hexdigest()[:32] for each in which)


def begun(name: str, state: Stat, there: Collection[str]) -> bool:
    """Whether the volume holds a part of a file, whoever writes to it."""
    part = f"{PARTIAL}/{key(name, state)}"
    return any(each == part or each.startswith(f"{part}.") for each in there)


def resumable(loader: Loader, path: Path, folder: str, name: str, state: Stat, taker: str, meter: Meter) -> int:
    """How many bytes of a file of this machine are on the volume already, each chunk compared.

    The part is the taker's then: the name of the command, a dash, and the number of its try. None is there for others
    than the one who writes to it.

    Raises BrokenConnectionError.
    """
    words = (str(state.size), key(name, state), taker, str(CHUNK))
    with path.open("rb") as file, running(loader, _WHAT, _CLAIM, folder, *words, given=b"") as script:
        return _same(file, script, state.size, meter)


def send(
    loader: Loader, path: Path, folder: str, name: str, state: Stat, taker: str, offset: int, meter: Meter
) -> None:
    """Send a file from this offset of the taker's part on; it gets its name when every chunk is what was read here.

    Ends the command when the file was changed meanwhile. Raises BrokenConnectionError.
    """
    words = (str(state.size), str(offset), key(name, state), taker, str(int(path.stat().st_mtime)), str(CHUNK))
    with path.open("rb") as file, running(loader, "upload", _TAKE, folder, *words) as script:
        file.seek(offset)
        told, heard = script.input, Frames(script.output, "answer to the upload")
        told.write(asked([f"./{name}"]))
        due = ""
        for count in _chunks(offset, state.size):
            digest = hashlib.sha256()
            for data in _slices(file, count):
                digest.update(data)
                told.write(data)
                meter.sent(len(data))
            told.flush()
            if due:
                _expect(heard, due, name)
                meter.reached(name, offset)
            due, offset = digest.hexdigest(), offset + count
        if due:
            _expect(heard, due, name)
        if stat(path) != state:
            fail(f"{str(path)!r} was changed while it was sent; run the same command again when nobody writes to it")
        told.write(b"whole\n")
        told.flush()
        if found := heard.next():
            raise BrokenConnectionError(f"the loader sent {found} after the last chunk")


def receive(loader: Loader, folder: str, target: Path, partial: Path, name: str, state: Stat, meter: Meter) -> None:
    """Fetch a file of the volume, through a folder for what has not arrived whole.

    Raises BrokenConnectionError, OSError.
    """
    part = partial / key(name, state)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    offset, given = 0, asked([f"./{name}"])
    if have := part.stat().st_size:
        # Only as many as there are here, or the far side would read all of it.
        end = have if have == state.size else have // CHUNK * CHUNK
        compared = (str(end), str(CHUNK))
        with part.open("rb") as file, running(loader, _WHAT, _CHECK, folder, *compared, given=given) as script:
            offset = _same(file, script, state.size, meter)
    words = (str(state.size), str(offset), str(CHUNK))
    with part.open("r+b") as file, running(loader, "fetch", _GIVE, folder, *words, given=given) as script:
        file.seek(offset)
        digests = []
        for count in _chunks(offset, state.size):
            digest = hashlib.sha256()
            for data in _slices(script.output, count):
                digest.update(data)
                file.write(data)
                meter.sent(len(data))
            digests.append(digest.hexdigest())
            offset += count
            meter.reached(name, offset)
        file.truncate()
        # kubectl has told all that it had to tell when it ends.
        script.process.wait()
        script.errors.seek(0)
        if [each.decode() for each in _SUM.findall(script.errors.read())] != digests:
            raise BrokenConnectionError(f"a part of {name!r} is not what was sent")
    path = inside(target, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    part.replace(path)


def _chunks(offset: int, size: int) -> Iterator[int]:
    """The sizes of the chunks from an offset on."""
    while offset < size:
        yield min(CHUNK, size - offset)
        offset += CHUNK


def _slices(file: IO[bytes], count: int) -> Iterator[bytes]:
    while count:
        data = file.read(min(count, _SLICE))
        if not data:
            raise BrokenConnectionError("there is less of it than there was")
        yield data
        count -= len(data)


def _expect(heard: Frames, digest: str, name: str) -> None:
    """Read the loader's digest of a chunk. Raises BrokenConnectionError."""
    if heard.next() != ["sum", digest]:
        raise BrokenConnectionError(f"a part of {name!r} is not what was sent")


def _same(file: IO[bytes], script: Running, size: int, meter: Meter) -> int:
    """How many bytes from the beginning on are, chunk by chunk, those of which the loader has sent the digests."""
    offset = 0
    for count, told in zip(_chunks(0, size), Frames(script.output, _WHAT), strict=False):
        if ["sum", hashlib.sha256(file.read(count)).hexdigest()] != told:
            break
        offset += count
        meter.compared(count)
    meter.resumed(offset)
    return offset
