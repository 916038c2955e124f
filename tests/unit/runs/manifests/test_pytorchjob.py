"""Workloads as PyTorchJobs."""

from typing import Any

import pytest

from tests.unit.make import make_distributed, make_mount
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import LAUNCH_LABELS, OBJECT_LABELS, make_launch
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.elastic import Elastic
from trainstack.settings.sections.workloads import Image, Role

PORT = {"containerPort": 23456, "name": "pytorchjob-port", "protocol": "TCP"}


def make_reference_pod(**volume: Any) -> dict[str, Any]:
    """Return the pod template of the CPU job of the operator on vSphere."""
    container: dict[str, Any] = {
        "name": "pytorch",
        "image": "training:1.11.0",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if volume:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/opt/pytorch/output"}]
        spec["volumes"] = [volume]
    return {"metadata": {"labels": LAUNCH_LABELS, "annotations": {"sidecar.istio.io/inject": "false"}}, "spec": spec}


def test_an_unmanaged_job_has_only_the_users_values() -> None:
    """The job of the operator on vSphere: the image's entrypoint, a volume only on the master, unlimited restarts."""
    output = make_mount(volume="data", mount_path="/opt/pytorch/output")
    workload = make_distributed(
        managed=False,
        record=None,
        command=(),
        image=Image(name="training:1.11.0"),
        annotations={"sidecar.istio.io/inject": "false"},
        volumes=(),
        security="baseline",
        roles={"Worker": Role(replicas=2), "Master": Role(volumes=(output,), restart_policy="OnFailure")},
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert manifest(workload, "dev", make_launch(image="training:1.11.0")) == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train-1-2", "namespace": "research", "labels": OBJECT_LABELS},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": make_reference_pod(**volume)},
                "Worker": {"replicas": 2, "template": make_reference_pod()},
            },
        },
    }


def test_a_managed_job_is_recorded_by_its_master() -> None:
    """A worker without the volume has the same path, which does not exist in its pod, so it writes no record."""
    workload = make_distributed(
        args=("--a",), roles={"Master": Role(), "Worker": Role(replicas=2, volumes=(), args=("--b",))}, run_as_user=1000
    )
    replicas = manifest(workload, "dev", make_launch())["spec"]["pytorchReplicaSpecs"]
    pods = {role: replica["template"]["spec"] for role, replica in replicas.items()}
    for role, argument in (("Master", "--a"), ("Worker", "--b")):
        (container,) = pods[role]["containers"]
        variables = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert variables["TRAINSTACK_RECORD"] == "/mnt/training/runs"
        assert container["command"] == ["python3", "/opt/trainstack/run.py", "--", "python3", "train.py", argument]
        assert container["ports"] == [PORT]
        assert violations(pods[role]) == []
    assert [volume["name"] for volume in pods["Worker"]["volumes"]] == ["trainstack-wrapper"]
    assert "restartPolicy" not in pods["Master"]


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({}, {"cleanPodPolicy": "Running", "backoffLimit": 0}),
        ({"backoff_limit": 3}, {"cleanPodPolicy": "Running", "backoffLimit": 3}),
        ({"managed": False}, None),
        ({"managed": False, "backoff_limit": 0}, {"backoffLimit": 0}),
        ({"managed": False, "clean_pod_policy": "Running"}, {"cleanPodPolicy": "Running"}),
        (
            {"clean_pod_policy": "All", "active_deadline_seconds": 60, "ttl_seconds_after_finished": 0},
            {"cleanPodPolicy": "All", "backoffLimit": 0, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0},
        ),
    ],
)
def test_the_run_policy(changes: dict[str, Any], policy: dict[str, Any] | None) -> None:
    """Kueue sets `suspend`. A managed run that keeps failing ends and releases its quota."""
    assert manifest(make_distributed(**changes), "dev", make_launch())["spec"].get("runPolicy") == policy


def test_a_role_overrides_values_of_the_workload() -> None:
    """Environment and annotations are replaced, not merged."""
    roles = {"Master": Role(env={"A": "1"}, annotations={}), "Worker": Role(restart_policy="Never")}
    workload = make_distributed(managed=False, env={"B": "2"}, annotations={"n": "m"}, roles=roles)
    replicas = manifest(workload, "dev", make_launch())["spec"]["pytorchReplicaSpecs"]
    master, worker = replicas["Master"]["template"], replicas["Worker"]["template"]
    assert master["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert worker["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}]
    assert "annotations" not in master["metadata"]
    assert worker["metadata"]["annotations"] == {"n": "m"}
    assert replicas["Worker"]["restartPolicy"] == "Never"


def test_an_elastic_job() -> None:
    """The operator's policy has torchrun's options; missing values have torchrun's defaults."""
    elastic = Elastic(max_replicas=4, max_restarts=3)
    workload = make_distributed(elastic=elastic, nproc_per_node="auto")
    spec = manifest(workload, "dev", make_launch())["spec"]
    assert spec["elasticPolicy"] == {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d", "maxRestarts": 3}
    assert spec["nprocPerNode"] == "auto"
    assert "elasticPolicy" not in manifest(make_distributed(), "dev", make_launch())["spec"]
