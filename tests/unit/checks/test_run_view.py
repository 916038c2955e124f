"""A run seen from outside, from recorded objects."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.checks.live import (
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
from trainstack.runs.status.usage import Usage, Use, usage
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
def test_the_place_in_the_queue(positions: dict[str, int] | None, position: int | str) -> None:
    """Counted from 0; what is not told is unknown, never a failure."""
    view = run_view(RunObjects(launch=make_launch_body(), queueing=HELD, positions=positions), NOW)
    assert (view.position, view.queue, view.waits_because) == (position, "research", ON_HOLD)
    place = " at position 1" if position == 1 else ""
    assert view.summary() == f"queued in research{place}: {ON_HOLD}"


def test_a_running_run_has_no_place_and_waits_for_nothing() -> None:
    """It holds its quota, its replicas are counted, its log says how far it is."""
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


def test_pods_that_do_not_start_come_before_the_log() -> None:
    """With the replica's name."""
    body = make_launch_body(spec=make_launch_body()["spec"] | {"suspend": False})
    stuck = make_pod(phase="Pending", conditions=[make_condition("PodScheduled", "False", message="no room")])
    view = run_view(RunObjects(launch=body, queueing=RUNS, pods=[stuck]), NOW)
    assert view.summary() == "running; pod-0: not scheduled: no room"


def test_a_failed_run_says_why() -> None:
    """In its controller's words; what it waited for is no matter any more."""
    status = {"failed": 2, "conditions": [make_condition("Failed", reason="BackoffLimitExceeded", message="too often")]}
    view = run_view(RunObjects(launch=make_launch_body(status=status), queueing=HELD), NOW)
    assert view.summary() == "failed: BackoffLimitExceeded: too often"
    assert (view.replicas, view.position, view.waits_because) == ((Replicas("pod", 1, failed=2),), None, "")


def test_what_failed_in_a_pod_stands_beside_the_failure() -> None:
    """A checkout that failed leaves no log of the program's."""
    ended = {"terminated": {"exitCode": 1, "message": "no such commit"}}
    pod = make_pod(phase="Failed", initContainerStatuses=[{"name": "checkout", "state": ended}])
    status = {"conditions": [make_condition("Failed", reason="BackoffLimitExceeded", message="too often")]}
    view = run_view(RunObjects(launch=make_launch_body(status=status), queueing=RUNS, pods=[pod]), NOW)
    assert view.summary() == "failed: BackoffLimitExceeded: too often; pod-0: no such commit"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_a_bare_pod_is_its_own_replica(phase: str) -> None:
    """Counted by its phase, and its own claims are the run's."""
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
    """What is not told is unknown."""
    objects = RunObjects(launch=make_launch_body(), queueing=HELD, claims=claims, usage=Usage(claims=used or {}))
    assert run_view(objects, NOW).claims == (expected,)


def test_what_its_pods_and_their_nodes_use() -> None:
    """From what kubelets answered; what has not been counted yet is left out, and so are nodes that it has left."""
    pod = make_replica("Master", 0)
    counted = {"cpu": {"usageNanoCores": 1_500_000_000}, "memory": {"workingSetBytes": 2**30}}
    told: list[Body] = [
        {
            "node": {"nodeName": pod["spec"]["nodeName"], **counted},
            "pods": [{"podRef": {"uid": "of others"}, **counted}],
        },
        {"node": {"nodeName": "elsewhere", **counted}},
        {"node": {"nodeName": "young", "cpu": {}}, "pods": [{"podRef": {"uid": pod["metadata"]["uid"]}, **counted}]},
    ]
    objects = RunObjects(launch=make_launch_body(), queueing=RUNS, pods=[pod], usage=usage(told))
    view = run_view(objects, NOW)
    assert view.pod_use == {pod["metadata"]["name"]: Use(1.5, 2**30)}
    assert view.node_use == {pod["spec"]["nodeName"]: Use(1.5, 2**30)}


def test_a_run_that_no_queue_holds_is_not_looked_for_in_one() -> None:
    """Somebody suspended it."""
    view = run_view(RunObjects(launch=make_launch_body(queue=None), queueing=Queueing({}, {})), NOW)
    assert (view.queue, view.position) == (None, None)
    assert view.waits_because == "it is suspended without a queue: `suspend` was set manually"
