"""GPUs without GPUs: resources on the real node, and nodes that KWOK only pretends to run; pure."""

import json

from trainstack.dev.cluster.api import Manifest
from trainstack.dev.cluster.spec import ClusterSpec

GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
"""Node label of NVIDIA's GPU feature discovery; resource flavors select by it."""
SIMULATED = "kwok.x-k8s.io/node"
"""Annotation and taint key of a simulated node, value `fake`: KWOK manages nodes with it, and only pods that tolerate
the taint are scheduled there."""
SIMULATED_LABEL = {"type": "kwok"}
SELECTOR = "labelSelector=type%3Dkwok"
"""Query that lists the simulated nodes."""
DURATION = "pod-complete.stage.kwok.x-k8s.io/delay"
"""Pod annotation: how long a simulated pod runs before it succeeds, as `90s` or `2m`; 5 s without it."""
DEFAULT_RUN_MILLISECONDS = 5000
FINISHING_OWNERS = ["Job", "PyTorchJob"]
"""Pods that these kinds own finish; others run until they are deleted."""


def real_node_patch(node: Manifest, spec: ClusterSpec) -> tuple[Manifest, Manifest]:
    """What to change of the real node and of its status (merge patches, empty if nothing) so that it has its GPUs."""
    label = node["metadata"].get("labels", {}).get(GPU_PRODUCT)
    wanted_label = spec.gpu_product if spec.gpus else None
    metadata = {} if label == wanted_label else {"metadata": {"labels": {GPU_PRODUCT: wanted_label}}}
    wanted = str(spec.gpus) if spec.gpus else None
    capacity = {
        part: {GPU: wanted}
        for part in ("capacity", "allocatable")
        if node.get("status", {}).get(part, {}).get(GPU) != wanted
    }
    return metadata, {"status": capacity} if capacity else {}


def node_name(number: int) -> str:
    """Name of a simulated node; from 0."""
    return f"simulated-{number}"


def node(number: int, spec: ClusterSpec) -> Manifest:
    """A simulated node: big enough that GPUs are what runs out."""
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
    spec: Manifest = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": match},
        "next": then,
    }
    if delay:
        spec["delay"] = delay
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": spec,
    }


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
    """KWOK's configuration: how simulated nodes and pods go through their life."""
    run = {
        # KWOK takes the jitter where it is the smaller one: both, and from the same annotation.
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
