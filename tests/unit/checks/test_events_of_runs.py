"""The events of runs: those of their objects, told once, in the order of time."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.checks.live import LAUNCH, make_launch_body, make_pod, make_workload
from trainstack.live.client import Answer
from trainstack.live.events import read_events
from trainstack.runs.status.events import events_of


def make_event(name: str, minute: int, uid: str = "", **changes: Any) -> dict[str, Any]:
    """An event of a pod, as the kubelet writes them."""
    at = f"2026-01-02T03:{minute:02}:00Z"
    return {
        "metadata": {"creationTimestamp": at},
        "involvedObject": {"kind": "Pod", "name": name, "uid": uid},
        "type": "Normal",
        "reason": "Pulled",
        "message": "done",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        **changes,
    }


def told(*events: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Object, reason, count and last minute of what is told of the launch `a` beside the launch `a-b`."""
    found = events_of(events, {"1"}, {"a"}, {"a", "a-b"})
    return [(each.name, each.reason, each.count, each.last.minute) for each in found]


def test_events_are_of_the_runs_objects_alone() -> None:
    """By uid; pods that are gone by their name, which is not the beginning of another launch's."""
    events = [make_event("x", 1, "1"), make_event("x", 2, "2"), make_event("a-xyz", 3), make_event("a-b-xyz", 4)]
    assert told(*events) == [("x", "Pulled", 1, 1), ("a-xyz", "Pulled", 1, 3)]


def test_the_same_is_told_once_with_its_count() -> None:
    """First and last moment are those of all; an event that is a series counts as often as it was seen."""
    series = make_event(
        "x", 1, "1", count=None, lastTimestamp=None, firstTimestamp=None, eventTime="2026-01-02T03:01:00.5Z"
    )
    series["series"] = {"count": 4, "lastObservedTime": "2026-01-02T03:09:00.1Z"}
    (found,) = events_of([make_event("x", 5, "1", count=2), series], {"1"}, {"a"}, {"a"})
    assert (found.count, found.first.minute, found.last.minute) == (6, 1, 9)


def test_events_come_in_the_order_of_time() -> None:
    """By when they were seen last."""
    late = make_event("x", 9, "1", reason="Killing")
    assert told(late, make_event("x", 3, "1")) == [("x", "Pulled", 1, 3), ("x", "Killing", 1, 9)]


def test_events_are_asked_for_where_the_status_looks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch's pods, Workload and claims; what is there is known by its uid."""
    asked: list[str] = []

    def read(paths: Sequence[str], _: str | None) -> dict[str, Answer]:
        asked.extend(paths)
        items = {"/pods?": [make_pod("x")], "/workloads?": [make_workload()], "/events": [make_event("x", 1, "x")]}
        found = {path: next((items[part] for part in items if part in path), None) for path in paths}
        return {path: Answer(404 if each is None else 200, {"items": each or []}) for path, each in found.items()}

    monkeypatch.setattr("trainstack.live.events.read", read)
    body = make_launch_body()
    assert [each.name for each in read_events([body], [LAUNCH], None)] == ["x"]
    within = "namespaces/research"
    assert asked == [
        f"/api/v1/{within}/events",
        f"/api/v1/{within}/pods?labelSelector=trainstack.dev/launch%3D{LAUNCH}",
        f"/apis/kueue.x-k8s.io/v1beta2/{within}/workloads?labelSelector=kueue.x-k8s.io/job-uid%3Djob-uid",
        f"/api/v1/{within}/persistentvolumeclaims/training",
    ]
