"""Work for a separate process that imports this module, which needs only the standard library to start fast."""

import os
import time


def wait(seconds: float) -> str:
    """Wait this long."""
    time.sleep(seconds)
    return "done"


def allocate(size_bytes: int) -> int:
    """Allocate this much memory."""
    return len(bytearray(size_bytes))


def end_process() -> None:
    """End the process without a result."""
    os._exit(3)
