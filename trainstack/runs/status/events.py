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


def run_events(
    events: Iterable[Body], uids: Collection[str], launches: Collection[str], all_launches: Collection[str]
) -> list[EventView]:
    """Return the events of the objects with these uids, and of the launches' deleted pods, oldest first.

    A deleted pod is matched by its name, which begins with that of its launch. `all_launches` prevents launch `a` from
    matching the pods of `a-b`.
    """
    views_by_key: dict[tuple[str, ...], EventView] = {}
    for body in events:
        regarding = body.get("involvedObject") or {}
        if regarding.get("uid") not in uids and not _is_of_deleted_pod(regarding, launches, all_launches):
            continue
        view = _event_view(body, regarding)
        earlier = views_by_key.get(view.key)
        views_by_key[view.key] = view if earlier is None else _merge_views(earlier, view)
    return sorted(views_by_key.values())


def _is_of_deleted_pod(regarding: Body, launches: Collection[str], all_launches: Collection[str]) -> bool:
    name = regarding.get("name", "")
    if regarding.get("kind") != "Pod":
        return False
    owner = max((launch for launch in all_launches if name.startswith(f"{launch}-")), key=len, default=None)
    return owner in launches


def _event_view(body: Body, regarding: Body) -> EventView:
    series = body.get("series") or {}
    created = body["metadata"]["creationTimestamp"]
    first = body.get("firstTimestamp") or body.get("eventTime") or created
    last = series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("eventTime") or created
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


def _merge_views(earlier: EventView, later: EventView) -> EventView:
    last, first = max(earlier.last, later.last), min(earlier.first, later.first)
    return replace(earlier, last=last, first=first, count=earlier.count + later.count)
