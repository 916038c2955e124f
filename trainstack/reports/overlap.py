"""Where and when runs ran, and for how long two of them shared a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Placement:
    """The time of a pod on a node; of a run from its record, the time of the whole run."""

    node: str | None
    """None: it is not known."""
    start: datetime
    end: datetime


def shared(one: Sequence[Placement], other: Sequence[Placement]) -> dict[str | None, timedelta]:
    """For how long two runs had pods on the same node, by node.

    Where the nodes of either run are not known, for how long both ran, under None.
    """
    nodes = {placement.node for placement in one} & {placement.node for placement in other}
    unknown = any(placement.node is None for placement in (*one, *other))
    times: dict[str | None, timedelta] = {None: _both(one, other)} if unknown else {}
    if not unknown:
        times.update({node: _both(_on(node, one), _on(node, other)) for node in sorted(filter(None, nodes))})
    return {node: time for node, time in times.items() if time}


def in_words(time: timedelta) -> str:
    """To the second below two minutes, else to the minute."""
    seconds = round(time.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def _on(node: str | None, placements: Iterable[Placement]) -> list[Placement]:
    return [placement for placement in placements if placement.node == node]


def _both(one: Iterable[Placement], other: Iterable[Placement]) -> timedelta:
    """The time in which each has at least one placement."""
    total = timedelta()
    for start, end in _merged(one):
        for begun, ended in _merged(other):
            total += max(timedelta(), min(end, ended) - max(start, begun))
    return total


def _merged(placements: Iterable[Placement]) -> list[tuple[datetime, datetime]]:
    """The times that the placements cover, which overlap no more."""
    spans: list[tuple[datetime, datetime]] = []
    for start, end in sorted((placement.start, placement.end) for placement in placements):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return spans
