"""The tries of one transfer: each goes on from where the one before it broke off, as long as that brings something."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from trainstack.cli.console import err, fail
from trainstack.cli.progress import Advance
from trainstack.transfer import chunks as parts
from trainstack.transfer.loader import Loader
from trainstack.transfer.local_files import Stat
from trainstack.transfer.pod_script import BrokenConnectionError

T = TypeVar("T")

PAUSES_SECONDS = (1, 2, 4, 8, 16)
"""Before each new try of a connection that broke; one that brought something begins the row again."""


@dataclass(kw_only=True)
class Brought:
    """What a transfer did."""

    where: str = ""
    """The folder in which the files are now, on the volume or here."""
    files: int = 0
    """All files that there are."""
    sent: int = 0
    """Those of them that had to be sent."""
    sent_bytes: int = 0
    """Bytes that went through the connection, those included that broke off and were sent again."""
    resumed_bytes: int = 0
    """Bytes of unfinished files that were there already."""
    changed: tuple[str, ...] = ()
    """Fetched files that an active run wrote to meanwhile: what is here is some state of them, unchecked."""


def persevering(loader: Loader, attempt: Callable[[], T], arrived: Callable[[], int]) -> T:
    """Try until it is done, or until several tries in a row brought nothing more. Ends the command then."""
    failures, before = 0, 0
    while True:
        try:
            return attempt()
        except BrokenConnectionError as error:
            now = arrived()
            failures, before = (failures if now == before else 0) + 1, now
            if failures > len(PAUSES_SECONDS):
                fail(f"{error}. What arrived whole stays; run the same command again and it goes on from there")
            pause = PAUSES_SECONDS[failures - 1]
            err.print(f"  {error}; going on from there in {pause} s", style="yellow", markup=False)
            time.sleep(pause)
            loader.revive()


@dataclass(kw_only=True)
class Transfer:
    """What is known across the tries of one transfer."""

    loader: Loader
    brought: Brought = field(default_factory=Brought)
    verified: set[tuple[str, Stat]] = field(default_factory=set)
    """What has arrived and is checked, from tries that broke off too."""
    needed: set[str] = field(default_factory=set)
    """What had to be sent, in whichever try."""
    reached: dict[str, int] = field(default_factory=dict)
    """Of big files: how far they have come at best. One that is always written to begins anew, and that is no gain."""

    @property
    def arrived(self) -> int:
        """Grows whenever something more is checked."""
        return len({name for name, _ in self.verified}) + sum(self.reached.values())

    def meter(self, advance: Advance) -> parts.Meter:
        """Count what happens, and move the bar."""
        first = not self.brought.sent_bytes

        def sent(size: int) -> None:
            self.brought.sent_bytes += size
            advance(size)

        def resumed(size: int) -> None:
            # In a later try it is what this command has sent itself.
            self.brought.resumed_bytes += size if first else 0

        def reached(name: str, offset: int) -> None:
            self.reached[name] = max(offset, self.reached.get(name, 0))

        return parts.Meter(compared=advance, resumed=resumed, sent=sent, reached=reached)
