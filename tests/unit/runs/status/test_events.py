"""The events of a run are those of its objects, without duplicates, in the order of time."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.live_objects import LAUNCH, make_launch_body, make_pod, make_workload
from trainstack.live.client import Answer
from trainstack.live.events import read_events
from trainstack.runs.status.events import run_events


def make_event(name: str, minute: int, uid: str = "", **changes: Any) -> dict[str, Any]:
    """Return an event of a pod in the kubelet's format."""
    time = f"2026-01-02T03:{minute:02}:00Z"
    return {
        "metadata": {"creationTimestamp": time},
        "involvedObject": {"kind": "Pod", "name": name, "uid": uid},
        "type": "Normal",
        "reason": "Pulled",
        "message": "done",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        **changes,
    }


def rows(*events: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Return object, reason, count and last minute of the events of launch `a` in a namespace with launch `a-b`."""
    found = run_events(events, {"1"}, {"a"}, {"a", "a-b"})
    return [(event.name, event.reason, event.count, event.last.minute) for event in found]


def test_events_of_other_objects_are_left_out() -> None:
    """Existing objects match by uid, deleted pods by name; the prefix must not belong to another launch."""
    events = [make_event("x", 1, "1"), make_event("x", 2, "2"), make_event("a-xyz", 3), make_event("a-b-xyz", 4)]
    assert rows(*events) == [("x", "Pulled", 1, 1), ("a-xyz", "Pulled", 1, 3)]


def test_equal_events_are_merged_with_their_count() -> None:
    """The merged event has the first and last time of all. A series counts with its number of occurrences."""
    series = make_event(
        "x", 1, "1", count=None, lastTimestamp=None, firstTimestamp=None, eventTime="2026-01-02T03:01:00.5Z"
    )
    series["series"] = {"count": 4, "lastObservedTime": "2026-01-02T03:09:00.1Z"}
    (found,) = run_events([make_event("x", 5, "1", count=2), series], {"1"}, {"a"}, {"a"})
    assert (found.count, found.first.minute, found.last.minute) == (6, 1, 9)


def test_events_are_sorted_by_time() -> None:
    """The time of the last occurrence decides."""
    late = make_event("x", 9, "1", reason="Killing")
    assert rows(late, make_event("x", 3, "1")) == [("x", "Pulled", 1, 3), ("x", "Killing", 1, 9)]


def test_events_are_read_for_the_same_objects_as_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects are a launch's pods, Workload and claims; existing objects are identified by uid."""
    requests: list[str] = []

    def read(paths: Sequence[str], _: str | None) -> dict[str, Answer]:
        requests.extend(paths)
        items = {"/pods?": [make_pod("x")], "/workloads?": [make_workload()], "/events": [make_event("x", 1, "x")]}
        found = {path: next((items[part] for part in items if part in path), None) for path in paths}
        return {path: Answer(404 if items is None else 200, {"items": items or []}) for path, items in found.items()}

    monkeypatch.setattr("trainstack.live.events.read", read)
    body = make_launch_body()
    assert [event.name for event in read_events([body], [LAUNCH], None)] == ["x"]
    within = "namespaces/research"
    assert requests == [
        f"/api/v1/{within}/events",
        f"/api/v1/{within}/pods?labelSelector=trainstack.dev/launch%3D{LAUNCH}",
        f"/apis/kueue.x-k8s.io/v1beta2/{within}/workloads?labelSelector=kueue.x-k8s.io/job-uid%3Djob-uid",
        f"/api/v1/{within}/persistentvolumeclaims/training",
    ]
