"""What comes a while after its cause: quota of the evicted, and another try for all once an end has been put on record.

Source: pkg/controller/core/workload_controller.go of Kueue v0.15.2, Update.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf

from trainstack.kueue.root_cohort import RootCohort

ECHO = 0.05
"""Seconds after an end in which Kueue puts the workload's record in order. With each change of it all in its tree are
tried again from the first."""
EVICTION = 0.4
"""Seconds from an eviction to the quota that it frees, as measured with Jobs: each is suspended, and its pods are told
to go. Meanwhile who evicts is tried in vain, and others may take what is free."""


class DelayedRequeue:
    """Evicted workloads that still hold their quota, and trees that are to be tried once more."""

    def __init__(self, *, cycles: int | None) -> None:
        """`cycles`: for how many an evicted workload holds its quota; None: for as long as on a cluster."""
        self._cycles = cycles
        self._left: dict[str, int] = {}
        """Evicted workloads, with the cycles that are left to them."""
        self._ended: dict[RootCohort, None] = {}
        """Where somebody has ended at a moment that is still to be told."""
        self._moments: list[tuple[float, int, RootCohort | str]] = []
        self._count = 0

    def ended(self, root_cohort: RootCohort) -> None:
        """Somebody in a tree has ended, at the moment that `come_to` tells next."""
        if self._cycles is None:
            self._ended[root_cohort] = None

    def advance_to(self, now: float) -> None:
        """Tell the time."""
        for root_cohort in self._ended:
            self._put_off(root_cohort, now + ECHO)
        self._ended.clear()

    def evict(self, key: str, now: float) -> bool:
        """Tell a workload to go; False where it is told already."""
        if key in self._left:
            return False
        self._left[key] = self._cycles or 0
        if self._cycles is None:
            self._put_off(key, now + EVICTION)
        return True

    def forget(self, key: str) -> None:
        """A workload has given its quota back."""
        self._left.pop(key, None)

    @property
    def evicting(self) -> bool:
        """Whether somebody is told to go and has not gone."""
        return bool(self._left)

    @property
    def counting(self) -> bool:
        """Whether cycles bring quota back."""
        return self._cycles is not None and bool(self._left)

    def over(self) -> Iterable[str]:
        """Evicted workloads whose cycles are over; of all others one has passed."""
        if self._cycles is None:
            return ()
        gone = [key for key, remaining in self._left.items() if remaining <= 0]
        self._left = {key: remaining - 1 for key, remaining in self._left.items() if remaining > 0}
        return gone

    @property
    def next(self) -> float:
        """When the next thing happens by itself, in seconds; infinity: nothing does."""
        while self._moments and isinstance(self._moments[0][2], str) and self._moments[0][2] not in self._left:
            heappop(self._moments)
        return self._moments[0][0] if self._moments else inf

    def pop(self) -> RootCohort | str:
        """That thing: a tree is to be tried once more, or an evicted workload gives its quota back."""
        return heappop(self._moments)[2]

    def _put_off(self, what: RootCohort | str, at: float) -> None:
        self._count += 1
        heappush(self._moments, (at, self._count, what))
