"""The events of runs by time, with repeated events merged."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

Body = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class EventView:
    """An event, or several equal events of one object, merged."""

    last: datetime
    first: datetime
    count: int
    type: str
    """`Normal` or `Warning`."""
    kind: str
    name: str
    """The name of the object that the event is about."""
    reason: str
    message: str
    source: str
    """The component that reported it."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.type, self.kind, self.name, self.reason, self.message


def events_of(
    events: Iterable[Body], uids: Collection[str], launches: Collection[str], all_launches: Collection[str]
) -> list[EventView]:
    """Return the events of the objects with these uids, and of the launches' deleted pods, oldest first.

    A deleted pod is matched by its name, which begins with that of its launch. `all_launches` prevents launch `a` from
    matching the pods of `a-b`.
    """
    merged: dict[tuple[str, ...], EventView] = {}
    for body in events:
        regarding = body.get("involvedObject") or {}
        if regarding.get("uid") not in uids and not _of_gone_pod(regarding, launches, all_launches):
            continue
        view = _view(body, regarding)
        before = merged.get(view.key)
        merged[view.key] = view if before is None else _both(before, view)
    return sorted(merged.values())


def _of_gone_pod(regarding: Body, launches: Collection[str], all_launches: Collection[str]) -> bool:
    name = regarding.get("name", "")
    if regarding.get("kind") != "Pod":
        return False
    owner = max((each for each in all_launches if name.startswith(f"{each}-")), key=len, default=None)
    return owner in launches


def _view(body: Body, regarding: Body) -> EventView:
    series = body.get("series") or {}
    made = body["metadata"]["creationTimestamp"]
    first = body.get("firstTimestamp") or body.get("eventTime") or made
    last = series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("eventTime") or made
    return EventView(
        last=datetime.fromisoformat(last),
        first=datetime.fromisoformat(first),
        count=series.get("count") or body.get("count") or 1,
        type=body.get("type", "Normal"),
        kind=regarding.get("kind", ""),
        name=regarding.get("name", ""),
        reason=body.get("reason", ""),
        message=(body.get("message") or "").strip(),
        source=body.get("reportingComponent") or (body.get("source") or {}).get("component", ""),
    )


def _both(one: EventView, other: EventView) -> EventView:
    last, first = max(one.last, other.last), min(one.first, other.first)
    return replace(one, last=last, first=first, count=one.count + other.count)
