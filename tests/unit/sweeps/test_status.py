"""The states of a sweep's trials, from live objects."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.unit.live_objects import NOW, Body, make_condition, make_pending
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from tests.unit.sweeps.sweep_cases import ids, name_of_file
from trainstack.objects.labels import LAUNCH
from trainstack.runs.ledgers import Ledger
from trainstack.runs.status.waiting import Queueing
from trainstack.sweeps.planned_sweep import PlannedSweep
from trainstack.sweeps.status import LiveTrial, SweepObjects, live_trials, trial_clusters, trial_pods

AT = datetime.fromisoformat(NOW)
INDEX = "batch.kubernetes.io/job-completion-index"
LATER = "2026-01-02T03:14:05Z"


def alive(ledger: Ledger, uid: str = "uid", *, suspend: bool = False, **status: Any) -> Body:
    """Return a launch as the API server returns it."""
    body: Body = {**ledger.launch, "spec": {**ledger.launch["spec"], "suspend": suspend}, "status": status}
    body["metadata"] = {**body["metadata"], "uid": uid, "creationTimestamp": NOW}
    return body


def make_pod(ledger: Ledger, index: int = 0, *, phase: str = "Running", created: str = NOW, **status: Any) -> Body:
    """Return a pod of a launch, with this completion index."""
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
    """Return the status of a pod whose container has ended."""
    terminated = {"exitCode": code, "reason": reason, "finishedAt": LATER}
    return {"containerStatuses": [{"name": "training", "state": {"terminated": terminated}}]}


def first_trial(planned: PlannedSweep, body: Body, *pods: Body, **read: Any) -> LiveTrial:
    """Return the state of the first trial, which has its own Job."""
    return live_trials(SweepObjects(launches=[body], pods=pods, **read))[ids(planned)[0]]


def batch_trials(planned: PlannedSweep, ledger: Ledger, status: Mapping[str, Any], *pods: Body) -> list[LiveTrial]:
    """Return the states of all trials of a batch, by index."""
    trials = live_trials(SweepObjects(launches=[alive(ledger, **status)], ledgers=[ledger], pods=pods))
    return [trials[run_id] for run_id in ids(planned)]


def test_a_queued_trial_has_the_reason_why_it_waits() -> None:
    """The reason is Kueue's, as for any run."""
    planned = make_planned()
    ledger = planned.job_ledger(ids(planned)[0])
    message = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor cpu, 1 more needed"
    queueing = {"uid": Queueing(workload=make_pending(message), local_queue=None)}
    trial = first_trial(planned, alive(ledger, suspend=True), queueing=queueing)
    reason = "insufficient cpu: 1 more of flavor cpu must become free"
    assert trial == LiveTrial(state="queued", reason=reason)
    assert first_trial(planned, alive(ledger, suspend=True)) == LiveTrial(state="queued")


def test_a_preempted_trial_is_queued_with_the_preempting_workload() -> None:
    """The trial was evicted, and continues later."""
    planned = make_planned()
    ledger = planned.job_ledger(ids(planned)[0])
    evicted = make_condition("Evicted", reason="Preempted", message="Preempted to accommodate (UID: 1, JobUID: ab12)")
    workload = {"metadata": {}, "status": {"conditions": [evicted]}}
    queueing = {"uid": Queueing(workload=workload, local_queue=None, owners={"ab12": "research/urgent"})}
    trial = first_trial(planned, alive(ledger, suspend=True), queueing=queueing)
    assert (trial.state, trial.reason) == ("queued", "it was preempted by research/urgent")


def test_a_running_trial_has_the_problem_of_its_pod() -> None:
    """It also has its start time."""
    planned = make_planned()
    ledger = planned.job_ledger(ids(planned)[0])
    body = alive(ledger, startTime=NOW)
    assert first_trial(planned, body, make_pod(ledger)) == LiveTrial(state="running", started=AT, attempts=1)
    container: Body = {"name": "training", "image": "x", "state": {"waiting": {"reason": "ErrImagePull"}}}
    pod = make_pod(ledger, phase="Pending", containerStatuses=[container])
    assert "cannot be pulled" in first_trial(planned, body, pod).reason


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
def test_a_failed_trial_has_the_reason_of_its_last_pod(condition: Body, pods: Sequence[Body], reason: str) -> None:
    """The status of the last pod is more specific than the controller's condition."""
    planned = make_planned()
    ledger = planned.job_ledger(ids(planned)[0])
    bodies = [
        make_pod(ledger, phase="Failed", created=f"2026-01-02T03:0{number}:05Z", **status)
        for number, status in enumerate(pods)
    ]
    trial = first_trial(planned, alive(ledger, conditions=[condition], startTime=NOW), *reversed(bodies))
    assert (trial.state, trial.attempts) == ("failed", len(pods))
    assert trial.reason.startswith(reason)
    assert bool(trial.reason) == bool(reason)
    message = "" if reason else "BackoffLimitExceeded: Job has reached the specified backoff limit"
    assert (trial.controller, trial.started, trial.finished) == (message, AT, AT)


def test_a_trial_without_an_object_is_gone() -> None:
    """Only its ledger exists. A trial without a ledger is not listed."""
    planned = make_planned()
    run_ids = ids(planned)
    trials = live_trials(SweepObjects(ledgers=[planned.job_ledger(run_ids[0])]))
    assert trials == {run_ids[0]: LiveTrial(state="gone")}


def test_each_index_of_a_batch_is_a_trial() -> None:
    """One has succeeded, one runs, one is retried; the others wait for a slot of the batch."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch_ledger(run_ids, name_of_file(planned, run_ids))
    pods = [
        make_pod(ledger, 0, phase="Succeeded", **ended(0)),
        make_pod(ledger, 1),
        make_pod(ledger, 2, phase="Failed", **ended(1)),
    ]
    assert batch_trials(planned, ledger, {"completedIndexes": "0", "startTime": NOW}, *pods) == [
        LiveTrial(state="succeeded", started=AT, finished=datetime.fromisoformat(LATER), attempts=1),
        LiveTrial(state="running", started=AT, attempts=1),
        LiveTrial(state="queued", reason="it is retried: crashed (exit 1)", attempts=1),
        LiveTrial(state="queued", reason="its batch runs 2 trials at once"),
    ]


def test_the_last_pod_decides_the_state_of_a_failed_index() -> None:
    """Exit code 79 is a success that has not reached the target; without a pod only the record has the outcome."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch_ledger(run_ids, name_of_file(planned, run_ids))
    pods = [
        make_pod(ledger, 0, phase="Failed", **ended(1)),
        make_pod(ledger, 1, phase="Failed", **ended(79)),
        make_pod(ledger, 3, phase="Failed", reason="DeadlineExceeded"),
    ]
    trials = batch_trials(planned, ledger, {"failedIndexes": "0-3"}, *pods)
    assert [trial.state for trial in trials] == ["failed", "succeeded", "gone", "failed"]
    assert [trial.reason for trial in trials] == [
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
def test_trials_that_a_batch_did_not_start_were_stopped(condition: Body, reason: str) -> None:
    """The reason names the cause."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch_ledger(run_ids, name_of_file(planned, run_ids))
    trials = batch_trials(planned, ledger, {"completedIndexes": "0,2-3", "conditions": [condition]})
    assert [trial.state for trial in trials] == ["succeeded", "stopped", "succeeded", "succeeded"]
    assert trials[1].reason.startswith(reason)


def test_all_trials_of_a_queued_batch_have_its_reason() -> None:
    """The batch is one Workload."""
    planned = make_indexed()
    run_ids = ids(planned)
    ledger = planned.batch_ledger(run_ids, name_of_file(planned, run_ids))
    queueing = {"uid": Queueing(workload=make_pending("LocalQueue research is stopped"), local_queue=None)}
    trials = live_trials(SweepObjects(launches=[alive(ledger, suspend=True)], ledgers=[ledger], queueing=queueing))
    assert {trial.reason for trial in trials.values()} == {
        "queue research is stopped (stopPolicy): ask its owner to resume it"
    }
    assert [*trials] == run_ids


def test_a_batch_that_an_interrupted_up_left_is_read_by_its_file() -> None:
    """The batch has no ledger; its file lists the trials of its indexes."""
    planned = make_indexed()
    run_ids = ids(planned)
    file = name_of_file(planned, run_ids)
    files = {file: planned.batch_file(run_ids)}
    trials = live_trials(SweepObjects(launches=[alive(planned.batch_ledger(run_ids, file))], files=files))
    assert [*trials] == run_ids
    gone = live_trials(SweepObjects(ledgers=[planned.batch_ledger(run_ids, file)]))
    assert gone == {run_id: LiveTrial(state="gone") for run_id in run_ids}


def test_trials_are_in_the_clusters_of_their_launches() -> None:
    """A batch has one cluster for all its trials; a trial that was launched alone later has its own."""
    batched, single = make_indexed(dispatches=True), make_planned(dispatches=True)
    run_ids = ids(batched)
    batch = batched.batch_ledger(run_ids, name_of_file(batched, run_ids))
    job = single.job_ledger(run_ids[0])
    clusters = {batch.launch_name: "west", job.launch_name: "east"}
    launches = [alive(batch), alive(job, "other")]
    read = SweepObjects(launches=launches, ledgers=[batch], clusters=clusters)
    assert trial_clusters(read) == {run_ids[0]: "east", **dict.fromkeys(run_ids[1:], "west")}
    undispatched = SweepObjects(
        launches=[alive(batch), alive(job, "other")], ledgers=[batch], clusters={batch.launch_name: "west"}
    )
    assert trial_clusters(undispatched) == dict.fromkeys(run_ids[1:], "west")


def test_trials_in_an_unreachable_cluster_do_not_count_as_queued() -> None:
    """The Job in the manager cluster shows which trials have ended."""
    planned = make_indexed(dispatches=True)
    run_ids = ids(planned)
    batch = planned.batch_ledger(run_ids, name_of_file(planned, run_ids))
    trials = live_trials(
        SweepObjects(
            launches=[alive(batch, completedIndexes="0")],
            ledgers=[batch],
            clusters={batch.launch_name: "west"},
            unreached={"west": "no route"},
        )
    )
    assert [trials[run_id].state for run_id in run_ids] == ["succeeded", *["running"] * (len(run_ids) - 1)]
    assert trials[run_ids[1]].reason == "its cluster west cannot be read"


def test_the_log_of_a_trial_is_that_of_the_attempt_that_succeeded() -> None:
    """Otherwise that of the latest attempt. A pending pod has no log, and an Indexed Job has records instead."""
    planned = make_planned()
    run_id = ids(planned)[0]
    ledger = planned.job_ledger(run_id)
    failed, succeeded, pending = (
        make_attempt(ledger, created, phase)
        for created, phase in ((NOW, "Failed"), (LATER, "Succeeded"), ("2026-01-02T04:00:00Z", "Pending"))
    )
    last_failed = make_attempt(ledger, "2026-01-02T05:00:00Z", "Failed")
    for pods, expected in (
        ((failed,), failed),
        ((last_failed, succeeded, failed, pending), succeeded),
        ((failed, last_failed), last_failed),
    ):
        assert trial_pods(SweepObjects(launches=[alive(ledger)], pods=pods)) == {run_id: expected}
    assert trial_pods(SweepObjects(launches=[alive(ledger)], pods=[pending])) == {}
    indexed = make_indexed()
    batch = indexed.batch_ledger(ids(indexed), name_of_file(indexed, ids(indexed)))
    assert trial_pods(SweepObjects(launches=[alive(batch)], ledgers=[batch], pods=[make_pod(batch)])) == {}


def make_attempt(ledger: Ledger, created: str, phase: str) -> Body:
    """Return a pod of a Job that is not indexed."""
    pod = make_pod(ledger, phase=phase, created=created)
    return {**pod, "metadata": {**pod["metadata"], "uid": created, "labels": {LAUNCH: ledger.launch_name}}}
