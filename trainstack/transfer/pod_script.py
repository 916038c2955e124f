"""Shell scripts in a data loader's pod, and what their end means: done, a fault, or a broken connection.

kubectl's exit code alone says nothing: where a program closes its output, the node drops the rest of its input and
kubectl ends with 0 (seen with containerd 1.6). So no script here redirects its own output away, and each ends its
answer with a last frame (trainstack/transfer/frames.py), or what it did is looked at afterwards.
"""

import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from trainstack.cli.console import fail
from trainstack.transfer.loader import Loader

KILLED = 128
"""From this exit code on a script was stopped from outside, and another try may help."""
_CHUNK = 1 << 20
_LAST_WORDS_SECONDS = 5
"""How long kubectl may take to say why it stopped reading or writing."""
_DIGESTS = re.compile(r"^[0-9a-f]{64}  -\n", re.MULTILINE)
"""No errors, but what a script has to say beside the bytes of a file."""
_EXIT = re.compile(r"command terminated with exit code (\d+)")
"""kubectl's last line when the script ended with another status than 0."""
_FORBIDDEN = "Error from server (Forbidden)"


class BrokenConnectionError(Exception):
    """The connection, or the loader, is gone. What has arrived stays, and another try goes on from there."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A script that runs in a loader's pod."""

    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]
    """What it has said on its second output. A file."""

    @property
    def input(self) -> IO[bytes]:
        """What it is told."""
        if self.process.stdin is None:
            raise AssertionError
        return self.process.stdin

    @property
    def output(self) -> IO[bytes]:
        """What it says."""
        if self.process.stdout is None:
            raise AssertionError
        return self.process.stdout


@contextmanager
def running(
    loader: Loader, what: str, script: str, folder: str, *arguments: str, given: bytes | None = None
) -> Iterator[Running]:
    """A script in the loader's pod, for as long as the block runs; its $1 is a path there, then the arguments.

    Its input is what is `given`; None: what the block writes. Where the block fails the script is killed: it may wait
    for ever to be rid of what nobody reads any more. What is left of its output is read away. Ends the command when the
    script itself failed.

    Raises BrokenConnectionError.
    """
    # Both are files, since on pipes the two programs could wait for each other.
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as asked:
        asked.write(given or b"")
        asked.seek(0)
        process = subprocess.Popen(
            loader.words(script, folder, *arguments),
            stdin=subprocess.PIPE if given is None else asked,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ,
            pipesize=_CHUNK,
        )
        script_ = Running(process=process, errors=errors)
        broken = ""
        try:
            yield script_
            if process.stdin:
                process.stdin.close()
            while script_.output.read(_CHUNK):
                pass
        except (tarfile.TarError, BrokenPipeError, BrokenConnectionError) as error:
            broken = "kubectl takes no more" if isinstance(error, BrokenPipeError) else str(error)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_WORDS_SECONDS)
            process.kill()
        except BaseException:
            process.kill()
            raise
        finally:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):
                    pipe.close()
            process.wait()
        if process.returncode or broken:
            errors.seek(0)
            said = _DIGESTS.sub("", errors.read().decode(errors="replace")).strip()
            _judge(what, said, broken, process.returncode)


def _judge(what: str, said: str, broken: str, code: int) -> None:
    # The last line is kubectl's own; names of files, which hold any words, are in the lines before it.
    last = said.rpartition("\n")[2]
    exit_ = _EXIT.fullmatch(last)
    if (exit_ and int(exit_[1]) < KILLED) or last.startswith(_FORBIDDEN):
        fail(
            f"the {what} failed: {said}. What arrived whole stays; mend that and run the same command again, which "
            "goes on from there"
        )
    raise BrokenConnectionError(f"the {what} broke off: {said or broken or f'kubectl ended with {code}'}")
