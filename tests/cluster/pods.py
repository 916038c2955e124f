"""Clusters and pods for tests of the local cluster."""

from pathlib import Path
from typing import Any

import pytest

from trainstack.local_cluster.api import ApiClient
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.config import HELPER_IMAGE
from trainstack.local_cluster.processes import wait_until
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

PODS = "/api/v1/namespaces/default/pods"


def make_spec(folder: Path, **choices: Any) -> ClusterSpec:
    """Return a spec with a separate registry, so that a test leaves no image in the shared one."""
    return ClusterSpec(registry=str(folder / "registry"), **choices)


def make_pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that runs a shell script once."""
    container = {"name": "main", "image": spec.pop("image", HELPER_IMAGE), "command": ["sh", "-c", script]}
    for key in ("volumeMounts", "imagePullPolicy", "resources"):
        if key in spec:
            container[key] = spec.pop(key)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def api_of(running: LocalCluster) -> ApiClient:
    """Return the administrator's API client."""
    return ApiClient(running.server, Layout.of(running.state).certs)


def phase(api: ApiClient, name: str) -> str:
    """Return a pod's phase."""
    return str((api.find(f"{PODS}/{name}") or {}).get("status", {}).get("phase", ""))


def await_phase(api: ApiClient, name: str, wanted: str, seconds: float = 60) -> None:
    """Wait for a pod's phase. Fails with the pod."""
    if not wait_until(lambda: phase(api, name) == wanted, seconds, 0.2):
        pytest.fail(f"pod {name} is not {wanted}: {api.find(f'{PODS}/{name}')}")


def log(api: ApiClient, name: str) -> str:
    """Return a pod's log, read through the API server and kubelet."""
    return str(api.request("GET", f"{PODS}/{name}/log"))


def run_pod(api: ApiClient, pod: dict[str, Any]) -> str:
    """Run a pod to completion and return its log."""
    api.request("POST", PODS, pod)
    await_phase(api, pod["metadata"]["name"], "Succeeded")
    return log(api, pod["metadata"]["name"])
