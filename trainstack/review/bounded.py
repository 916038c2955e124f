"""Work in a separate process with limited time and memory, for files from untrusted authors.

The readers of settings have limits of their own, with messages that name file and line. These are a second line of
defence: whatever files are combined to, the review ends, and reports that environment as not reviewed.
"""

import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

Result = TypeVar("Result")

SECONDS = 120
"""Of wall-clock time for one environment; the largest of this project takes 3."""
BYTES = 2 << 30
"""Of address space; the largest of this project takes a quarter."""


class BoundError(Exception):
    """The work exceeded its limits, or its process ended without a result."""


def bounded(
    work: Callable[..., Result], *arguments: object, seconds: float = SECONDS, size_bytes: int = BYTES
) -> Result:
    """The result of the work. Raises BoundError when it took too much.

    Work and arguments must be picklable. What the work raises is its own affair: it should return failures.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, size_bytes, work, arguments))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise BoundError(f"takes more than {seconds:g} s")
        result: Result = ours.recv()
    except (EOFError, OSError):
        raise BoundError(f"takes more than {size_bytes >> 20} MiB of memory, or its process failed") from None
    else:
        return result
    finally:
        process.kill()
        process.join()
        ours.close()


def _run(to: Connection, size_bytes: int, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        to.send(work(*arguments))
    except MemoryError:
        # The waiting process finds that there is no result.
        to.close()
