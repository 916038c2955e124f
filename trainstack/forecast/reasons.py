"""Why a run of a plan has no start or no end, and what else a person should know of it."""

from collections.abc import Sequence

from trainstack.forecast.schedule import Course, Schedule
from trainstack.kueue.admission_simulator import AdmissionSimulator

_MOST_NAMES = 3


def note(course: Course, schedule: Schedule, simulator: AdmissionSimulator) -> str:
    """In one sentence, without a full stop; empty where everything is as usual."""
    if course.submitted is None:
        return _behind(course, schedule)
    if not course.spans:
        return _never(course, schedule, simulator)
    if course.start is None:
        return "it has its quota, and no node has room for its pods"
    parts = []
    last = course.spans[-1]
    if course.task.duration.seconds is None:
        parts.append("no end is known: it has neither expectedDurationSeconds nor activeDeadlineSeconds")
    elif last.evicted_by:
        parts.append(f"it gives way to {last.evicted_by} and finds no place again")
    elif course.task.duration.source == "deadline":
        parts.append("until its deadline at the latest")
    if course.end is not None and course.evictions:
        times = "once" if course.evictions == 1 else f"{course.evictions} times"
        again = "goes on later" if course.task.keeps else "begins anew"
        parts.append(f"it gives way {times}, to {few([each.evicted_by for each in course.spans[:-1]])}, and {again}")
    if not course.task.queued:
        parts.append("Kueue does not hold it: it starts at once")
    return "; ".join(parts)


def _behind(course: Course, schedule: Schedule) -> str:
    endless = {each.task.key for each in schedule.open}
    if course.task.places is not None and not {*course.task.after} & endless:
        return f"it is launched when one of the places of {course.task.line} gets free, of which no end is known"
    before = few([each for each in course.task.after if each in endless])
    return f"it is launched after {before}, of which no end is known"


def _never(course: Course, schedule: Schedule, simulator: AdmissionSimulator) -> str:
    verdict = simulator.alone(course.task.workload)
    if not verdict.fits:
        return f"{verdict.outcome}: {verdict.reasons[0].message}" if verdict.reasons else verdict.outcome
    holding = [each.task.key for each in schedule.open if each.spans and not each.spans[-1].evicted_by]
    if holding:
        return f"no end is known of what holds the quota: {few(holding)}"
    return "what is before it in its queue never fits, and the queue is StrictFIFO"


def few(keys: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The first of some names, each once, and how many more there are."""
    names = list(dict.fromkeys(keys))
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
