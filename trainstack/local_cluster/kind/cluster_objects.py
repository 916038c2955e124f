"""The objects that a kind cluster has in addition to kind's: identity, ReadWriteMany volumes, simulated GPUs."""

import json

from trainstack.local_cluster.api import ApiClient, ApiError, Manifest
from trainstack.local_cluster.cluster import real_node_problem
from trainstack.local_cluster.config import STORAGE_CONFIG_MAP, STORAGE_NAMESPACE
from trainstack.local_cluster.kind import files
from trainstack.local_cluster.kind.record import KindRecord
from trainstack.local_cluster.reconcile import reconcile_real_node
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

SHARED_FOLDER = "/var/local-path-provisioner"
"""Folder of the shared volumes on the node: kind's folder of volumes."""
_STORAGE = f"/apis/apps/v1/namespaces/{STORAGE_NAMESPACE}/deployments/local-path-provisioner"
_DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
_CONFIG_ANNOTATION = "trainstack.dev/storage-config"
_IDENTITY_ANNOTATION = "trainstack.dev/local-cluster"
_CONFIG = json.dumps({"sharedFileSystemPath": SHARED_FOLDER})


def reconcile(layout: Layout, record: KindRecord, spec: ClusterSpec) -> str:
    """Apply the objects. Return why that failed, or an empty string. Safe to repeat."""
    api = _api(layout)
    try:
        for manifest in _manifests(layout):
            api.apply(manifest)
        # The annotation causes a new pod, because a running one reads a changed ConfigMap only after a minute.
        api.merge(_STORAGE, {"spec": {"template": {"metadata": {"annotations": {_CONFIG_ANNOTATION: _CONFIG}}}}})
        is_registered = reconcile_real_node(api, record.node, spec)
    except ApiError as error:
        return str(error)
    return "" if is_registered else f"node {record.node} is not registered yet"


def readiness_problem(layout: Layout, record: KindRecord, spec: ClusterSpec, since: float = 0.0) -> str:
    """Return why the cluster does not accept workloads yet, or an empty string.

    Ignore heartbeats of the node before `since` (Unix seconds).
    """
    api = _api(layout)
    try:
        problem = real_node_problem(api, record.node, spec, since)
        deployments = {"the storage provisioner": api.find(_STORAGE), "cluster DNS": api.find(_DNS)}
    except (ApiError, OSError) as error:
        return str(error)
    unready_deployments = (
        f"{name} is not ready yet" for name, deployment in deployments.items() if not _is_available(deployment)
    )
    return problem or next(unready_deployments, "")


def _manifests(layout: Layout) -> list[Manifest]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "kube-system", "annotations": {_IDENTITY_ANNOTATION: layout.identity}},
        },
        {
            # With a shared folder, kind's provisioner accepts every access mode, and volumes belong to no node.
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STORAGE_CONFIG_MAP, "namespace": STORAGE_NAMESPACE},
            "data": {"config.json": _CONFIG},
        },
    ]


def _is_available(deployment: Manifest | None) -> bool:
    """Return whether a pod of a Deployment's current template is ready."""
    if deployment is None:
        return False
    status = deployment.get("status", {})
    is_current = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return bool(is_current and status.get("updatedReplicas") and status.get("readyReplicas"))


def _api(layout: Layout) -> ApiClient:
    return ApiClient(files.server_address(layout), layout.certs)
