"""When Kueue's scheduling cycles begin.

After a cycle that admits nobody it waits, first a millisecond, then twice as long each time, up to a tenth of a second.
So what waits deep in a queue is tried late, and not at all if something ends before: then all begin from the first.

A pause is begun before its cycle. So a cycle's outcome counts for the pause after the next one, and where the queues
were empty for a while the second cycle comes at once.

Source: UntilWithBackoff in pkg/util/wait/backoff.go of Kueue v0.15.2; what a cycle itself takes is left out.
"""

from math import ceil, inf
from sys import maxsize

UNLIMITED = maxsize
"""Cycles that go on until something else happens."""
_FIRST, _LONGEST = 0.001, 0.1
"""Pauses in seconds."""


class Backoff:
    """The time of the next cycle, in seconds."""

    def __init__(self, *, instant: bool) -> None:
        """`instant`: cycles take no time at all."""
        self.time = 0.0
        self._since = 0.0
        """When the next cycle could have begun, had anybody waited: its pause counts from there."""
        self._instant = instant
        self._pause = 0.0
        """After the next cycle, whatever it comes to."""

    def advance_to(self, now: float) -> None:
        """Something happened; a cycle that is waited for is not begun earlier."""
        self.time = max(self.time, now)

    def after(self, *, admitted: bool) -> None:
        """A cycle has been made."""
        if self._instant:
            return
        self.time = self._since = max(self.time, self._since + self._pause)
        self._pause = 0.0 if admitted else min(2 * self._pause or _FIRST, _LONGEST)

    def skip(self, cycles: int, until: float) -> int:
        """Pass cycles that admit nobody and begin before `until`, at most so many; returns how many.

        Those that would go on for ever take no time.
        """
        if self._instant or (cycles == UNLIMITED and until == inf):
            return cycles
        passed = 0
        while passed < cycles and self.time < until:
            if self._pause < _LONGEST or self._since < self.time:
                self.after(admitted=False)
                passed += 1
                continue
            left = cycles - passed
            more = left if until == inf else min(left, ceil((until - self.time) / _LONGEST))
            self.time += more * _LONGEST
            self._since = self.time
            passed += more
        return passed
