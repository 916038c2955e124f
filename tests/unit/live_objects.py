"""Live objects as an API server returns them, with the fields that the tests use."""

import json
from pathlib import Path
from typing import Any

NOW = "2026-01-02T03:04:05Z"
RUN = "digits-0123456789"
LAUNCH = f"{RUN}-aaaaaa"
Body = dict[str, Any]


def make_endpoint(port: int) -> Body:
    """Return the `cluster` of a kubeconfig for an API server that a test starts."""
    # Without the second key each client loads all CA certificates, although it uses none: 25 ms.
    return {"server": f"http://127.0.0.1:{port}", "insecure-skip-tls-verify": True}


def write_kubeconfig(folder: Path, port: int) -> Path:
    """Write a kubeconfig for that server, with a token, and return its path."""
    cluster = {"name": "it", "cluster": make_endpoint(port)}
    context = {"name": "it", "context": {"cluster": "it", "user": "it"}}
    config = {"clusters": [cluster], "users": [{"name": "it", "user": {"token": "t"}}], "contexts": [context]}
    file = folder / "kubeconfig"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "it", **config}))
    return file


def make_condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> Body:
    """Return a condition whose last transition was at NOW."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def make_launch_body(kind: str = "Job", *, queue: str | None = "research", **changes: Any) -> Body:
    """Return a suspended launch that mounts the claim `training`; `changes` replace spec and status."""
    template = {
        "spec": {
            "containers": [{"name": "training"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "training"}}],
        }
    }
    specs: dict[str, Body] = {
        "Job": {"suspend": True, "completions": 1, "parallelism": 1, "template": template},
        "PyTorchJob": {
            "runPolicy": {"suspend": True},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template},
                "Worker": {"replicas": 2, "template": template},
            },
        },
    }
    labels = {"trainstack.dev/run": RUN, "trainstack.dev/launch": LAUNCH, "trainstack.dev/stack": "dev"}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": LAUNCH,
            "namespace": "research",
            "uid": "job-uid",
            "creationTimestamp": NOW,
            "labels": labels | ({"kueue.x-k8s.io/queue-name": queue} if queue else {}),
        },
        "spec": specs[kind],
        "status": {},
        **changes,
    }


def make_workload(*conditions: Body, spec: Body | None = None, **status: Any) -> Body:
    """Return the launch's Workload."""
    metadata = {"name": f"job-{LAUNCH}-1234", "namespace": "research", "uid": "w", "creationTimestamp": NOW}
    return {
        "metadata": {**metadata, "labels": {"kueue.x-k8s.io/job-uid": "job-uid"}},
        "spec": spec or {},
        "status": {"conditions": list(conditions), **status},
    }


def make_pending(message: str, reason: str = "Pending") -> Body:
    """Return a Workload without quota, with Kueue's message."""
    return make_workload(make_condition("QuotaReserved", "False", reason, message))


def make_queue(name: str, reason: str, *, kind: str = "LocalQueue") -> Body:
    """Return a queue with this reason of its condition `Active`."""
    return {
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"clusterQueue": "shared"},
        "status": {"conditions": [make_condition("Active", "True" if reason == "Ready" else "False", reason)]},
    }


def make_pod(name: str = f"{LAUNCH}-xyz", *, labels: Body | None = None, phase: str = "Running", **status: Any) -> Body:
    """Return a pod with one container."""
    return {
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": name,
            "creationTimestamp": NOW,
            "labels": labels or {},
        },
        "spec": {"nodeName": "local", "containers": [{"name": "training"}]},
        "status": {"phase": phase, **status},
    }


def make_replica(role: str, index: int, **status: Any) -> Body:
    """Return a pod of a PyTorchJob."""
    role_labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index)}
    labels = {"trainstack.dev/launch": LAUNCH, **role_labels}
    return make_pod(f"{LAUNCH}-{role}-{index}", labels=labels, **status)
