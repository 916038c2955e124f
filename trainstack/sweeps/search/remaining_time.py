"""An estimate of a sweep's remaining time."""

import heapq
from collections.abc import Sequence
from statistics import median


def seconds_left(finished: Sequence[float], running: Sequence[float], waiting: int) -> float | None:
    """Estimate the seconds until the last trial ends, if every trial takes as long as the median succeeded one.

    `finished`: the seconds that succeeded trials took. `running`: the seconds since the start of running trials; as
    many are assumed to run at once until the end. `waiting`: the number of trials that have not started. None if no
    trial has succeeded yet, or if trials wait and none runs.
    """
    if not running and not waiting:
        return 0.0
    if not finished or not running:
        return None
    typical_seconds = median(finished)
    ends = [max(0.0, typical_seconds - elapsed_seconds) for elapsed_seconds in running]
    heapq.heapify(ends)
    for _ in range(waiting):
        heapq.heapreplace(ends, ends[0] + typical_seconds)
    return max(ends)
