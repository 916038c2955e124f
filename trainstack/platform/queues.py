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


def resource_flavor(flavor: ResourceFlavor, stack: str) -> Manifest:
    spec: Manifest = {}
    if flavor.node_labels:
        spec["nodeLabels"] = dict(flavor.node_labels)
    if flavor.node_taints:
        spec["nodeTaints"] = [taint.model_dump(exclude_defaults=True) for taint in flavor.node_taints]
    if flavor.tolerations:
        spec["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True) for toleration in flavor.tolerations
        ]
    if flavor.topology is not None:
        spec["topologyName"] = flavor.topology
    return _object("ResourceFlavor", metadata(flavor.name, stack, adopt=flavor.adopt), spec)


def cohort(settings: Cohort, stack: str) -> Manifest:
    spec: Manifest = {}
    if settings.parent is not None:
        spec["parentName"] = settings.parent
    if settings.resource_groups:
        spec["resourceGroups"] = _resource_groups(settings.resource_groups)
    if settings.fair_sharing is not None:
        spec["fairSharing"] = settings.fair_sharing.model_dump()
    return _object("Cohort", metadata(settings.name, stack, adopt=settings.adopt), spec)


def cluster_queue(queue: ClusterQueue, stack: str) -> Manifest:
    spec: Manifest = {
        **_namespace_selector(queue),
        "preemption": queue.preemption.model_dump(by_alias=True, exclude_none=True),
        "queueingStrategy": queue.queueing_strategy,
        "resourceGroups": _resource_groups(queue.resource_groups),
        "stopPolicy": queue.stop_policy,
    }
    if queue.cohort is not None:
        spec["cohortName"] = queue.cohort
    if queue.flavor_fungibility is not None:
        spec["flavorFungibility"] = queue.flavor_fungibility.model_dump(by_alias=True, exclude_none=True)
    if queue.admission_checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": list(map(_admission_check_rule, queue.admission_checks))}
    if queue.fair_sharing is not None:
        spec["fairSharing"] = queue.fair_sharing.model_dump()
    if queue.admission_scope is not None:
        spec["admissionScope"] = queue.admission_scope.model_dump(by_alias=True)
    return _object("ClusterQueue", metadata(queue.name, stack, adopt=queue.adopt), spec)


def _namespace_selector(queue: ClusterQueue) -> Manifest:
    # Kueue admits no namespace without a selector, and all namespaces with an empty one. It refuses an empty `In`.
    if queue.namespaces is None:
        return {"namespaceSelector": {}}
    names = {"key": NAMESPACE_NAME, "operator": "In", "values": list(queue.namespaces)}
    return {"namespaceSelector": {"matchExpressions": [names]}} if queue.namespaces else {}


def local_queue(queue: LocalQueue, stack: str) -> Manifest:
    meta = metadata(queue.name, stack, namespace=queue.namespace, adopt=queue.adopt)
    spec: Manifest = {"clusterQueue": queue.cluster_queue}
    if queue.stop_policy != "None":
        spec["stopPolicy"] = queue.stop_policy
    if queue.fair_sharing is not None:
        spec["fairSharing"] = queue.fair_sharing.model_dump()
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


def topology(settings: Topology, stack: str) -> Manifest:
    levels = [{"nodeLabel": level} for level in settings.levels]
    return _object("Topology", metadata(settings.name, stack, adopt=settings.adopt), {"levels": levels})


def admission_check(check: AdmissionCheck, stack: str) -> Manifest:
    spec: Manifest = {"controllerName": check.controller_name}
    if check.parameters is not None:
        spec["parameters"] = check.parameters.model_dump(by_alias=True)
    return _object("AdmissionCheck", metadata(check.name, stack, adopt=check.adopt), spec)


def provisioning_request_config(config: ProvisioningRequestConfig, stack: str) -> Manifest:
    fields = config.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"name", "adopt"})
    spec = {key: value for key, value in fields.items() if value}
    return _object("ProvisioningRequestConfig", metadata(config.name, stack, adopt=config.adopt), spec)


def multi_kueue_cluster(cluster: MultiKueueCluster, stack: str) -> Manifest:
    spec = {"clusterSource": {"kubeConfig": cluster.kube_config.model_dump(by_alias=True)}}
    return _object("MultiKueueCluster", metadata(cluster.name, stack, adopt=cluster.adopt), spec)


def multi_kueue_config(config: MultiKueueConfig, stack: str) -> Manifest:
    spec = {"clusters": list(config.clusters)}
    return _object("MultiKueueConfig", metadata(config.name, stack, adopt=config.adopt), spec)


def priority_class(settings: PriorityClass, stack: str) -> Manifest:
    result = _object("WorkloadPriorityClass", metadata(settings.name, stack, adopt=settings.adopt), {})
    result["value"] = settings.value
    if settings.description:
        result["description"] = settings.description
    return result


def _object(kind: str, meta: Manifest, spec: Manifest) -> Manifest:
    result: Manifest = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta}
    if spec:
        result["spec"] = spec
    return result


def _resource_groups(groups: tuple[ResourceGroup, ...]) -> list[Manifest]:
    return [
        {
            "coveredResources": list(group.covered_resources),
            "flavors": [{"name": flavor.name, "resources": _quotas(flavor)} for flavor in group.flavors],
        }
        for group in groups
    ]


def _admission_check_rule(check: QueueCheck) -> Manifest:
    return {"name": check.name, **({"onFlavors": list(check.on_flavors)} if check.on_flavors else {})}


def _quotas(flavor: FlavorQuotas) -> list[Manifest]:
    return [quota.model_dump(by_alias=True, exclude_none=True) for quota in flavor.resources]
