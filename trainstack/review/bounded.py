"""Run work on files of untrusted authors in a process with limited time and memory.

The readers of settings have limits of their own, with messages that name file and line. This is a second line of
defense: whatever the files contain, the review ends and reports the environment as not reviewed.
"""

import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

Result = TypeVar("Result")

SECONDS = 120
"""Wall-clock time for one environment; the largest of this project takes 3 s."""
BYTES = 2 << 30
"""Address space; the largest environment of this project needs a quarter."""


class BoundError(Exception):
    """The work exceeded its limits, or its process ended without a result."""


def bounded(
    work: Callable[..., Result], *arguments: object, seconds: float = SECONDS, size_bytes: int = BYTES
) -> Result:
    """Return the result of `work`, which must be picklable, as must its arguments. Raises BoundError.

    `work` must return its failures: an exception in it ends the process without a result.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, size_bytes, work, arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise BoundError(f"took more than {seconds:g} s")
        result: Result = receiver.recv()
    except (EOFError, OSError):
        raise BoundError(f"took more than {size_bytes >> 20} MiB of memory, or its process failed") from None
    else:
        return result
    finally:
        process.kill()
        process.join()
        receiver.close()


def _run(sender: Connection, size_bytes: int, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sender.send(work(*arguments))
    except MemoryError:
        sender.close()
