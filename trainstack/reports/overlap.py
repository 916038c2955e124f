"""The times and nodes of runs, and the time during which two runs shared a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Placement:
    """The time of a pod on a node, or of a whole run that is known only from its record."""

    node: str | None
    """None if unknown."""
    start: datetime
    end: datetime


def shared(one: Sequence[Placement], other: Sequence[Placement]) -> dict[str | None, timedelta]:
    """Return the time during which two runs had pods on the same node, by node.

    If a node of either run is unknown, return the time during which both ran, with the key None.
    """
    times: dict[str | None, timedelta] = {}
    if any(placement.node is None for placement in (*one, *other)):
        times[None] = _both(one, other)
    else:
        for node in sorted({placement.node or "" for placement in one}):
            times[node] = _both(_on(node, one), _on(node, other))
    return {node: time for node, time in times.items() if time}


def duration(time: timedelta) -> str:
    """Format a duration: in seconds below two minutes, else in minutes."""
    seconds = round(time.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def _on(node: str, placements: Iterable[Placement]) -> list[Placement]:
    return [placement for placement in placements if placement.node == node]


def _both(one: Iterable[Placement], other: Iterable[Placement]) -> timedelta:
    """Return the time during which both have a placement."""
    total = timedelta()
    for start, end in _merged(one):
        for begun, ended in _merged(other):
            total += max(timedelta(), min(end, ended) - max(start, begun))
    return total


def _merged(placements: Iterable[Placement]) -> list[tuple[datetime, datetime]]:
    """Return the times that the placements cover, without overlaps."""
    spans: list[tuple[datetime, datetime]] = []
    for start, end in sorted((placement.start, placement.end) for placement in placements):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return spans
