"""Kueue's objects, in its API v1beta2.

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from trainstack.objects.labels import NAMESPACE_NAME, Manifest, metadata
from trainstack.settings.sections.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    PriorityClass,
    ResourceFlavor,
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
    return _object("ResourceFlavor", metadata(declared.name, stack, adopt=declared.adopt), spec)


def cohort(declared: Cohort, stack: str) -> Manifest:
    spec = {"parentName": declared.parent} if declared.parent else {}
    return _object("Cohort", metadata(declared.name, stack, adopt=declared.adopt), spec)


def cluster_queue(declared: ClusterQueue, stack: str) -> Manifest:
    spec: Manifest = {
        # Without a selector no namespace is admitted, with an empty one all are.
        "namespaceSelector": {},
        "preemption": declared.preemption.model_dump(by_alias=True, exclude_none=True),
        "queueingStrategy": declared.queueing_strategy,
        "resourceGroups": [
            {
                "coveredResources": list(group.covered_resources),
                "flavors": [{"name": flavor.name, "resources": _quotas(flavor)} for flavor in group.flavors],
            }
            for group in declared.resource_groups
        ],
        "stopPolicy": declared.stop_policy,
    }
    if declared.namespaces is not None:
        names = {"key": NAMESPACE_NAME, "operator": "In", "values": list(declared.namespaces)}
        spec["namespaceSelector"] = {"matchExpressions": [names]}
    if declared.cohort is not None:
        spec["cohortName"] = declared.cohort
    if declared.flavor_fungibility is not None:
        spec["flavorFungibility"] = declared.flavor_fungibility.model_dump(by_alias=True)
    return _object("ClusterQueue", metadata(declared.name, stack, adopt=declared.adopt), spec)


def local_queue(declared: LocalQueue, stack: str) -> Manifest:
    meta = metadata(declared.name, stack, namespace=declared.namespace, adopt=declared.adopt)
    return _object("LocalQueue", meta, {"clusterQueue": declared.cluster_queue})


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


def _quotas(flavor: FlavorQuotas) -> list[Manifest]:
    return [quota.model_dump(by_alias=True, exclude_none=True) for quota in flavor.resources]
