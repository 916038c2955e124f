"""The progress that a transfer reports while it runs; the caller decides how to show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

Advance = Callable[[int], None]
"""A function that reports this many more bytes or items."""


class TransferProgress(Protocol):
    """The receiver of a transfer's reports."""

    def info(self, message: str, /) -> None: ...
    def warn(self, message: str, /) -> None: ...
    def step(self, description: str, expected_time: str, /) -> AbstractContextManager[None]: ...
    def bar(self, description: str, total_bytes: int, /) -> AbstractContextManager[Advance]: ...
    def count(self, description: str, total: int, /) -> AbstractContextManager[Advance]: ...
