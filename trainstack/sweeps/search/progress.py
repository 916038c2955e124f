"""Estimate the remaining time of a sweep."""

import heapq
from collections.abc import Sequence
from statistics import median


def seconds_left(finished: Sequence[float], running: Sequence[float], waiting: int) -> float | None:
    """The time until the last trial ends, if the remaining trials take as long as the completed ones.

    Args:
        finished: the durations of the trials that have succeeded, in seconds.
        running: the seconds that each running trial has run so far; as many are assumed to run at once until the end.
        waiting: the number of trials that have yet to start.

    Returns:
        None if it cannot be estimated: no trial has succeeded yet, or none runs while some wait.

    """
    if not running and not waiting:
        return 0.0
    if not finished or not running:
        return None
    usual = median(finished)
    ends = [max(0.0, usual - each) for each in running]
    heapq.heapify(ends)
    last = max(ends)
    for _ in range(waiting):
        end = heapq.heappop(ends) + usual
        last = max(last, end)
        heapq.heappush(ends, end)
    return last
