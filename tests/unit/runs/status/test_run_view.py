"""The view of a run, from recorded objects."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.live_objects import (
    Body,
    make_condition,
    make_launch_body,
    make_pending,
    make_pod,
    make_queue,
    make_replica,
    make_workload,
)
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.status.run_view import ClaimUse, Condition, RunObjects, run_view
from trainstack.runs.status.usage import ResourceUse, Usage, merge_summaries
from trainstack.runs.status.waiting import Queueing

NOW = datetime(2026, 1, 2, 3, 4, 15, tzinfo=UTC)
HELD = Queueing(make_pending("ClusterQueue shared is stopped"), make_queue("research", "Ready"))
RUNS = Queueing(make_workload(make_condition("QuotaReserved"), make_condition("Admitted")), None)
ON_HOLD = "cluster queue shared is stopped (stopPolicy): ask its owner to resume it"


OWN = make_workload()["metadata"]["name"]


@pytest.mark.parametrize(
    ("positions", "position"),
    [({"other": 0, OWN: 1}, 1), ({"other": 0}, "unknown"), ({}, "unknown"), (None, "unknown")],
    ids=["second", "not listed", "empty", "no right, or no such API"],
)
def test_the_position_in_the_queue(positions: dict[str, int] | None, position: int | str) -> None:
    """The position starts at 0. A missing position is unknown, not an error."""
    view = run_view(RunObjects(launch=make_launch_body(), queueing=HELD, positions=positions), NOW)
    assert (view.position, view.queue, view.waits_because) == (position, "research", ON_HOLD)
    suffix = " at position 1" if position == 1 else ""
    assert view.summary() == f"queued in research{suffix}: {ON_HOLD}"


def test_a_running_run_has_no_position_and_waits_for_nothing() -> None:
    """It has quota, its replicas are counted, and its log shows the progress."""
    replicas = {"Master": {"active": 1}, "Worker": {"active": 1, "failed": 1}}
    status = {"replicaStatuses": replicas, "startTime": NOW.isoformat()}
    body = make_launch_body("PyTorchJob", status=status | {"conditions": [make_condition("Running", reason="R")]})
    body["spec"]["runPolicy"] = {"suspend": False}
    log = [LogLine(int(NOW.timestamp() - 10) * 10**9, "epoch 1/4"), LogLine(int(NOW.timestamp()) * 10**9, "epoch 2/4")]
    pods = [make_replica("worker", 0), make_replica("master", 0)]
    view = run_view(RunObjects(launch=body, queueing=RUNS, pods=pods, log=log), NOW)
    assert (view.launch.phase, view.position, view.waits_because, view.admitted) == ("running", None, "", True)
    assert view.replicas == (Replicas("master", 1, active=1), Replicas("worker", 2, active=1, failed=1))
    assert view.conditions == (Condition("Running", "True", "R", NOW - timedelta(seconds=10), ""),)
    assert [pod.role for pod in view.pods] == ["master", "worker"]
    assert view.progress is not None
    assert view.done_fraction == 0.5
    assert view.progress.seconds_left == pytest.approx(20)
    assert (view.started, view.completed) == (NOW, None)
    assert view.summary() == "running; epoch 2/4"


def test_the_quota_of_a_finished_run_is_free() -> None:
    """Kueue v0.16 and later keep the condition of the admission."""
    workload = make_workload(make_condition("Admitted"), make_condition("Finished"))
    view = run_view(RunObjects(launch=make_launch_body(), queueing=Queueing(workload, None)), NOW)
    assert not view.admitted


def test_a_run_in_a_lost_cluster_shows_its_last_state() -> None:
    """Kueue copies the status only while it is connected; an ended run keeps its state."""
    workload = make_workload(make_condition("Admitted"), clusterName="west")
    queueing = Queueing(
        workload, None, dispatched=True, connection_problems={"west": "ClientConnectionFailed: no route"}
    )
    body = make_launch_body()
    body["spec"]["suspend"] = False
    view = run_view(RunObjects(launch=body, queueing=queueing), NOW)
    assert (view.cluster, view.launch.phase) == ("west", "running")
    assert view.lost == "ClientConnectionFailed: no route"
    assert view.summary() == "running; in cluster west, which Kueue does not reach: its last known state"
    ended = make_launch_body(status={"conditions": [make_condition("Complete")]})
    assert run_view(RunObjects(launch=ended, queueing=queueing), NOW).lost == ""
    connected = run_view(RunObjects(launch=body, queueing=Queueing(workload, None, dispatched=True)), NOW)
    assert connected.summary() == "running; in cluster west"


def test_problems_of_pods_replace_the_progress_in_the_summary() -> None:
    """The summary has the replica's name."""
    body = make_launch_body(spec=make_launch_body()["spec"] | {"suspend": False})
    stuck = make_pod(phase="Pending", conditions=[make_condition("PodScheduled", "False", message="no room")])
    view = run_view(RunObjects(launch=body, queueing=RUNS, pods=[stuck]), NOW)
    assert view.summary() == "running; pod-0: not scheduled: no room"


def test_a_failed_run_has_the_controllers_reason() -> None:
    """The reason of an earlier wait is left out."""
    status = {"failed": 2, "conditions": [make_condition("Failed", reason="BackoffLimitExceeded", message="too often")]}
    view = run_view(RunObjects(launch=make_launch_body(status=status), queueing=HELD), NOW)
    assert view.summary() == "failed: BackoffLimitExceeded: too often"
    assert (view.replicas, view.position, view.waits_because) == ((Replicas("pod", 1, failed=2),), None, "")


def test_the_summary_of_a_failure_has_the_problem_of_the_pod() -> None:
    """After a failed checkout the program has no log."""
    ended = {"terminated": {"exitCode": 1, "message": "no such commit"}}
    pod = make_pod(phase="Failed", initContainerStatuses=[{"name": "checkout", "state": ended}])
    status = {"conditions": [make_condition("Failed", reason="BackoffLimitExceeded", message="too often")]}
    view = run_view(RunObjects(launch=make_launch_body(status=status), queueing=RUNS, pods=[pod]), NOW)
    assert view.summary() == "failed: BackoffLimitExceeded: too often; pod-0: no such commit"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_a_bare_pod_is_its_own_replica(phase: str) -> None:
    """Its phase is counted, and its claims are those of the run."""
    body = make_launch_body(queue=None) | {"kind": "Pod", "apiVersion": "v1", "status": {"phase": phase}}
    body["spec"] = body["spec"]["template"]["spec"]
    view = run_view(RunObjects(launch=body, queueing=RUNS, pods=[body], claims={"training": {}}), NOW)
    (replicas,) = view.replicas
    counted = {"Succeeded": (0, 1, 0), "Failed": (0, 0, 1)}.get(phase, (1, 0, 0))
    assert (replicas.active, replicas.succeeded, replicas.failed, replicas.of) == (*counted, 1)
    assert [(pod.role, pod.index) for pod in view.pods] == [("pod", 0)]
    assert [claim.name for claim in view.claims] == ["training"]


@pytest.mark.parametrize(
    ("claims", "used", "expected"),
    [
        (
            {"training": {"spec": {"resources": {"requests": {"storage": "2Gi"}}}, "status": {"phase": "Bound"}}},
            {("research", "training"): 5},
            ClaimUse("training", "Bound", "2Gi", 5),
        ),
        (
            {"training": {"spec": {"resources": {"requests": {"storage": "2Gi"}}}, "status": {"phase": "Bound"}}},
            None,
            ClaimUse("training", "Bound", "2Gi", "unknown"),
        ),
        ({"training": {}}, None, ClaimUse("training", "missing", "unknown", "unknown")),
        ({"training": None}, None, ClaimUse("training", "unknown", "unknown", "unknown")),
    ],
    ids=["measured", "not measured", "missing", "no right"],
)
def test_the_use_of_volumes(
    claims: dict[str, Body | None], used: dict[tuple[str, str], int] | None, expected: ClaimUse
) -> None:
    """Missing values are unknown."""
    objects = RunObjects(launch=make_launch_body(), queueing=HELD, claims=claims, usage=Usage(claims=used or {}))
    assert run_view(objects, NOW).claims == (expected,)


def test_the_use_of_pods_and_their_nodes() -> None:
    """The kubelets report it. Missing counts and nodes without pods of the run are left out."""
    pod = make_replica("Master", 0)
    counted = {"cpu": {"usageNanoCores": 1_500_000_000}, "memory": {"workingSetBytes": 2**30}}
    summaries: list[Body] = [
        {
            "node": {"nodeName": pod["spec"]["nodeName"], **counted},
            "pods": [{"podRef": {"uid": "of others"}, **counted}],
        },
        {"node": {"nodeName": "elsewhere", **counted}},
        {"node": {"nodeName": "young", "cpu": {}}, "pods": [{"podRef": {"uid": pod["metadata"]["uid"]}, **counted}]},
    ]
    objects = RunObjects(launch=make_launch_body(), queueing=RUNS, pods=[pod], usage=merge_summaries(summaries))
    view = run_view(objects, NOW)
    assert view.pod_use == {pod["metadata"]["name"]: ResourceUse(1.5, 2**30)}
    assert view.node_use == {pod["spec"]["nodeName"]: ResourceUse(1.5, 2**30)}


def test_a_suspended_run_without_a_queue_has_no_position() -> None:
    """A user suspended it."""
    view = run_view(RunObjects(launch=make_launch_body(queue=None), queueing=Queueing({}, {})), NOW)
    assert (view.queue, view.position) == (None, None)
    assert view.waits_because == "it is suspended without a queue: `suspend` was set manually"
