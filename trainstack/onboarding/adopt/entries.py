"""Live objects as elements of lists in an environment's file, and the fields that an element cannot express.

`find_unexpressed_fields` builds the manifest of an element, and compares it with the live object, field by field.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainstack.objects.labels import MANAGED_BY, NAMESPACE_NAME, OWNER, STACK, Manifest
from trainstack.onboarding.adopt.namespace_objects import Body
from trainstack.platform import queues as build_queues
from trainstack.platform import storage as build_storage
from trainstack.settings.base import Section
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    MultiKueueCluster,
    MultiKueueConfig,
    PriorityClass,
    ProvisioningRequestConfig,
    ResourceFlavor,
    Topology,
)
from trainstack.settings.sections.storage import VOLUME_SOURCES, PersistentVolume, StorageClass, Volume
from trainstack.settings.values.kubernetes import HOSTNAME
from trainstack.settings.values.quantities import canonical_quantity

Element = dict[str, Any]

_ANY_VALUE = object()
_DEFAULT_FUNGIBILITY = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
_DEFAULT_BORROWING = {"policy": "Never"}
_DEFAULT_RETRY_STRATEGY = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
_DEFAULTED_FIELDS: Mapping[str, Mapping[str, object]] = {
    "PersistentVolumeClaim": {"spec.volumeName": _ANY_VALUE, "spec.dataSourceRef": _ANY_VALUE},
    "PersistentVolume": {"spec.claimRef": _ANY_VALUE},
    "ClusterQueue": {
        "spec.flavorFungibility": _DEFAULT_FUNGIBILITY,
        "spec.preemption.borrowWithinCohort": _DEFAULT_BORROWING,
    },
    "LocalQueue": {"spec.stopPolicy": "None"},
    "ProvisioningRequestConfig": {"spec.retryStrategy": _DEFAULT_RETRY_STRATEGY},
}
"""The fields that the API server or Kueue sets, with their values, by kind."""
_QUANTITIES = ("borrowingLimit", "lendingLimit", "nominalQuota", "weight")
"""The keys of quantities in custom resources."""
_TOOL_BY_KEY = {
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "meta.helm.sh/release-name": "Helm",
}
"""Tools that apply manifests of their own, by a label or annotation that they set."""


@dataclass(frozen=True)
class KindConversion:
    """The conversion of one kind into settings."""

    path: tuple[str, str]
    """The section and the list in the file."""
    build_element: Callable[[Body], Element]
    """Returns the element of a live object."""
    model: type[Section]
    build_manifest: Callable[[Any, str], Manifest]
    """Returns the manifest of a section, from the section and the stack."""


def find_unexpressed_fields(kind: KindConversion, element: Element, live: Body, stack: str) -> list[str]:
    """Return the fields of the live object that the element would change."""
    try:
        # Strict validation accepts a list for a tuple only in JSON.
        declared_section = kind.model.model_validate_json(json.dumps(element), by_alias=True, by_name=False)
    except ValidationError as error:
        return sorted(map(_format_fault, error.errors(include_url=False)))
    declared_manifest = kind.build_manifest(declared_section, stack)
    return sorted(_differences(_fields(live), _fields(declared_manifest), _DEFAULTED_FIELDS.get(str(live["kind"]), {})))


def adoption_obstacle(live: Body, stack: str) -> str | None:
    """Return why an object cannot be taken over, whatever its fields: its owner, or its deletion. None if it can."""
    metadata = live["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(STACK) not in (None, stack):
        return f"belongs to stack {labels[STACK]!r}"
    if labels.get(MANAGED_BY) not in (None, OWNER):
        return f"is managed by {labels[MANAGED_BY]}, which would overwrite it"
    keys = {**labels, **(metadata.get("annotations") or {})}
    if tool := next((name for key, name in _TOOL_BY_KEY.items() if key in keys), None):
        return f"is managed by {tool}, which would overwrite it"
    if owners := metadata.get("ownerReferences"):
        return f"belongs to {owners[0]['kind']} {owners[0]['name']}"
    return "is being deleted" if metadata.get("deletionTimestamp") else None


def spec_of(live: Body) -> Mapping[str, Any]:
    """Return an object's spec; empty without one."""
    # Kueue accepts objects without a spec.
    return live.get("spec") or {}


def _format_fault(fault: ErrorDetails) -> str:
    path = ".".join(map(str, fault["loc"]))
    return f"{path} is missing" if fault["type"] == "missing" else f"{path} (value {fault['input']!r})"


def _fields(body: Body) -> dict[str, Any]:
    fields = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {**fields, "spec": with_expression_of_name(spec_of(body))} if body["kind"] == "ClusterQueue" else fields


def with_expression_of_name(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a ClusterQueue's spec whose selector of one namespace by a label has the form that the settings have."""
    match queue.get("namespaceSelector"):
        case {"matchLabels": {**labels}, **others} if not others and labels.keys() == {NAMESPACE_NAME}:
            expression = {"key": NAMESPACE_NAME, "operator": "In", "values": [labels[NAMESPACE_NAME]]}
            return {**queue, "namespaceSelector": {"matchExpressions": [expression]}}
        case _:
            return queue


def _canonical_value(key: str, value: object) -> object:
    """Return a quantity in the spelling of the settings; the API server keeps custom resources as written."""
    try:
        return canonical_quantity(value) if key in _QUANTITIES else value
    except ValueError:
        return value  # a label of that name, or None


def _differences(live: object, built: object, defaulted_fields: Mapping[str, object], path: str = "") -> Iterator[str]:
    """Yield the paths of fields in which a live object and a built manifest differ."""
    if path in defaulted_fields and built is None and defaulted_fields[path] in (_ANY_VALUE, live):
        return
    if isinstance(live, Mapping | None) and isinstance(built, Mapping | None) and (live or built):
        for key in {**(live or {}), **(built or {})}:
            field_path = f"{path}.{key}" if path else str(key)
            live_value, built_value = (_canonical_value(str(key), (fields or {}).get(key)) for fields in (live, built))
            yield from _differences(live_value, built_value, defaulted_fields, field_path)
    elif isinstance(live, list) and isinstance(built, list) and len(live) == len(built):
        for index, (live_value, built_value) in enumerate(zip(live, built, strict=True)):
            yield from _differences(live_value, built_value, defaulted_fields, f"{path}[{index}]")
    elif (live or None) != (built or None) or (live is None and built == {}):
        # Empty and false values equal missing ones, except in a selector: {} selects everything, a missing one nothing.
        yield path


def _labels(live: Body) -> Element:
    labels = {
        key: value for key, value in (live["metadata"].get("labels") or {}).items() if key not in (MANAGED_BY, STACK)
    }
    return {"labels": labels} if labels else {}


def _element(live: Body, **fields: Any) -> Element:
    """Return an element with the object's name, the fields that have values, and `adopt: true`."""
    metadata = live["metadata"]
    namespace = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    set_fields = {key: value for key, value in fields.items() if value not in (None, {}, [])}
    return {"name": metadata["name"], **namespace, **set_fields, "adopt": True}


def _claim(live: Body) -> Element:
    claim = live["spec"]
    element = _element(
        live,
        storageClass=claim.get("storageClassName"),
        size=claim["resources"]["requests"]["storage"],
        accessModes=claim["accessModes"],
        selector=(claim.get("selector") or {}).get("matchLabels"),
        dataSource=claim.get("dataSource"),
        **_labels(live),
    )
    # The API server copies each of both fields into the other.
    reference = claim.get("dataSourceRef") or {}
    return element if reference in ({}, claim.get("dataSource")) else {**element, "dataSourceRef": reference}


def _persistent_volume(live: Body) -> Element:
    volume, host = live["spec"], live["spec"].get("hostPath") or {}
    affinity = volume.get("nodeAffinity") or {}
    match affinity:
        case {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": [node]}], **other_requirements}
                ]
            }
        } if key == HOSTNAME and not other_requirements:
            node_fields = {"node": node}
        case _:
            node_fields = {"nodeAffinity": affinity}
    policy = volume.get("persistentVolumeReclaimPolicy")
    element = _element(
        live,
        storageClass=volume.get("storageClassName") or None,
        size=volume["capacity"]["storage"],
        accessModes=volume["accessModes"],
        hostPath=host.get("path"),
        source={key: volume[key] for key in VOLUME_SOURCES if key in volume},
        mountOptions=volume.get("mountOptions"),
        reclaimPolicy=None if policy == "Retain" else policy,
        **node_fields,
        **_labels(live),
    )
    has_other_type = bool(host) and host.get("type", "") != "Directory"
    return {**element, "hostPathType": host.get("type", "")} if has_other_type else element


def _storage_class(live: Body) -> Element:
    return _element(
        live,
        provisioner=live["provisioner"],
        parameters=live.get("parameters"),
        reclaimPolicy=live.get("reclaimPolicy"),
        volumeBindingMode=live.get("volumeBindingMode"),
        allowVolumeExpansion=live.get("allowVolumeExpansion") or None,
        mountOptions=live.get("mountOptions"),
        allowedTopologies=live.get("allowedTopologies"),
    )


def _flavor(live: Body) -> Element:
    fields = {key: spec_of(live).get(key) for key in ("nodeLabels", "nodeTaints", "tolerations")}
    return _element(live, topology=spec_of(live).get("topologyName"), **fields)


def _topology(live: Body) -> Element:
    return _element(live, levels=[level["nodeLabel"] for level in spec_of(live).get("levels") or ()])


def _cohort(live: Body) -> Element:
    fields = {key: spec_of(live).get(key) for key in ("resourceGroups", "fairSharing")}
    return _element(live, parent=spec_of(live).get("parentName"), **fields)


def _admission_check(live: Body) -> Element:
    fields = {key: spec_of(live).get(key) for key in ("controllerName", "parameters")}
    return _element(live, **fields)


def _provisioning_request_config(live: Body) -> Element:
    fields = {
        key: value for key, value in spec_of(live).items() if (key, value) != ("retryStrategy", _DEFAULT_RETRY_STRATEGY)
    }
    return _element(live, **fields)


def _multi_kueue_cluster(live: Body) -> Element:
    return _element(live, kubeConfig=(spec_of(live).get("clusterSource") or {}).get("kubeConfig"))


def _multi_kueue_config(live: Body) -> Element:
    return _element(live, clusters=spec_of(live).get("clusters"))


def _cluster_queue(live: Body) -> Element:
    queue = spec_of(live)
    preemption = {
        key: value
        for key, value in (queue.get("preemption") or {}).items()
        if (key, value) != ("borrowWithinCohort", _DEFAULT_BORROWING)
    }
    # The settings have a list of namespaces; any other selector remains a difference, so the queue is not adopted.
    selector = with_expression_of_name(queue).get("namespaceSelector")
    expressions = (selector or {}).get("matchExpressions") or []
    namespaces = [
        expression["values"]
        for expression in expressions
        if (expression["key"], expression["operator"]) == (NAMESPACE_NAME, "In")
    ]
    # Kueue sets these values itself, so an element with them would have needless lines.
    defaults = {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        "flavorFungibility": _DEFAULT_FUNGIBILITY,
    }
    fields = {key: queue.get(key) for key in ("queueingStrategy", "stopPolicy", "flavorFungibility")}
    checks = (queue.get("admissionChecksStrategy") or {}).get("admissionChecks")
    element = _element(
        live,
        cohort=queue.get("cohortName"),
        namespaces=namespaces[0] if namespaces else None,
        resourceGroups=queue.get("resourceGroups"),
        admissionChecks=checks,
        fairSharing=queue.get("fairSharing"),
        admissionScope=queue.get("admissionScope"),
        **{key: value for key, value in {**fields, "preemption": preemption}.items() if value != defaults[key]},
    )
    return element if selector is not None else {**element, "namespaces": []}


def _local_queue(live: Body) -> Element:
    stop_policy = spec_of(live).get("stopPolicy")
    return _element(
        live,
        clusterQueue=spec_of(live).get("clusterQueue"),
        stopPolicy=None if stop_policy == "None" else stop_policy,
        fairSharing=spec_of(live).get("fairSharing"),
    )


def _priority_class(live: Body) -> Element:
    return _element(live, value=live.get("value"), description=live.get("description"))


CLAIM = KindConversion(("storage", "volumes"), _claim, Volume, build_storage.claim)
PERSISTENT_VOLUME = KindConversion(
    ("storage", "persistentVolumes"), _persistent_volume, PersistentVolume, build_storage.persistent_volume
)
STORAGE_CLASS = KindConversion(("storage", "classes"), _storage_class, StorageClass, build_storage.storage_class)
FLAVOR = KindConversion(("queues", "flavors"), _flavor, ResourceFlavor, build_queues.resource_flavor)
COHORT = KindConversion(("queues", "cohorts"), _cohort, Cohort, build_queues.cohort)
TOPOLOGY = KindConversion(("queues", "topologies"), _topology, Topology, build_queues.topology)
ADMISSION_CHECK = KindConversion(
    ("queues", "admissionChecks"), _admission_check, AdmissionCheck, build_queues.admission_check
)
PROVISIONING_REQUEST_CONFIG = KindConversion(
    ("queues", "provisioningRequestConfigs"),
    _provisioning_request_config,
    ProvisioningRequestConfig,
    build_queues.provisioning_request_config,
)
MULTI_KUEUE_CLUSTER = KindConversion(
    ("queues", "multiKueueClusters"), _multi_kueue_cluster, MultiKueueCluster, build_queues.multi_kueue_cluster
)
MULTI_KUEUE_CONFIG = KindConversion(
    ("queues", "multiKueueConfigs"), _multi_kueue_config, MultiKueueConfig, build_queues.multi_kueue_config
)
PARAMETERS = {
    "ProvisioningRequestConfig": PROVISIONING_REQUEST_CONFIG,
    "MultiKueueConfig": MULTI_KUEUE_CONFIG,
}
"""The kinds of the parameters of admission checks, by name."""
CLUSTER_QUEUE = KindConversion(("queues", "clusterQueues"), _cluster_queue, ClusterQueue, build_queues.cluster_queue)
LOCAL_QUEUE = KindConversion(("queues", "localQueues"), _local_queue, LocalQueue, build_queues.local_queue)
PRIORITY_CLASS = KindConversion(
    ("queues", "priorityClasses"), _priority_class, PriorityClass, build_queues.priority_class
)
