"""What a transfer reports while it runs; the caller decides how to show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

Advance = Callable[[int], None]
"""Report this many more bytes or items."""


class Progress(Protocol):
    """Receives the reports of a transfer."""

    def info(self, message: str) -> None:
        """Report what the transfer waits for or has done."""

    def warn(self, message: str) -> None:
        """Report something that does not end the transfer."""

    def step(self, description: str, expected: str) -> AbstractContextManager[None]:
        """Report a step and the time that it usually takes."""

    def bar(self, description: str, total_bytes: int) -> AbstractContextManager[Advance]:
        """Report the progress over a number of bytes."""

    def count(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Report the progress over a number of items."""
