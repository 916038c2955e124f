"""Simulated GPUs: resources on the real node, and nodes that KWOK simulates; pure."""

import json

from trainstack.dev.cluster.api import Manifest
from trainstack.dev.cluster.spec import ClusterSpec

GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
"""Node label of NVIDIA's GPU feature discovery; resource flavors select by it."""
SIMULATED = "kwok.x-k8s.io/node"
"""Annotation and taint key of a simulated node, value `fake`: KWOK manages nodes with it, and only pods that
tolerate the taint are scheduled there."""
SIMULATED_LABEL = {"type": "kwok"}
SELECTOR = "labelSelector=type%3Dkwok"
"""Query that lists the simulated nodes."""
DURATION = "pod-complete.stage.kwok.x-k8s.io/delay"
"""Pod annotation: how long a simulated pod runs before it succeeds, as `90s` or `2m`; default 5 s."""
DEFAULT_RUN_MILLISECONDS = 5000
FINISHING_OWNERS = ["Job", "PyTorchJob"]
"""Pods owned by these kinds finish; others run until they are deleted."""


def real_node_patch(node: Manifest, spec: ClusterSpec) -> tuple[Manifest, Manifest]:
    """Return merge patches of the real node and its status that set its GPUs; empty if nothing changes."""
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
    """Return a simulated node, big enough that GPUs are the scarce resource."""
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
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "fake"}},
        "spec": {"taints": [{"key": SIMULATED, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _stage(name: str, kind: str, match: list[Manifest], delay: Manifest | None, then: Manifest) -> Manifest:
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": match},
        "next": then,
    } | ({"delay": delay} if delay else {})
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _where(key: str, *values: str, operator: str = "In") -> Manifest:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


NODE_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
NOT_DELETED = _where(".metadata.deletionTimestamp", operator="DoesNotExist")

NODE_STATUS = """
{{ $now := Now }}
{{ $since := or .metadata.creationTimestamp $now }}
conditions:
{{ range NodeConditions }}
- {lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $since | Quote }}, message: {{ .message | Quote }},
   reason: {{ .reason | Quote }}, status: {{ .status | Quote }}, type: {{ .type | Quote }}}
{{ end }}
addresses:
- {address: {{ NodeIP | Quote }}, type: InternalIP}
phase: Running
"""

POD_RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) \
( or .metadata.namespace "" ) | Quote }}
conditions:
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Ready}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: ContainersReady}
{{ range .spec.readinessGates }}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: {{ .conditionType | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: true, restartCount: 0,
   state: {running: {startedAt: {{ $now | Quote }}}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: true, restartCount: 0,
   state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}
{{ end }}
"""

POD_SUCCEEDED = """
{{ $now := Now }}
{{ $root := . }}
phase: Succeeded
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $before := index $root.status.containerStatuses $index }}
- {image: {{ $item.image | Quote }}, name: {{ $item.name | Quote }}, ready: false, started: false, restartCount: 0,
   state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $before.state.running.startedAt | Quote }},
   finishedAt: {{ $now | Quote }}}}}
{{ end }}
"""


def stages() -> str:
    """Return KWOK's configuration: the lifecycle of simulated nodes and pods."""
    run = {
        # KWOK uses the jitter if it is smaller than the duration: set both from the same annotation.
        "durationMilliseconds": DEFAULT_RUN_MILLISECONDS,
        "durationFrom": {"expressionFrom": f'.metadata.annotations["{DURATION}"]'},
        "jitterDurationMilliseconds": DEFAULT_RUN_MILLISECONDS,
        "jitterDurationFrom": {"expressionFrom": f'.metadata.annotations["{DURATION}"]'},
    }
    documents = [
        _stage(
            "node-initialize", "Node", [_where(NODE_READY, "True", operator="NotIn")], None,
            {"statusTemplate": NODE_STATUS},
        ),
        _stage(
            "node-heartbeat", "Node", [_where(".status.phase", "Running"), _where(NODE_READY, "True")],
            {"durationMilliseconds": 600_000, "jitterDurationMilliseconds": 610_000},
            {"statusTemplate": NODE_STATUS},
        ),
        _stage(
            "pod-ready", "Pod", [NOT_DELETED, _where(".status.podIP", operator="DoesNotExist")], None,
            {"statusTemplate": POD_RUNNING},
        ),
        _stage(
            "pod-complete", "Pod",
            [
                NOT_DELETED,
                _where(".status.phase", "Running"),
                _where(".metadata.ownerReferences.[].kind", *FINISHING_OWNERS),
            ],
            run, {"statusTemplate": POD_SUCCEEDED},
        ),
        _stage(
            "pod-delete", "Pod", [_where(".metadata.deletionTimestamp", operator="Exists")], None,
            {"finalizers": {"empty": True}, "delete": True},
        ),
    ]  # fmt: skip
    return "---\n".join(json.dumps(document, indent=2) + "\n" for document in documents)
