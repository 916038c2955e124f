"""Estimate the remaining time of a sweep."""

import heapq
from collections.abc import Sequence
from statistics import median


def seconds_left(finished: Sequence[float], running: Sequence[float], waiting: int) -> float | None:
    """The time until the last trial ends, if the others take as long as the succeeded ones, which `finished` has.

    `running`: the seconds since the start of running trials; as many are assumed to run at once until the end. None if
    no trial has succeeded yet, or if none runs while some wait.
    """
    if not running and not waiting:
        return 0.0
    if not finished or not running:
        return None
    usual = median(finished)
    ends = [max(0.0, usual - each) for each in running]
    heapq.heapify(ends)
    for _ in range(waiting):
        heapq.heapreplace(ends, ends[0] + usual)
    return max(ends)
