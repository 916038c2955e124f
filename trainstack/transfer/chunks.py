"""Transfer of large files in chunks that both sides verify by sha512; it resumes after the last valid chunk.

An incomplete file is a part in the folder PARTIAL. The name of a part is derived from the name and state of its file,
so different states are never mixed. Two commands may send the same file to a volume at once: a command renames a part
before it writes to it, so that others do not find it, and renames it back afterwards.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO

from trainstack.transfer.attempts import Transfer
from trainstack.transfer.errors import BrokenConnectionError
from trainstack.transfer.frames import END_COMMAND, SHELL_FUNCTIONS, Frames, encode_names
from trainstack.transfer.local_files import PARTIAL, LocalTarget, Stat, changed_error, read_stat
from trainstack.transfer.pod_script import KILLED_EXIT_CODE, PodScript, run_script

BIG_FILE_BYTES = 64 << 20
"""The minimum size, in bytes, of files that are sent in chunks; a smaller file is sent again as a whole."""
CHUNK_BYTES = 16 << 20
"""The size of a chunk in bytes. At most two are sent again after an interruption; each costs the pod three programs."""

_IDLE_MINUTES = 1
"""A part that has not been written for longer is abandoned, and another command may take it."""
_BLOCK_BYTES = 1 << 20
# Digests of chunks are not stored. busybox 1.35 computes sha512 in 60% of the time of sha256.
_new_digest = hashlib.sha512
_DIGEST_LINE = re.compile(rb"^([0-9a-f]{128})  -$", re.MULTILINE)
# The encoded name of the file is the first line of the input, since kubectl's arguments must be text.
_READ_FUNCTIONS = f"""{SHELL_FUNCTIONS}
read_() {{ dd if="$1" bs=1M iflag=skip_bytes,count_bytes,fullblock skip="$2" count="$3" status=none; }}
set -e
cd "$1"
"""
# The chunk size is the last argument. The digest of a chunk is a frame.
_CHUNK_FUNCTIONS = f"""{_READ_FUNCTIONS}
for chunk; do :; done
next() {{ count=$(($2 - $1)); if [ $count -gt $chunk ]; then count=$chunk; fi; }}
sum() {{ line=$(read_ "$@" | sha512sum); frame sum "${{line%% *}}"; }}
"""
_CHECK_OPERATION = "check of the existing data"
_DIGEST_LOOP = f"""if [ ! -f "$name" ]; then {END_COMMAND}; exit; fi
have=$(stat -c %s "$name") offset=0
while [ $offset -lt "$2" ]; do
  next $offset "$2"
  keep
  if [ $((offset + count)) -gt "$have" ]; then break; fi
  sum "$name" $offset $count
  offset=$((offset + count))
done
{END_COMMAND}
"""
# The digests of the complete chunks of a file of size $2.
_CHECK_SCRIPT = f"""{_CHUNK_FUNCTIONS}
keep() {{ :; }}
read_name
{_DIGEST_LOOP}"""
# The same for the part $3 after renaming it to $3.$4. Candidates are a released part, one of an earlier attempt of this
# command, and an abandoned one. touch comes first, so that the part does not seem abandoned.
_CLAIM_SCRIPT = f"""{_CHUNK_FUNCTIONS}
if ! cd {PARTIAL} 2>/dev/null; then {END_COMMAND}; exit; fi
name=$3.$4
keep() {{ touch -c "$name"; }}
for part in "$3" "$3.${{4%-*}}"-* $(find . -name "$3.*" -mmin +{_IDLE_MINUTES}); do
  if [ -f "$part" ] && touch -c "$part" && mv "$part" "$name" 2>/dev/null; then break; fi
done
{_DIGEST_LOOP}"""
# While a chunk arrives, the previous one is read back and hashed. `whole` is the sender's confirmation that all digests
# match. If the part was deleted or replaced, another command has taken it, and dd would create a file with a hole: the
# script then exits as if it were killed, so that a new attempt is made. The same applies to the end of the input. When
# the file is complete, its abandoned parts are deleted.
_UPLOAD_SCRIPT = f"""mkdir -p "$1/{PARTIAL}"
{_CHUNK_FUNCTIONS}
size=$2 offset=$3 free={PARTIAL}/$4 part={PARTIAL}/$4.$5 time=$6
read_name
if [ "$offset" = 0 ]; then : > "$part"; fi
truncate -c -s "$offset" "$part"
inode=$(stat -c %i "$part") || exit {KILLED_EXIT_CODE}
ensure_owned() {{ if [ "$(stat -c %i "$part" 2>/dev/null)" != "$inode" ]; then exit {KILLED_EXIT_CODE}; fi; }}
trap 'if [ -f "$part" ] && [ ! -e "$free" ]; then mv "$part" "$free"; fi' EXIT
while [ "$offset" -lt "$size" ]; do
  next "$offset" "$size"
  ensure_owned
  dd of="$part" bs=1M iflag=count_bytes,fullblock oflag=seek_bytes count=$count seek="$offset" conv=notrunc status=none
  wait
  sum "$part" "$offset" $count &
  offset=$((offset + count))
  ensure_owned
  if [ "$(stat -c %s "$part")" -lt "$offset" ]; then exit {KILLED_EXIT_CODE}; fi
done
wait
IFS= read -r confirmation || true
if [ "$confirmation" != whole ]; then exit {KILLED_EXIT_CODE}; fi
mkdir -p "${{name%/*}}"
if [ -h "$name" ]; then rm -f "$name"; fi
if [ -d "$name" ]; then echo "$name is a folder on the volume, not a file; rename one of them" >&2; exit 1; fi
ensure_owned
touch -d "@$time" "$part"
mv -f "$part" "$name"
for old in "${{free%-*}}"-*; do case $old in */*.*) ;; *) rm -f "$old";; esac; done
find {PARTIAL} -name "${{4%-*}}-*" -mmin +{_IDLE_MINUTES} -exec rm -f {{}} + 2>/dev/null || true
rmdir {PARTIAL} 2>/dev/null || true
{END_COMMAND}
"""
# stdout has the bytes as fast as the reader accepts them; stderr, to which kubectl may print too, has their digest. If
# that differs, the next attempt compares each chunk.
_FETCH_SCRIPT = f"""{_READ_FUNCTIONS}
read_name
offset=$3 count=$(($2 - $3))
digest() {{ read_ "$name" "$offset" $count | sha512sum >&2; }}
digest &
read_ "$name" "$offset" $count
wait
"""


def part_name(name: str, state: Stat) -> str:
    digests = hashlib.sha256(os.fsencode(name)), hashlib.sha256(f"{state.size} {state.stamp}".encode())
    return "-".join(digest.hexdigest()[:32] for digest in digests)


def has_part(name: str, state: Stat, parts: Collection[str]) -> bool:
    """Return whether the volume has a part of a file; parts that another command writes count too."""
    path = f"{PARTIAL}/{part_name(name, state)}"
    return any(part == path or part.startswith(f"{path}.") for part in parts)


def claim_part(transfer: Transfer, path: Path, folder: str, name: str, state: Stat, owner: str) -> int:
    """Rename the volume's part of a file for an owner; return the number of leading bytes that equal the local file.

    `owner` is the id of the command, a dash, and the number of its attempt. Only the owner writes to the part.

    Raises TransferError and BrokenConnectionError.
    """
    arguments = (str(state.size), part_name(name, state), owner, str(CHUNK_BYTES))
    with (
        path.open("rb") as file,
        run_script(transfer.loader, _CHECK_OPERATION, _CLAIM_SCRIPT, folder, *arguments, stdin=b"") as script,
    ):
        return _equal_bytes(transfer, file, script, state.size)


def send(transfer: Transfer, path: Path, folder: str, name: str, state: Stat, owner: str, offset: int) -> None:
    """Send a file from an offset; the volume renames the owner's part to `name` when all chunks are verified.

    Raises TransferError if the file changes meanwhile, and BrokenConnectionError.
    """
    modified = str(int(path.stat().st_mtime))
    arguments = (str(state.size), str(offset), part_name(name, state), owner, modified, str(CHUNK_BYTES))
    with path.open("rb") as file, run_script(transfer.loader, "upload", _UPLOAD_SCRIPT, folder, *arguments) as script:
        file.seek(offset)
        stdin, frames = script.stdin, Frames(script.stdout, "response to the upload")
        stdin.write(encode_names([f"./{name}"]))
        expected_digest = ""
        for count in _chunk_sizes(offset, state.size):
            digest = _new_digest()
            for data in _blocks(file, count):
                digest.update(data)
                stdin.write(data)
                transfer.add_sent(len(data))
            stdin.flush()
            # One chunk late: the pod hashes a chunk while the next one is on its way.
            if expected_digest:
                _expect_digest(frames, expected_digest, name)
                transfer.record_offset(name, offset)
            expected_digest, offset = digest.hexdigest(), offset + count
        if expected_digest:
            _expect_digest(frames, expected_digest, name)
        if read_stat(path) != state:
            raise changed_error(path)
        stdin.write(b"whole\n")
        stdin.flush()
        if frame := frames.next():
            raise BrokenConnectionError(f"the loader sent {frame} after the last chunk")


def receive(transfer: Transfer, folder: str, target: LocalTarget, partial: Path, name: str, state: Stat) -> None:
    """Fetch a file; `partial` holds its part meanwhile. Raises TransferError, BrokenConnectionError and OSError."""
    target.prepare_path(name)
    part = partial / part_name(name, state)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    offset, stdin = 0, encode_names([f"./{name}"])
    if part_bytes := part.stat().st_size:
        # A limit on the compared bytes: the pod would otherwise hash the whole file.
        end = part_bytes if part_bytes == state.size else part_bytes // CHUNK_BYTES * CHUNK_BYTES
        with (
            part.open("rb") as file,
            run_script(
                transfer.loader, _CHECK_OPERATION, _CHECK_SCRIPT, folder, str(end), str(CHUNK_BYTES), stdin=stdin
            ) as script,
        ):
            offset = _equal_bytes(transfer, file, script, state.size)
    with (
        part.open("r+b") as file,
        run_script(
            transfer.loader, "fetch", _FETCH_SCRIPT, folder, str(state.size), str(offset), stdin=stdin
        ) as script,
    ):
        file.seek(offset)
        digest = _new_digest()
        for count in _chunk_sizes(offset, state.size):
            for data in _blocks(script.stdout, count):
                digest.update(data)
                file.write(data)
                transfer.add_sent(len(data))
            offset += count
            transfer.record_offset(name, offset)
        file.truncate()
        # stderr is complete when kubectl exits.
        script.process.wait()
        script.stderr.seek(0)
        if [match.decode() for match in _DIGEST_LINE.findall(script.stderr.read())] != [digest.hexdigest()]:
            raise _damaged_error(name)
    target.rename(part, name)


def _chunk_sizes(offset: int, size: int) -> Iterator[int]:
    while offset < size:
        yield min(CHUNK_BYTES, size - offset)
        offset += CHUNK_BYTES


def _blocks(file: BufferedReader, count: int) -> Iterator[memoryview]:
    """Yield the next bytes of a file in one buffer, which the next block overwrites."""
    block = memoryview(bytearray(_BLOCK_BYTES))
    while count:
        data = block[: file.readinto(block[: min(count, _BLOCK_BYTES)])]
        if not data:
            raise BrokenConnectionError("the data ended early")
        yield data
        count -= len(data)


def _expect_digest(frames: Frames, digest: str, name: str) -> None:
    if frames.next() != ["sum", digest]:
        raise _damaged_error(name)


def _damaged_error(name: str) -> BrokenConnectionError:
    return BrokenConnectionError(f"a chunk of {name!r} was damaged in transit")


def _equal_bytes(transfer: Transfer, file: IO[bytes], script: PodScript, size: int) -> int:
    """Return the number of leading bytes of a local file whose chunks have the digests that the loader sends."""
    offset = 0
    for count, frame in zip(_chunk_sizes(0, size), Frames(script.stdout, _CHECK_OPERATION), strict=False):
        if ["sum", _new_digest(file.read(count)).hexdigest()] != frame:
            break
        offset += count
        transfer.advance(count)
    transfer.add_resumed(offset)
    return offset
