"""Estimate the remaining time of a sweep."""

import heapq
from collections.abc import Sequence
from statistics import median


def seconds_left(finished: Sequence[float], running: Sequence[float], waiting: int) -> float | None:
    """The time until the last trial ends, if the remaining trials take as long as the completed ones.

    None if no trial has succeeded yet, or if none runs while some wait.

    `finished` has the durations of succeeded trials, `running` the seconds since the start of running ones; as many are
    assumed to run at once until the end.
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
