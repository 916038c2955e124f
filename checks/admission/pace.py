"""When Kueue's scheduling cycles begin.

After a cycle that admits nobody it waits, first a millisecond, then twice as long each time, up to a tenth of a second.
So what waits deep in a queue is tried late, and not at all if something ends before: then all begin from the first.

Source: UntilWithBackoff in pkg/util/wait/backoff.go of Kueue v0.15.2; what a cycle itself takes is left out.
"""

from math import ceil, inf
from sys import maxsize

FOR_EVER = maxsize
"""Cycles that go on until something else happens."""
_FIRST, _LONGEST = 0.001, 0.1
"""Pauses in seconds."""


class Pace:
    """The time of the next cycle, in seconds."""

    def __init__(self, *, instant: bool) -> None:
        """`instant`: cycles take no time at all."""
        self.time = 0.0
        self._instant = instant
        self._pause = _FIRST

    def come_to(self, now: float) -> None:
        """Something happened; a cycle that is waited for is not begun earlier."""
        self.time = max(self.time, now)

    def after(self, *, admitted: bool) -> None:
        """A cycle has been made."""
        if admitted:
            self._pause = _FIRST
        elif not self._instant:
            self.time += self._pause
            self._pause = min(2 * self._pause, _LONGEST)

    def skip(self, cycles: int, until: float) -> int:
        """Pass cycles that admit nobody and begin before `until`, at most so many; returns how many.

        Those that would go on for ever take no time.
        """
        if self._instant or (cycles == FOR_EVER and until == inf):
            return cycles
        passed = 0
        while passed < cycles and self.time < until:
            if self._pause < _LONGEST:
                self.after(admitted=False)
                passed += 1
                continue
            left = cycles - passed
            more = left if until == inf else min(left, ceil((until - self.time) / _LONGEST))
            self.time += more * _LONGEST
            passed += more
        return passed
