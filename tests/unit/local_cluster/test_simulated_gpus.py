"""Simulated GPUs."""

from pathlib import Path
from typing import Any

import yaml

from trainstack.local_cluster import config, simulated_gpus
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout


def make_node(gpus: str | None = None, product: str | None = None) -> dict[str, Any]:
    """Return the real node as the API server does."""
    resources = {"cpu": "2"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    labels = {"nvidia.com/gpu.product": product} if product else {}
    return {"metadata": {"labels": labels}, "status": {"capacity": resources, "allocatable": dict(resources)}}


def test_a_real_node_gets_its_gpus_once() -> None:
    """A correct value is not written again."""
    spec = ClusterSpec(gpus=4, gpu_product="A")
    assert simulated_gpus.real_node_patch(make_node(), spec) == (
        {"metadata": {"labels": {"nvidia.com/gpu.product": "A"}}},
        {"status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"}}},
    )
    assert simulated_gpus.real_node_patch(make_node("4", "A"), spec) == ({}, {})


def test_gpus_are_removed_when_they_are_no_longer_requested() -> None:
    """`null` removes a key in a merge patch."""
    assert simulated_gpus.real_node_patch(make_node("4", "A"), ClusterSpec()) == (
        {"metadata": {"labels": {"nvidia.com/gpu.product": None}}},
        {"status": {"capacity": {"nvidia.com/gpu": None}, "allocatable": {"nvidia.com/gpu": None}}},
    )
    assert simulated_gpus.real_node_patch(make_node(), ClusterSpec()) == ({}, {})


def test_a_simulated_node() -> None:
    """A taint keeps real pods away; an annotation lets KWOK manage this node only."""
    assert simulated_gpus.node(2, ClusterSpec(simulated_gpus=7, simulated_product="MIG")) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "simulated-2",
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": "simulated-2",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "nvidia.com/gpu.product": "MIG",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {
            part: {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "7"}
            for part in ("capacity", "allocatable")
        },
    }


def test_simulated_pods_run_for_a_while_and_finish() -> None:
    """The duration is the pod's annotation or 5 s, without jitter; pods of Jobs and PyTorchJobs finish."""
    files = config.config_files(Layout(Path("/state")), Slot(0), ClusterSpec(simulated_nodes=1), Path("/i"), Path("/v"))
    stages = {stage["metadata"]["name"]: stage["spec"] for stage in yaml.safe_load_all(files["kwok.yaml"])}
    assert list(stages) == ["node-initialize", "node-heartbeat", "pod-ready", "pod-complete", "pod-delete"]
    expression = {"expressionFrom": f'.metadata.annotations["{simulated_gpus.DURATION_ANNOTATION}"]'}
    assert stages["pod-complete"]["delay"] == {
        "durationMilliseconds": 5000,
        "durationFrom": expression,
        "jitterDurationMilliseconds": 5000,
        "jitterDurationFrom": expression,
    }
    owners = stages["pod-complete"]["selector"]["matchExpressions"][-1]
    assert owners == {
        "key": ".metadata.ownerReferences.[].kind",
        "operator": "In",
        "values": ["Job", "PyTorchJob"],
    }
