"""Kueue's objects, in its API v1beta2.

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from trainstack.objects.labels import NAMESPACE_NAME, Manifest, metadata
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    PriorityClass,
    ProvisioningRequestConfig,
    QueueCheck,
    ResourceFlavor,
    ResourceGroup,
    Topology,
)

API_VERSION = "kueue.x-k8s.io/v1beta2"


def resource_flavor(declared: ResourceFlavor, stack: str) -> Manifest:
    spec: Manifest = {}
    if declared.node_labels:
        spec["nodeLabels"] = dict(declared.node_labels)
    if declared.node_taints:
        spec["nodeTaints"] = [taint.model_dump(exclude_defaults=True) for taint in declared.node_taints]
    if declared.tolerations:
        spec["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True) for toleration in declared.tolerations
        ]
    if declared.topology is not None:
        spec["topologyName"] = declared.topology
    return _object("ResourceFlavor", metadata(declared.name, stack, adopt=declared.adopt), spec)


def cohort(declared: Cohort, stack: str) -> Manifest:
    spec: Manifest = {}
    if declared.parent is not None:
        spec["parentName"] = declared.parent
    if declared.resource_groups:
        spec["resourceGroups"] = _groups(declared.resource_groups)
    if declared.fair_sharing is not None:
        spec["fairSharing"] = declared.fair_sharing.model_dump()
    return _object("Cohort", metadata(declared.name, stack, adopt=declared.adopt), spec)


def cluster_queue(declared: ClusterQueue, stack: str) -> Manifest:
    spec: Manifest = {
        # Kueue admits no namespace without a selector, and all namespaces with an empty one.
        "namespaceSelector": {},
        "preemption": declared.preemption.model_dump(by_alias=True, exclude_none=True),
        "queueingStrategy": declared.queueing_strategy,
        "resourceGroups": _groups(declared.resource_groups),
        "stopPolicy": declared.stop_policy,
    }
    if declared.namespaces is not None:
        names = {"key": NAMESPACE_NAME, "operator": "In", "values": list(declared.namespaces)}
        spec["namespaceSelector"] = {"matchExpressions": [names]}
    if declared.cohort is not None:
        spec["cohortName"] = declared.cohort
    if declared.flavor_fungibility is not None:
        spec["flavorFungibility"] = declared.flavor_fungibility.model_dump(by_alias=True, exclude_none=True)
    if declared.admission_checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": list(map(_check, declared.admission_checks))}
    if declared.fair_sharing is not None:
        spec["fairSharing"] = declared.fair_sharing.model_dump()
    if declared.admission_scope is not None:
        spec["admissionScope"] = declared.admission_scope.model_dump(by_alias=True)
    return _object("ClusterQueue", metadata(declared.name, stack, adopt=declared.adopt), spec)


def local_queue(declared: LocalQueue, stack: str) -> Manifest:
    meta = metadata(declared.name, stack, namespace=declared.namespace, adopt=declared.adopt)
    spec: Manifest = {"clusterQueue": declared.cluster_queue}
    if declared.stop_policy != "None":
        spec["stopPolicy"] = declared.stop_policy
    if declared.fair_sharing is not None:
        spec["fairSharing"] = declared.fair_sharing.model_dump()
    return _object("LocalQueue", meta, spec)


def references(queue: Manifest) -> list[tuple[str, str]]:
    """Return the kind and the name of each object that a ClusterQueue or LocalQueue refers to.

    The name of a Cohort is empty if the ClusterQueue has none.
    """
    spec = queue["spec"]
    if queue["kind"] == "LocalQueue":
        return [("ClusterQueue", spec["clusterQueue"])]
    checks = spec.get("admissionChecksStrategy", {}).get("admissionChecks", ())
    return [
        ("Cohort", spec.get("cohortName", "")),
        *(("ResourceFlavor", flavor["name"]) for group in spec["resourceGroups"] for flavor in group["flavors"]),
        *(("AdmissionCheck", check["name"]) for check in checks),
    ]


def topology(declared: Topology, stack: str) -> Manifest:
    levels = [{"nodeLabel": level} for level in declared.levels]
    return _object("Topology", metadata(declared.name, stack, adopt=declared.adopt), {"levels": levels})


def admission_check(declared: AdmissionCheck, stack: str) -> Manifest:
    spec: Manifest = {"controllerName": declared.controller_name}
    if declared.parameters is not None:
        spec["parameters"] = declared.parameters.model_dump(by_alias=True)
    return _object("AdmissionCheck", metadata(declared.name, stack, adopt=declared.adopt), spec)


def provisioning_request_config(declared: ProvisioningRequestConfig, stack: str) -> Manifest:
    fields = declared.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"name", "adopt"})
    spec = {key: value for key, value in fields.items() if value}
    return _object("ProvisioningRequestConfig", metadata(declared.name, stack, adopt=declared.adopt), spec)


def multi_kueue_cluster(declared: MultiKueueCluster, stack: str) -> Manifest:
    spec = {"clusterSource": {"kubeConfig": declared.kube_config.model_dump(by_alias=True)}}
    return _object("MultiKueueCluster", metadata(declared.name, stack, adopt=declared.adopt), spec)


def multi_kueue_config(declared: MultiKueueConfig, stack: str) -> Manifest:
    spec = {"clusters": list(declared.clusters)}
    return _object("MultiKueueConfig", metadata(declared.name, stack, adopt=declared.adopt), spec)


def priority_class(declared: PriorityClass, stack: str) -> Manifest:
    result = _object("WorkloadPriorityClass", metadata(declared.name, stack, adopt=declared.adopt), {})
    result["value"] = declared.value
    if declared.description:
        result["description"] = declared.description
    return result


def _object(kind: str, meta: Manifest, spec: Manifest) -> Manifest:
    result: Manifest = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta}
    if spec:
        result["spec"] = spec
    return result


def _groups(groups: tuple[ResourceGroup, ...]) -> list[Manifest]:
    return [
        {
            "coveredResources": list(group.covered_resources),
            "flavors": [{"name": flavor.name, "resources": _quotas(flavor)} for flavor in group.flavors],
        }
        for group in groups
    ]


def _check(check: QueueCheck) -> Manifest:
    return {"name": check.name, **({"onFlavors": list(check.on_flavors)} if check.on_flavors else {})}


def _quotas(flavor: FlavorQuotas) -> list[Manifest]:
    return [quota.model_dump(by_alias=True, exclude_none=True) for quota in flavor.resources]
