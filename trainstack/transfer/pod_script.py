"""Shell scripts in a data loader's pod, and their outcome: success, a failure, or a broken connection.

kubectl's exit code is not sufficient: if a program closes its output, the node drops the rest of its input and kubectl
exits with 0 (observed with containerd 1.6). So no script redirects its own output, and each ends with a last frame
(trainstack/transfer/frames.py) or its effect is verified afterwards.
"""

import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from typing import IO, cast

from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.loader import Loader

KILLED_EXIT_CODE = 128
"""The lowest exit code of a script that was stopped from outside; a new attempt may succeed."""
_BLOCK_BYTES = 1 << 20
_STDERR_SECONDS = 5
"""How long kubectl may take to report why it stopped reading or writing."""
_DIGEST_LINES = re.compile(r"^[0-9a-f]{128}  -\n", re.MULTILINE)
"""Lines that a script prints on stderr in addition to errors."""
_EXIT_MESSAGE = re.compile(r"command terminated with exit code (\d+)")
"""kubectl's last line if the script exited with a status other than 0."""
_FORBIDDEN = "Error from server (Forbidden)"


@dataclass(frozen=True, kw_only=True)
class PodScript:
    """A script that runs in a loader's pod."""

    process: "subprocess.Popen[bytes]"
    stdin: IO[bytes]
    stdout: BufferedReader
    stderr: IO[bytes]
    """A temporary file."""


@contextmanager
def run_script(
    loader: Loader, operation: str, script: str, folder: str, *arguments: str, stdin: bytes | None = None
) -> Iterator[PodScript]:
    """Run a script in the loader's pod; its $1 is the path of a folder of the volume, followed by the arguments.

    Without `stdin`, the block writes the script's input. The rest of the script's output is discarded after the block.
    If the block fails, the script is killed: it may wait forever to write output that is not read.

    Raises TransferError if the script failed, and BrokenConnectionError.
    """
    # Files instead of pipes: with pipes, the two programs could wait for each other.
    with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as stdin_file:
        stdin_file.write(stdin or b"")
        stdin_file.seek(0)
        process = subprocess.Popen(
            loader.command(script, folder, *arguments),
            stdin=subprocess.PIPE if stdin is None else stdin_file,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pipesize=_BLOCK_BYTES,
        )
        stdin_stream, stdout = process.stdin or stdin_file, cast("BufferedReader", process.stdout)
        interruption = ""
        try:
            yield PodScript(process=process, stdin=stdin_stream, stdout=stdout, stderr=stderr)
            stdin_stream.close()
            while stdout.read(_BLOCK_BYTES):
                pass
        except (tarfile.TarError, BrokenPipeError, BrokenConnectionError) as error:
            # kubectl's own message, which follows within seconds, shows whether a new attempt may succeed.
            interruption = "kubectl stopped reading" if isinstance(error, BrokenPipeError) else str(error)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STDERR_SECONDS)
            process.kill()
        except BaseException:
            # An error of the block itself: the script may wait forever for a reader or writer.
            process.kill()
            raise
        finally:
            for stream in (stdin_stream, stdout):
                with suppress(OSError):
                    stream.close()
            process.wait()
        if process.returncode or interruption:
            stderr.seek(0)
            message = _DIGEST_LINES.sub("", stderr.read().decode(errors="replace")).strip()
            _raise_error(operation, message, interruption or f"kubectl exited with {process.returncode}")


def _raise_error(operation: str, stderr: str, fallback: str) -> None:
    # The last line is kubectl's own; the lines before it contain file names, and so any text.
    last_line = stderr.rpartition("\n")[2]
    exit_match = _EXIT_MESSAGE.fullmatch(last_line)
    if (exit_match and int(exit_match[1]) < KILLED_EXIT_CODE) or last_line.startswith(_FORBIDDEN):
        raise TransferError(
            f"the {operation} failed: {stderr}. Complete data is kept; fix the cause and run the same command again to "
            "resume"
        )
    raise BrokenConnectionError(f"the {operation} was interrupted: {stderr or fallback}")
