"""The API paths of the kinds that this project declares or reads."""

from collections.abc import Mapping
from typing import Any

from trainstack.objects.launch_kinds import LAUNCHES

_CLUSTER_SCOPED = {
    "AdmissionCheck": "admissionchecks",
    "APIService": "apiservices",
    "ClusterQueue": "clusterqueues",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Cohort": "cohorts",
    "CustomResourceDefinition": "customresourcedefinitions",
    "FlowSchema": "flowschemas",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolume": "persistentvolumes",
    "PriorityLevelConfiguration": "prioritylevelconfigurations",
    "ResourceFlavor": "resourceflavors",
    "RuntimeClass": "runtimeclasses",
    "StorageClass": "storageclasses",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
_NAMESPACED = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "LimitRange": "limitranges",
    "LocalQueue": "localqueues",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "NetworkPolicy": "networkpolicies",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "TrainingRuntime": "trainingruntimes",
    "Workload": "workloads",
    **{kind: plural for kind, (_, plural) in LAUNCHES.items()},
}


def collection(api_version: str, kind: str, namespace: str | None) -> str:
    """Return the path of a list, `/apis/batch/v1/namespaces/research/jobs`. Raises KeyError for an unknown kind."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    if kind in _CLUSTER_SCOPED:
        return f"{root}/{_CLUSTER_SCOPED[kind]}"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{within}/{_NAMESPACED[kind]}"


def location(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{collection(manifest['apiVersion'], manifest['kind'], metadata.get('namespace'))}/{metadata['name']}"
