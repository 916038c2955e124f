"""The state of a transfer across its attempts, each of which resumes where the previous one was interrupted."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import Stat
from trainstack.transfer.progress import Advance

T = TypeVar("T")
"""The result of an attempt."""

PAUSES_SECONDS = (1, 2, 4, 8, 16)
"""Pauses before new attempts after a broken connection; they restart after an attempt that made progress."""


@dataclass(kw_only=True)
class TransferResult:
    """The result of a transfer; printed as JSON."""

    where: str = ""
    """The folder of the files, on the volume or on this machine."""
    files: int = 0
    sent: int = 0
    """The number of files that were transferred."""
    sent_bytes: int = 0
    """Transferred bytes, including those of interrupted attempts."""
    resumed_bytes: int = 0
    """Bytes of incomplete files that were already present."""
    changed: tuple[str, ...] = ()
    """Fetched files that an active run wrote to meanwhile; their content is not verified."""


def run_with_retries(loader: Loader, attempt: Callable[[], T], count_verified: Callable[[], int]) -> T:
    """Run an attempt, and repeat it as long as its connection breaks; `count_verified` measures progress.

    Raises TransferError after more than len(PAUSES_SECONDS) attempts in a row without progress.
    """
    failures, verified_before = 0, 0
    while True:
        try:
            return attempt()
        except BrokenConnectionError as error:
            verified_now = count_verified()
            failures, verified_before = (failures if verified_now == verified_before else 0) + 1, verified_now
            if failures > len(PAUSES_SECONDS):
                raise TransferError(f"{error}. Complete data is kept; run the same command again to resume") from None
            pause = PAUSES_SECONDS[failures - 1]
            loader.progress.warn(f"  {error}; resuming in {pause} s")
            time.sleep(pause)
            loader.ensure_running()


@dataclass(kw_only=True)
class Transfer:
    """The state of a transfer across its attempts."""

    loader: Loader
    result: TransferResult = field(default_factory=TransferResult)
    verified: set[tuple[str, Stat]] = field(default_factory=set)
    """Complete and verified files."""
    required_files: set[str] = field(default_factory=set)
    """Files that any attempt had to transfer."""
    verified_offsets: dict[str, int] = field(default_factory=dict)
    """The highest verified offset of each large file: restarting a file that is being written is not progress."""
    advance: Advance = lambda _: None
    """A function that moves the current progress bar."""
    first_attempt: bool = True
    """Whether this command has not sent anything yet."""

    def attempt(self) -> TransferResult:
        """Transfer the missing files. Raises TransferError, BrokenConnectionError and OSError."""
        raise NotImplementedError

    def run(self) -> TransferResult:
        return run_with_retries(
            self.loader,
            self.attempt,
            lambda: len({name for name, _ in self.verified}) + sum(self.verified_offsets.values()),
        )

    def missing(self, files: Mapping[str, Stat]) -> dict[str, Stat]:
        """Return the files that are not verified yet."""
        return {name: state for name, state in files.items() if (name, state) not in self.verified}

    @contextmanager
    def bar(self, description: str, files: Mapping[str, Stat]) -> Iterator[None]:
        """Show a progress bar over files."""
        self.first_attempt = not self.result.sent_bytes
        with self.loader.progress.bar(description, sum(state.size for state in files.values())) as self.advance:
            yield

    def add_sent(self, size: int) -> None:
        self.result.sent_bytes += size
        self.advance(size)

    def add_resumed(self, size: int) -> None:
        # What a later attempt resumes was sent by this command and is in `sent_bytes` already.
        self.result.resumed_bytes += size if self.first_attempt else 0

    def record_offset(self, name: str, offset: int) -> None:
        self.verified_offsets[name] = max(offset, self.verified_offsets.get(name, 0))
