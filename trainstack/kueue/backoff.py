"""The start times of Kueue's scheduling cycles.

After a cycle without an admission the scheduler waits a millisecond, then twice as long each time, up to a tenth of a
second. Workloads deep in a queue are therefore tried late, or not at all if the queue is reset before.

A pause begins before its cycle: the outcome of a cycle sets the pause after the next one, and after a time with empty
queues the second cycle begins at once.

Source: UntilWithBackoff in pkg/util/wait/backoff.go of Kueue v0.15.2; the duration of a cycle is left out.
"""

from math import ceil, inf
from sys import maxsize

UNLIMITED = maxsize
"""Cycles that repeat until something else happens."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
"""Pauses in seconds."""


class Backoff:
    def __init__(self, *, instant: bool) -> None:
        """`instant`: cycles take no time."""
        self.time = 0.0
        """The time of the next cycle, in seconds."""
        self._since = 0.0
        """The earliest time of the next cycle, from which its pause counts even if the queues are empty."""
        self._instant = instant
        self._pause = 0.0
        """The pause after the next cycle, whatever its outcome, in seconds."""

    def advance_to(self, now: float) -> None:
        self.time = max(self.time, now)

    def record_cycle(self, *, admitted: bool) -> None:
        if self._instant:
            return
        self.time = self._since = max(self.time, self._since + self._pause)
        self._pause = 0.0 if admitted else min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)

    def skip(self, cycles: int, until: float) -> int:
        """Skip at most this many cycles without an admission that begin before `until`; return how many.

        Endless cycles take no time.
        """
        if self._instant or (cycles == UNLIMITED and until == inf):
            return cycles
        skipped = 0
        while skipped < cycles and self.time < until:
            if self._pause < _LONGEST_PAUSE or self._since < self.time:
                self.record_cycle(admitted=False)
                skipped += 1
                continue
            remaining_cycles = cycles - skipped
            if until != inf:
                remaining_cycles = min(remaining_cycles, ceil((until - self.time) / _LONGEST_PAUSE))
            self.time += remaining_cycles * _LONGEST_PAUSE
            self._since = self.time
            skipped += remaining_cycles
        return skipped
