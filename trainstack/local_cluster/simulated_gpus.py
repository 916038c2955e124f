"""Simulated GPUs: resources of the real node, and nodes that KWOK simulates. Pure."""

from trainstack.local_cluster.api import Manifest
from trainstack.local_cluster.spec import ClusterSpec

GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
"""Node label of NVIDIA's GPU feature discovery; resource flavors select by it."""
SIMULATED_NODE_KEY = "kwok.x-k8s.io/node"
"""Key of the annotation and the taint of a simulated node, with the value `fake`. KWOK manages nodes with the
annotation, and only pods that tolerate the taint are scheduled there."""
SIMULATED_LABEL = {"type": "kwok"}
SIMULATED_NODES_QUERY = "labelSelector=type%3Dkwok"
"""Query string that selects the simulated nodes."""
DURATION_ANNOTATION = "pod-complete.stage.kwok.x-k8s.io/delay"
"""Pod annotation with the running time of a simulated pod until it succeeds, such as `90s` or `2m`; default 5 s
(kwok.yaml)."""


def real_node_patch(node: Manifest, spec: ClusterSpec) -> tuple[Manifest, Manifest]:
    """Return the merge patches of the real node and of its status that set its GPUs; empty if nothing changes."""
    product, count = (spec.gpu_product, str(spec.gpus)) if spec.gpus else (None, None)
    label = node["metadata"].get("labels", {}).get(GPU_PRODUCT)
    metadata = {} if label == product else {"metadata": {"labels": {GPU_PRODUCT: product}}}
    capacity = {
        part: {GPU: count}
        for part in ("capacity", "allocatable")
        if node.get("status", {}).get(part, {}).get(GPU) != count
    }
    return metadata, {"status": capacity} if capacity else {}


def node_name(number: int) -> str:
    return f"simulated-{number}"


def node(number: int, spec: ClusterSpec) -> Manifest:
    """Return a simulated node. Its CPU and memory are large, so that GPUs are the scarce resource."""
    name = node_name(number)
    resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    labels = SIMULATED_LABEL | {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if spec.simulated_gpus:
        resources[GPU] = str(spec.simulated_gpus)
        labels[GPU_PRODUCT] = spec.simulated_product
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED_NODE_KEY: "fake"}},
        "spec": {"taints": [{"key": SIMULATED_NODE_KEY, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }
