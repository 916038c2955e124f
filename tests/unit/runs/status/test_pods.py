"""Problems of pods in plain words; the scheduler's messages are recorded from v1.34."""

from typing import Any

import pytest

from tests.unit.live_objects import make_condition, make_pod, make_replica
from trainstack.runs.status.pods import explain_unscheduled, pod_problems, pod_views


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Return the status of a waiting container."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": "training", "image": "nowhere/x:1", "state": state, "restartCount": 2}


@pytest.mark.parametrize(
    ("message", "summary"),
    [
        (
            (
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No "
                "preemption victims found for incoming pod."
            ),
            "1 of 1 nodes has too little nvidia.com/gpu left",
        ),
        (
            (
                "0/5 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: true}, 3 node(s) "
                "didn't match Pod's node affinity/selector. preemption: 0/5 nodes are available: 5 none."
            ),
            (
                "1 of 5 nodes has too little cpu left; 1 of 5 nodes has an untolerated taint (gpu: true); "
                "3 of 5 nodes have labels that do not match its node selector"
            ),
        ),
        (
            "0/1 nodes are available: 1 node(s) had volume node affinity conflict.",
            "1 of 1 nodes has no access to its volume (node affinity conflict)",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "its volume claim is not bound yet: is there a provisioner for the claim's storage class?",
        ),
        (
            '0/1 nodes are available: persistentvolumeclaim "lost" not found. not found',
            "volume claim lost does not exist",
        ),
        (
            (
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
                "available: 1 No preemption victims found for incoming pod."
            ),
            "1 of 1 nodes has too little cpu left",
        ),
        ("0/2 nodes are available: 2 node(s) did something new.", "2 of 2 nodes: node(s) did something new"),
        ("no words that we know", "no words that we know"),
        ("", "the scheduler gave no reason"),
    ],
)
def test_why_a_pod_is_not_scheduled(message: str, summary: str) -> None:
    """The summary counts the nodes by reason; unknown reasons are kept unchanged."""
    assert explain_unscheduled(message) == summary


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ()),
        ({"containerStatuses": [waiting("ContainerCreating")]}, ()),
        (
            {"containerStatuses": [waiting("ImagePullBackOff", "Back-off pulling")]},
            (
                (
                    "ImagePullBackOff (the image nowhere/x:1 cannot be pulled: build and push it, or correct the run's "
                    "`image`)"
                ),
            ),
        ),
        (
            {"containerStatuses": [waiting("CreateContainerConfigError", 'secret "token" not found')]},
            ('CreateContainerConfigError (secret "token" not found)',),
        ),
        (
            {
                "containerStatuses": [
                    waiting("CrashLoopBackOff") | {"lastState": {"terminated": {"reason": "OOMKilled"}}},
                ]
            },
            (
                "CrashLoopBackOff (the container exited and restarts after a back-off: read its log)",
                "OOMKilled (it exceeded its memory limit: raise it in `resources`)",
            ),
        ),
        (
            {"conditions": [make_condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 x.")]},
            ("not scheduled: 1 of 1 nodes: x",),
        ),
    ],
)
def test_why_a_pod_does_not_start(status: dict[str, Any], expected: tuple[str, ...]) -> None:
    """Each container has its problem, with the image's name."""
    assert pod_problems(make_pod(**status)) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"state": {"running": {}}}, ()),
        ({"state": {"terminated": {"exitCode": 0}}}, ()),
        (
            {"state": {"terminated": {"exitCode": 1, "message": "the checkout failed: b\n"}}},
            ("the checkout failed: b",),
        ),
        ({"state": {"terminated": {"exitCode": 137}}}, ("the checkout of the code failed: read its log",)),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "the checkout failed: b"}},
            },
            (
                "CrashLoopBackOff (the container exited and restarts after a back-off: read its log)",
                "the checkout failed: b",
            ),
        ),
    ],
)
def test_a_failed_checkout_is_reported_with_its_message(state: dict[str, Any], expected: tuple[str, ...]) -> None:
    """It is reported also during the kubelet's back-off."""
    assert pod_problems(make_pod(phase="Pending", initContainerStatuses=[{"name": "checkout", **state}])) == expected


def test_replicas_are_named_by_role_and_index() -> None:
    """The master is first, then the workers in numerical order."""
    pods = [make_replica("worker", 10), make_replica("worker", 2), make_replica("master", 0)]
    assert [(pod.role, pod.index) for pod in pod_views(pods, "PyTorchJob")] == [
        ("master", 0),
        ("worker", 2),
        ("worker", 10),
    ]


def test_a_jobs_pods_are_numbered_by_creation_or_completion_index() -> None:
    """A retry has the next number."""
    first, second = make_pod("z"), make_pod("a", containerStatuses=[waiting("CrashLoopBackOff")])
    second["metadata"]["creationTimestamp"] = "2026-01-02T03:05:00Z"
    views = pod_views([second, first], "Job")
    assert [(pod.name, pod.role, pod.index, pod.restarts) for pod in views] == [("z", "pod", 0, 0), ("a", "pod", 1, 2)]
    indexed = make_pod("b", labels={"batch.kubernetes.io/job-completion-index": "7"})
    assert [pod.index for pod in pod_views([indexed], "Job")] == [7]
