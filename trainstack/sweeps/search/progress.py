"""How far a sweep is, and how long it will still take."""

import heapq
from collections.abc import Sequence
from statistics import median


def seconds_left(finished: Sequence[float], running: Sequence[float], waiting: int) -> float | None:
    """How long until the last trial has ended, if those to come take as long as those that have ended did.

    Args:
        finished: the seconds that each trial took which has succeeded.
        running: the seconds that each running trial has had so far; as many are taken to run at once until the end.
        waiting: how many trials are still to start.

    Returns:
        None where nothing tells: none has succeeded yet, or none runs though some wait.

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
