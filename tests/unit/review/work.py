"""Work for a process of its own, which imports this module: the standard library alone, so that it starts soon."""

import os
import time


def waits(seconds: float) -> str:
    """Work that takes so long."""
    time.sleep(seconds)
    return "done"


def takes(size_bytes: int) -> int:
    """Work that takes so much memory."""
    return len(bytearray(size_bytes))


def ends() -> None:
    """Work whose process ends."""
    os._exit(3)
