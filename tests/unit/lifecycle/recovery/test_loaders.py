"""Data loaders that have not started: their detection, their report, and the age at which they are abandoned."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainstack.lifecycle.recovery.loaders import WaitingLoader, find_waiting_loaders, loader_problems
from trainstack.live import loaders as reading
from trainstack.live.client import FORBIDDEN, Answer
from trainstack.objects.labels import QUEUE

CREATED = datetime(2026, 11, 22, 12, tzinfo=UTC)


def make_job(*, suspend: bool = False, **status: Any) -> dict[str, Any]:
    """Return a loader's Job on the queue `research`."""
    metadata = {
        "name": "loader-1",
        "namespace": "lab",
        "creationTimestamp": "2026-11-22T12:00:00Z",
        "labels": {QUEUE: "research"},
    }
    return {"metadata": metadata, "spec": {"suspend": suspend}, "status": status}


def make_waiting(held_by: str | None = "research") -> WaitingLoader:
    """Return a loader that waits since CREATED."""
    return WaitingLoader("lab", "loader-1", CREATED, held_by)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (make_job(suspend=True), [make_waiting()]),
        (make_job(active=1), [make_waiting(None)]),
        (make_job(active=1, ready=0), [make_waiting(None)]),
        (make_job(active=1, ready=1), []),
        (make_job(failed=1), []),
        (make_job(conditions=[{"type": "Failed", "status": "True"}]), []),
        (make_job(suspend=True, conditions=[{"type": "Suspended", "status": "True"}]), [make_waiting()]),
    ],
    ids=["queued", "unscheduled", "image-not-pulled", "runs", "ended", "failed", "suspended"],
)
def test_a_loader_waits_until_its_pod_runs(job: dict[str, Any], expected: list[WaitingLoader]) -> None:
    """Afterwards its own limits apply."""
    assert find_waiting_loaders([job]) == expected


def test_a_terminating_loader_does_not_wait() -> None:
    """Its command has deleted it."""
    job = make_job(suspend=True)
    job["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:01Z"
    assert find_waiting_loaders([job]) == []


def test_the_doctor_reports_a_waiting_loader_with_the_command_that_deletes_it() -> None:
    """It is not reported in its first seconds, while the command that created it is expected to run."""
    waiting = [make_waiting()]
    assert list(loader_problems(waiting, CREATED + timedelta(seconds=20))) == []
    (problem,) = loader_problems(waiting, CREATED + timedelta(minutes=1))
    assert (problem.id, problem.what) == ("loader-waiting", "Job lab/loader-1")
    assert problem.message == (
        "a command created this data loader at 2026-11-22 12:00:00 UTC, and queue "
        "research has not admitted it. A command that is still waiting for it prints the reason; if it was killed, "
        "delete the loader"
    )
    assert problem.commands == ("kubectl delete job loader-1 -n lab",)
    (pending,) = loader_problems([make_waiting(None)], CREATED + timedelta(minutes=1))
    assert "its pod has not started" in pending.message


def test_a_loader_is_abandoned_after_the_longest_wait_of_a_command() -> None:
    """A command waits a day for the queue and ten minutes for the pod."""
    assert not make_waiting().is_abandoned(CREATED + timedelta(hours=24, minutes=10))
    assert make_waiting().is_abandoned(CREATED + timedelta(hours=24, minutes=11))


def test_loaders_are_the_launches_of_a_stack_without_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every namespace of the environment is read; without the right to list Jobs there are none."""
    selector = "labelSelector=trainstack.dev/stack%3Dlab%2Ctrainstack.dev/launch%2C%21trainstack.dev/run"
    answers = {
        f"/apis/batch/v1/namespaces/lab/jobs?{selector}": Answer(200, {"items": [make_job()]}),
        f"/apis/batch/v1/namespaces/other/jobs?{selector}": Answer(FORBIDDEN, {}),
        f"/apis/batch/v1/jobs?{selector}": Answer(200, {"items": None}),
    }
    monkeypatch.setattr(reading, "read", lambda paths, _: {path: answers[path] for path in paths})
    assert reading.read_loaders("lab", ["lab", "other"], None) == [make_job()]
    assert reading.read_loaders("lab", [None], None) == []
