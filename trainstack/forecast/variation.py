"""The sensitivity of a forecast to small differences in durations and in the order of submission.

A run that starts at another time competes with other runs for quota, so a small difference may change the whole order.
The random differences are the same in every forecast of the same tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from trainstack.forecast.schedule import Schedule
from trainstack.forecast.tasks import Task

SPREAD = 0.1
"""The largest relative change of a duration, in both directions."""
_MAX_SHIFT = 8
"""The maximum shift of a run in the order of submission, in places: launches are created in parallel."""
_MAX_VARIATIONS, _MAX_TASKS = 16, 500
"""The maximum number of variations, and of their tasks together: more tasks have fewer variations, or none."""
_SLACK_SECONDS = 1.0

Range = tuple[float, float]
"""The earliest and the latest, in seconds from the start of the plan."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """The ranges over all variations of a schedule."""

    makespan: Range
    """The range over the variations in which the same runs end."""
    same_ends: bool
    """Whether the same runs end in all variations."""
    ends: Mapping[str, Range]
    """The range of each run's end, by the task's key; only runs that end in every variation."""


def vary_schedule(
    tasks: Sequence[Task], schedule: Schedule, simulate: Callable[[Sequence[Task]], Schedule]
) -> Variation | None:
    """Return the variation of a schedule; None if there are too many tasks for it.

    `simulate` returns the schedule of tasks with other durations, in another order.
    """
    count = min(_MAX_VARIATIONS, _MAX_TASKS // len(tasks)) if tasks else 0
    if not count:
        return None
    schedules = [schedule, *(simulate(_vary_tasks(tasks, Random(number))) for number in range(count))]  # noqa: S311 (no secret)
    ends: dict[str, list[float]] = {}
    for varied_schedule in schedules:
        for timeline in varied_schedule.timelines:
            if timeline.end is not None:
                ends.setdefault(timeline.task.key, []).append(timeline.end)
    ended_keys = _ended_keys(schedule)
    schedules_with_same_ends = [
        varied_schedule for varied_schedule in schedules if _ended_keys(varied_schedule) == ended_keys
    ]
    return Variation(
        makespan=_range([varied_schedule.makespan for varied_schedule in schedules_with_same_ends]),
        same_ends=len(schedules_with_same_ends) == len(schedules),
        ends={key: _range(seconds) for key, seconds in ends.items() if len(seconds) == len(schedules)},
    )


def is_order_sensitive(seconds: float, varied_range: Range) -> bool:
    """Return whether a time varies more than the durations do, which means that it depends on the order of the runs."""
    low, high = varied_range
    return low < seconds * (1 - SPREAD) - _SLACK_SECONDS or high > seconds * (1 + SPREAD) + _SLACK_SECONDS


def _vary_tasks(tasks: Sequence[Task], random: Random) -> list[Task]:
    positions = [index + random.uniform(0, _MAX_SHIFT) for index in range(len(tasks))]
    return [_vary_duration(tasks[index], random) for index in sorted(range(len(tasks)), key=positions.__getitem__)]


def _vary_duration(task: Task, random: Random) -> Task:
    """Return the task with a random duration, which does not exceed its deadline."""
    factor, seconds = 1 + random.uniform(-SPREAD, SPREAD), task.duration.seconds
    if seconds is None:
        return task
    max_seconds = seconds if task.duration.source == "deadline" else seconds * (1 + SPREAD)
    return replace(task, duration=replace(task.duration, seconds=min(seconds * factor, max_seconds)))


def _ended_keys(schedule: Schedule) -> set[str]:
    return {timeline.task.key for timeline in schedule.timelines if timeline.end is not None}


def _range(seconds: Sequence[float]) -> Range:
    return min(seconds), max(seconds)
