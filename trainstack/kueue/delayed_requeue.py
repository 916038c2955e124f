"""Delayed effects: the release of an evicted workload's quota, and the requeue after a finished one.

Source: pkg/controller/core/workload_controller.go of Kueue v0.15.2, Update.
"""

from heapq import heappop, heappush
from itertools import count
from math import inf

from trainstack.kueue.root_cohort import RootCohort

FINISH_DELAY = 0.05
"""Seconds after a workload finishes in which Kueue updates its status; each update requeues the cohort's workloads."""
EVICTION_DELAY = 0.4
"""Seconds from an eviction to the release of its quota, as measured with Jobs that are suspended and whose pods end.
Meanwhile the attempts of the preempting workload fail, and others may use free quota."""


class DelayedRequeue:
    def __init__(self, *, cycles: int | None) -> None:
        """`cycles`: for how many cycles an evicted workload holds its quota; None: EVICTION_DELAY."""
        self._cycles = cycles
        self._remaining_cycles: dict[str, int] = {}
        """The remaining cycles of evicted workloads."""
        self._finished_cohorts: dict[RootCohort, None] = {}
        """Root cohorts of workloads that finished since the last `advance_to`."""
        self._queue: list[tuple[float, int, RootCohort | str]] = []
        self._order = count()

    def record_finish(self, root_cohort: RootCohort) -> None:
        """Record a finished workload, at the time of the next `advance_to`."""
        if self._cycles is None:
            self._finished_cohorts[root_cohort] = None

    def advance_to(self, now: float) -> None:
        for root_cohort in self._finished_cohorts:
            self._delay(root_cohort, now + FINISH_DELAY)
        self._finished_cohorts.clear()

    def evict(self, key: str, now: float) -> bool:
        """Begin the eviction of a workload; return False if it has begun before."""
        if key in self._remaining_cycles:
            return False
        self._remaining_cycles[key] = self._cycles or 0
        if self._cycles is None:
            self._delay(key, now + EVICTION_DELAY)
        return True

    def forget(self, key: str) -> None:
        """Remove a workload whose quota was released."""
        self._remaining_cycles.pop(key, None)

    @property
    def counts_cycles(self) -> bool:
        """Whether quota is released after a number of cycles."""
        return self._cycles is not None and bool(self._remaining_cycles)

    def end_cycle(self) -> list[str]:
        """Return the evicted workloads without remaining cycles, and count one cycle for the others."""
        if self._cycles is None:
            return []
        released_keys = [key for key, cycles in self._remaining_cycles.items() if cycles <= 0]
        self._remaining_cycles = {key: cycles - 1 for key, cycles in self._remaining_cycles.items() if cycles > 0}
        return released_keys

    @property
    def next_time(self) -> float:
        """The time of the next delayed effect in seconds; infinity without one."""
        while self._queue and isinstance(self._queue[0][2], str) and self._queue[0][2] not in self._remaining_cycles:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else inf

    def pop(self) -> RootCohort | str:
        """Return the next root cohort to requeue, or the key of an evicted workload that releases its quota."""
        return heappop(self._queue)[2]

    def _delay(self, effect: RootCohort | str, time: float) -> None:
        heappush(self._queue, (time, next(self._order), effect))
