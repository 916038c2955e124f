"""The times and nodes of runs, and the time during which two runs shared a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class RunPlacement:
    """The time of a pod on a node, or of a whole run that is known only from its record."""

    node: str | None
    """None if unknown."""
    start: datetime
    end: datetime


def shared_times(
    placements: Sequence[RunPlacement], other_placements: Sequence[RunPlacement]
) -> dict[str | None, timedelta]:
    """Return the time during which two runs had pods on the same node, by node.

    If a node of either run is unknown, return the time during which both ran, with the key None.
    """
    times: dict[str | None, timedelta] = {}
    if any(placement.node is None for placement in (*placements, *other_placements)):
        times[None] = _shared_time(placements, other_placements)
    else:
        for node in sorted({placement.node or "" for placement in placements}):
            times[node] = _shared_time(_placements_on(node, placements), _placements_on(node, other_placements))
    return {node: time for node, time in times.items() if time}


def format_duration(time: timedelta) -> str:
    """Format a duration: in seconds below two minutes, else in minutes."""
    seconds = round(time.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def _placements_on(node: str, placements: Iterable[RunPlacement]) -> list[RunPlacement]:
    return [placement for placement in placements if placement.node == node]


def _shared_time(placements: Iterable[RunPlacement], other_placements: Iterable[RunPlacement]) -> timedelta:
    """Return the time during which both have a placement."""
    total = timedelta()
    for start, end in _merge_placements(placements):
        for other_start, other_end in _merge_placements(other_placements):
            total += max(timedelta(), min(end, other_end) - max(start, other_start))
    return total


def _merge_placements(placements: Iterable[RunPlacement]) -> list[tuple[datetime, datetime]]:
    """Return the times that the placements cover, without overlaps."""
    spans: list[tuple[datetime, datetime]] = []
    for start, end in sorted((placement.start, placement.end) for placement in placements):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return spans
