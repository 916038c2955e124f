"""The scopes of kinds: whether their objects are in a namespace.

Source: https://kubernetes.io/docs/reference/kubernetes-api/, and the definitions of the operators' releases
"""

CLUSTER_SCOPED_KINDS = (
    frozenset(
        ("AdmissionCheck", "APIService", "ClusterQueue", "ClusterRole", "ClusterRoleBinding", "Cohort", "FlowSchema")
    )
    | {"CustomResourceDefinition", "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume"}
    | {"PriorityClass", "PriorityLevelConfiguration", "ResourceFlavor", "RuntimeClass", "StorageClass"}
    | {"ClusterTrainingRuntime", "ValidatingWebhookConfiguration", "WorkloadPriorityClass"}
    | {"MultiKueueCluster", "MultiKueueConfig", "ProvisioningRequestConfig", "Topology"}
    | {"ClusterTrustBundle", "CSIDriver", "CSINode", "DeviceClass", "IngressClass", "IPAddress", "ResourceSlice"}
    | {"ServiceCIDR", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "VolumeAttributesClass"}
    | {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "VolumeAttachment", "VolumeSnapshotClass"}
)
NAMESPACED_KINDS = (
    frozenset(("ConfigMap", "Deployment", "LimitRange", "LocalQueue", "NetworkPolicy", "PersistentVolumeClaim"))
    | {"ResourceQuota", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "TrainingRuntime", "Workload"}
    | {"ControllerRevision", "CronJob", "CSIStorageCapacity", "DaemonSet", "EndpointSlice", "Endpoints"}
    | {"HorizontalPodAutoscaler", "Ingress", "Job", "Lease", "Pod", "PodDisruptionBudget", "PodTemplate"}
    | {"ReplicaSet", "ReplicationController", "ResourceClaim", "ResourceClaimTemplate", "StatefulSet", "VolumeSnapshot"}
)


def has_known_scope(kind: str) -> bool:
    """Return whether the scope of a kind is known; it is not for kinds of other CustomResourceDefinitions."""
    return kind in CLUSTER_SCOPED_KINDS | NAMESPACED_KINDS


def is_kubernetes_api(api_version: str) -> bool:
    """Return whether an API version is of a group without a domain, such as `v1` and `batch/v1`.

    Only Kubernetes itself has such groups, so that all their kinds are known.
    """
    return "." not in api_version.rpartition("/")[0]
