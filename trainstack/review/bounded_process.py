"""A process with limited time and memory for work on files of untrusted authors.

The readers of settings have their own limits, with messages that name file and line. This is a second line of defense:
for any content of the files, the review ends and reports the environment as not reviewed.
"""

import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

Result = TypeVar("Result")

LIMIT_SECONDS = 120
"""The limit of the wall-clock time for one environment; the largest one of this project takes 3 s."""
LIMIT_BYTES = 2 << 30
"""The limit of the address space; the largest environment of this project needs a quarter of it."""


class BoundError(Exception):
    """The work exceeded a limit, or its process ended without a result."""


def run_bounded(
    work: Callable[..., Result], *arguments: object, seconds: float = LIMIT_SECONDS, size_bytes: int = LIMIT_BYTES
) -> Result:
    """Return the result of `work(*arguments)` in a limited process. Raises BoundError.

    `work` and its arguments must be picklable. `work` must return its failures, because an exception in it ends the
    process without a result.
    """
    # A forked process would start with the address space of this one, which counts towards the limit.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_in_process, args=(sender, size_bytes, work, arguments))
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


def _run_in_process(
    sender: Connection, size_bytes: int, work: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sender.send(work(*arguments))
    except MemoryError:
        sender.close()
