"""What the trials of a sweep are doing, from live objects."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.unit.checks.live import NOW, Body, make_condition, make_pending
from tests.unit.checks.sweep_cases import ids, name_of_file
from tests.unit.workloads.sweeps import make_indexed, make_planned
from trainstack.objects.labels import LAUNCH
from trainstack.runs.records import Ledger
from trainstack.runs.status.waiting import Queueing
from trainstack.sweeps.launches import PlannedSweep
from trainstack.sweeps.status import LiveTrial, SweepObjects, live_trials, trial_pods

AT = datetime.fromisoformat(NOW)
INDEX = "batch.kubernetes.io/job-completion-index"
LATER = "2026-01-02T03:14:05Z"


def alive(ledger: Ledger, uid: str = "uid", *, suspend: bool = False, **status: Any) -> Body:
    """A launch as the API server gives it."""
    body: Body = {**ledger.launch, "spec": {**ledger.launch["spec"], "suspend": suspend}, "status": status}
    body["metadata"] = {**body["metadata"], "uid": uid, "creationTimestamp": NOW}
    return body


def make_pod(ledger: Ledger, index: int = 0, *, phase: str = "Running", created: str = NOW, **status: Any) -> Body:
    """A pod of a launch, with this completion index."""
    return {
        "metadata": {
            "name": f"{ledger.launch_name}-{index}-{created}",
            "namespace": "research",
            "creationTimestamp": created,
            "labels": {LAUNCH: ledger.launch_name, INDEX: str(index)},
        },
        "spec": {"containers": [{"name": "training"}]},
        "status": {"phase": phase, "startTime": created, **status},
    }


def ended(code: int, reason: str = "Error") -> Body:
    """The status of a container that has ended."""
    terminated = {"exitCode": code, "reason": reason, "finishedAt": LATER}
    return {"containerStatuses": [{"name": "training", "state": {"terminated": terminated}}]}


def one(planned: PlannedSweep, body: Body, *pods: Body, **read: Any) -> LiveTrial:
    """What becomes of the first trial, launched by itself."""
    return live_trials(SweepObjects(launches=[body], pods=pods, **read))[ids(planned)[0]]


def of_batch(planned: PlannedSweep, ledger: Ledger, status: Mapping[str, Any], *pods: Body) -> list[LiveTrial]:
    """What becomes of all trials of a batch, by index."""
    found = live_trials(SweepObjects(launches=[alive(ledger, **status)], ledgers=[ledger], pods=pods))
    return [found[run_id] for run_id in ids(planned)]


def test_a_queued_trial_says_why_it_waits() -> None:
    """In Kueue's reasons, as any run's."""
    planned = make_planned()
    ledger = planned.job(ids(planned)[0])
    why = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor cpu, 1 more needed"
    queueing = {"uid": Queueing(workload=make_pending(why), local_queue=None)}
    found = one(planned, alive(ledger, suspend=True), queueing=queueing)
    said = "insufficient cpu: 1 more of flavor cpu must become free"
    assert found == LiveTrial(state="queued", reason=said)
    assert one(planned, alive(ledger, suspend=True)) == LiveTrial(state="queued")


def test_one_that_was_preempted_is_queued_and_says_by_whom() -> None:
    """It was evicted, and goes on later."""
    planned = make_planned()
    ledger = planned.job(ids(planned)[0])
    evicted = make_condition("Evicted", reason="Preempted", message="Preempted to accommodate (UID: 1, JobUID: ab12)")
    workload = {"metadata": {}, "status": {"conditions": [evicted]}}
    queueing = {"uid": Queueing(workload=workload, local_queue=None, owners={"ab12": "research/urgent"})}
    found = one(planned, alive(ledger, suspend=True), queueing=queueing)
    assert (found.state, found.reason) == ("queued", "it was preempted by research/urgent")


def test_a_running_trial_says_what_its_pod_lacks() -> None:
    """And since when it runs."""
    planned = make_planned()
    ledger = planned.job(ids(planned)[0])
    body = alive(ledger, startTime=NOW)
    assert one(planned, body, make_pod(ledger)) == LiveTrial(state="running", started=AT, attempts=1)
    container: Body = {"name": "training", "image": "x", "state": {"waiting": {"reason": "ErrImagePull"}}}
    pod = make_pod(ledger, phase="Pending", containerStatuses=[container])
    assert "cannot be pulled" in one(planned, body, pod).reason


FAILED = make_condition("Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")


@pytest.mark.parametrize(
    ("condition", "pods", "reason"),
    [
        (FAILED, [ended(1)], "crashed (exit 1)"),
        (FAILED, [ended(2), ended(3)], "crashed (exit 3)"),
        (FAILED, [ended(137, "OOMKilled")], "out of memory (exit 137): raise its limit in `resources`"),
        (FAILED, [{"reason": "DeadlineExceeded"}], "deadline: it exceeded activeDeadlineSeconds"),
        (
            FAILED,
            [{"conditions": [make_condition("DisruptionTarget", message="drained")], **ended(143)}],
            "evicted: drained",
        ),
        (FAILED, [{"reason": "Evicted", "message": "The node was low on resource: memory."}], "evicted: The node was "),
        (FAILED, [], ""),
        (
            make_condition("Failed", reason="DeadlineExceeded"),
            [ended(1)],
            "deadline: it exceeded activeDeadlineSeconds",
        ),
    ],
)
def test_a_failed_trial_says_what_ended_it(condition: Body, pods: Sequence[Body], reason: str) -> None:
    """The last pod's end, which says more than the controller."""
    planned = make_planned()
    ledger = planned.job(ids(planned)[0])
    there = [
        make_pod(ledger, phase="Failed", created=f"2026-01-02T03:0{number}:05Z", **status)
        for number, status in enumerate(pods)
    ]
    found = one(planned, alive(ledger, conditions=[condition], startTime=NOW), *reversed(there))
    assert (found.state, found.attempts) == ("failed", len(pods))
    assert found.reason.startswith(reason)
    assert bool(found.reason) == bool(reason)
    words = "" if reason else "BackoffLimitExceeded: Job has reached the specified backoff limit"
    assert (found.controller, found.started, found.finished) == (words, AT, AT)


def test_a_trial_without_an_object_is_gone() -> None:
    """Its ledger knows it; a trial that nothing knows is not there at all."""
    planned = make_planned()
    run_ids = ids(planned)
    found = live_trials(SweepObjects(ledgers=[planned.job(run_ids[0])]))
    assert found == {run_ids[0]: LiveTrial(state="gone")}


def test_the_indexes_of_a_batch_are_trials_of_their_own() -> None:
    """Done, running, tried again; the others wait for a place in it."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch(run_ids, name_of_file(planned, run_ids))
    pods = [
        make_pod(ledger, 0, phase="Succeeded", **ended(0)),
        make_pod(ledger, 1),
        make_pod(ledger, 2, phase="Failed", **ended(1)),
    ]
    assert of_batch(planned, ledger, {"completedIndexes": "0", "startTime": NOW}, *pods) == [
        LiveTrial(state="succeeded", started=AT, finished=datetime.fromisoformat(LATER), attempts=1),
        LiveTrial(state="running", started=AT, attempts=1),
        LiveTrial(state="queued", reason="it is retried: crashed (exit 1)", attempts=1),
        LiveTrial(state="queued", reason="its batch runs 2 trials at once"),
    ]


def test_a_failed_index_is_told_by_its_last_pod() -> None:
    """With 79 it is finished, and has only not reached the target; without a pod its record has to tell."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch(run_ids, name_of_file(planned, run_ids))
    pods = [
        make_pod(ledger, 0, phase="Failed", **ended(1)),
        make_pod(ledger, 1, phase="Failed", **ended(79)),
        make_pod(ledger, 3, phase="Failed", reason="DeadlineExceeded"),
    ]
    found = of_batch(planned, ledger, {"failedIndexes": "0-3"}, *pods)
    assert [each.state for each in found] == ["failed", "succeeded", "gone", "failed"]
    assert [each.reason for each in found] == [
        "crashed (exit 1)",
        "",
        "",
        "deadline: it exceeded activeDeadlineSeconds",
    ]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (make_condition("Complete", reason="SuccessPolicy"), "another trial has reached the target"),
        (
            make_condition("Failed", reason="DeadlineExceeded"),
            "the batch exceeded the sweep's activeDeadlineSeconds",
        ),
        (
            make_condition("Failed", reason="MaxFailedIndexesExceeded"),
            "too many other trials have failed",
        ),
        (make_condition("Failed", reason="Odd", message="why"), "its batch has failed: Odd: why"),
    ],
)
def test_trials_that_a_batch_has_not_come_to_were_stopped(condition: Body, reason: str) -> None:
    """And it is said by what."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch(run_ids, name_of_file(planned, run_ids))
    found = of_batch(planned, ledger, {"completedIndexes": "0,2-3", "conditions": [condition]})
    assert [each.state for each in found] == ["succeeded", "stopped", "succeeded", "succeeded"]
    assert found[1].reason.startswith(reason)


def test_a_queued_batch_says_why_for_all_its_trials() -> None:
    """It is one Workload."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch(run_ids, name_of_file(planned, run_ids))
    queueing = {"uid": Queueing(workload=make_pending("LocalQueue research is stopped"), local_queue=None)}
    found = live_trials(SweepObjects(launches=[alive(ledger, suspend=True)], ledgers=[ledger], queueing=queueing))
    assert {each.reason for each in found.values()} == {
        "queue research is stopped (stopPolicy): ask its owner to resume it"
    }
    assert [*found] == run_ids


def test_a_batch_that_an_interrupted_up_left_is_read_by_its_file() -> None:
    """It has no ledger; its file tells which trials its indexes are."""
    planned = make_indexed()
    run_ids = ids(planned)
    file = name_of_file(planned, run_ids)
    files = {file: planned.batch_file(run_ids)}
    found = live_trials(SweepObjects(launches=[alive(planned.batch(run_ids, file))], files=files))
    assert [*found] == run_ids
    gone = live_trials(SweepObjects(ledgers=[planned.batch(run_ids, file)]))
    assert gone == {run_id: LiveTrial(state="gone") for run_id in run_ids}


def test_the_log_that_counts_is_that_of_the_attempt_that_succeeded() -> None:
    """Else of the youngest; a pod that has not begun has no log, and an Indexed Job has records."""
    planned = make_planned()
    run_id = ids(planned)[0]
    ledger = planned.job(run_id)
    failed, good, waits = (
        make_attempt(ledger, created, phase)
        for created, phase in ((NOW, "Failed"), (LATER, "Succeeded"), ("2026-01-02T04:00:00Z", "Pending"))
    )
    late = make_attempt(ledger, "2026-01-02T05:00:00Z", "Failed")
    for pods, expected in (((failed,), failed), ((late, good, failed, waits), good), ((failed, late), late)):
        assert trial_pods(SweepObjects(launches=[alive(ledger)], pods=pods)) == {run_id: expected}
    assert trial_pods(SweepObjects(launches=[alive(ledger)], pods=[waits])) == {}
    indexed = make_indexed()
    batch = indexed.batch(ids(indexed), name_of_file(indexed, ids(indexed)))
    assert trial_pods(SweepObjects(launches=[alive(batch)], ledgers=[batch], pods=[make_pod(batch)])) == {}


def make_attempt(ledger: Ledger, created: str, phase: str) -> Body:
    """A pod of a Job that is not indexed."""
    pod = make_pod(ledger, phase=phase, created=created)
    return {**pod, "metadata": {**pod["metadata"], "uid": created, "labels": {LAUNCH: ledger.launch_name}}}
