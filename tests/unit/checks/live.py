"""Live objects as an API server gives them, as far as a test is about them."""

import json
from pathlib import Path
from typing import Any

NOW = "2026-01-02T03:04:05Z"
RUN = "digits-0123456789"
LAUNCH = f"{RUN}-aaaaaa"
Body = dict[str, Any]


def make_endpoint(port: int) -> Body:
    """The `cluster` of a kubeconfig for an API server of a test's own."""
    # Without the second key each client reads the certificates of all authorities, though it uses none: 25 ms.
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
    """A condition that has held since NOW."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def make_launch_body(kind: str = "Job", *, queue: str | None = "research", **changes: Any) -> Body:
    """A launch that Kueue holds, with the claim `training`; `changes` replace spec and status."""
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
    """The launch's Workload."""
    metadata = {"name": f"job-{LAUNCH}-1234", "namespace": "research", "uid": "w", "creationTimestamp": NOW}
    return {
        "metadata": {**metadata, "labels": {"kueue.x-k8s.io/job-uid": "job-uid"}},
        "spec": spec or {},
        "status": {"conditions": list(conditions), **status},
    }


def make_pending(message: str, reason: str = "Pending") -> Body:
    """A Workload without quota, for this reason in Kueue's words."""
    return make_workload(make_condition("QuotaReserved", "False", reason, message))


def make_queue(name: str, reason: str, *, kind: str = "LocalQueue") -> Body:
    """A queue, and why it is not active."""
    return {
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"clusterQueue": "shared"},
        "status": {"conditions": [make_condition("Active", "True" if reason == "Ready" else "False", reason)]},
    }


def make_pod(name: str = f"{LAUNCH}-xyz", *, labels: Body | None = None, phase: str = "Running", **status: Any) -> Body:
    """A pod of one container."""
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
    """A pod of a PyTorchJob."""
    of_role = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index)}
    labels = {"trainstack.dev/launch": LAUNCH, **of_role}
    return make_pod(f"{LAUNCH}-{role}-{index}", labels=labels, **status)
