"""What becomes of each kind of object: a workload, an entry of a section, a file of other objects, or nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainstack.onboarding.adopt import entries
from trainstack.onboarding.adopt.entries import KindConversion
from trainstack.settings.sections.workloads import API_VERSIONS

KindKey = tuple[str, str]
"""API group (empty for the core group) and kind."""
_NOT_IN_LABEL = re.compile("[^a-z0-9-]")
_MAX_PREFIX = 50
"""Characters of an AppWrapper's name in the names of its pod sets, which have at most 63."""

KNOWN_WORKLOADS: frozenset[tuple[str, str]] = frozenset((version, kind) for kind, version in API_VERSIONS.items())
"""API version and kind of the workloads whose pods Trainstack finds without `object`."""


@dataclass(frozen=True)
class PodPlace:
    """Where an object has the pods of one role."""

    name: str
    template: str
    replicas: str | None = None


@dataclass(frozen=True)
class OtherWorkload:
    """A kind that Kueue queues and that Trainstack reads by paths."""

    framework: str
    replica_specs: str = ""
    """The field with the pods by role, in the order of `roles`; empty for kinds with components."""
    roles: tuple[str, ...] = ()
    """The roles in the order of Kueue's pod sets."""


OTHER_WORKLOADS: Mapping[KindKey, OtherWorkload] = {
    ("kubeflow.org", "JAXJob"): OtherWorkload("kubeflow.org/jaxjob", "jaxReplicaSpecs", ("Worker",)),
    ("kubeflow.org", "PaddleJob"): OtherWorkload("kubeflow.org/paddlejob", "paddleReplicaSpecs", ("Master", "Worker")),
    ("kubeflow.org", "TFJob"): OtherWorkload(
        "kubeflow.org/tfjob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator", "Eval")
    ),
    ("kubeflow.org", "XGBoostJob"): OtherWorkload("kubeflow.org/xgboostjob", "xgbReplicaSpecs", ("Master", "Worker")),
    ("workload.codeflare.dev", "AppWrapper"): OtherWorkload("workload.codeflare.dev/appwrapper"),
}

ENTRIES: Mapping[KindKey, KindConversion] = {
    ("", "PersistentVolumeClaim"): entries.CLAIM,
    ("", "PersistentVolume"): entries.PERSISTENT_VOLUME,
    ("storage.k8s.io", "StorageClass"): entries.STORAGE_CLASS,
    ("kueue.x-k8s.io", "AdmissionCheck"): entries.ADMISSION_CHECK,
    ("kueue.x-k8s.io", "ClusterQueue"): entries.CLUSTER_QUEUE,
    ("kueue.x-k8s.io", "Cohort"): entries.COHORT,
    ("kueue.x-k8s.io", "LocalQueue"): entries.LOCAL_QUEUE,
    ("kueue.x-k8s.io", "MultiKueueCluster"): entries.MULTI_KUEUE_CLUSTER,
    ("kueue.x-k8s.io", "MultiKueueConfig"): entries.MULTI_KUEUE_CONFIG,
    ("kueue.x-k8s.io", "ProvisioningRequestConfig"): entries.PROVISIONING_REQUEST_CONFIG,
    ("kueue.x-k8s.io", "ResourceFlavor"): entries.FLAVOR,
    ("kueue.x-k8s.io", "Topology"): entries.TOPOLOGY,
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): entries.PRIORITY_CLASS,
}
"""The kinds that are entries of the environment's sections."""

TRAINING_ENTRIES: frozenset[KindKey] = frozenset({("", "PersistentVolumeClaim")})
"""The entries that environments without a platform have, too."""

CREATED_BY_CLUSTER: frozenset[KindKey] = frozenset(
    {
        ("", "Endpoints"),
        ("", "Event"),
        ("", "Node"),
        ("apps", "ControllerRevision"),
        ("coordination.k8s.io", "Lease"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("events.k8s.io", "Event"),
        ("kueue.x-k8s.io", "Workload"),
    }
)
_SERVICE = "runs until it is deleted, and is no training workload"
_INSTALLED = "belongs to an operator, whose release installs it"
LEFT_OUT: Mapping[KindKey, str] = {
    **{("apps", kind): _SERVICE for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")},
    ("", "ReplicationController"): _SERVICE,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _SERVICE,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _INSTALLED,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _INSTALLED,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _INSTALLED,
    ("apiregistration.k8s.io", "APIService"): _INSTALLED,
}
"""The reasons why objects are not taken."""

_TEMPLATES: Mapping[str, str] = {
    "Job": "spec.template",
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "ReplicaSet": "spec.template",
}
"""The paths of the pod templates in components of an AppWrapper, by kind."""


def find_pods(key: KindKey, body: Mapping[str, Any]) -> tuple[PodPlace, ...]:
    """Return the places of the pods of an OTHER_WORKLOADS object in the order of Kueue's pod sets; () if unknown."""
    kind = OTHER_WORKLOADS[key]
    if kind.replica_specs:
        return tuple(_pods_by_role(kind, _map_at(_map_at(body, "spec"), kind.replica_specs)))
    return tuple(_pods_of_components(body))


def _pods_by_role(kind: OtherWorkload, roles: Mapping[str, Any]) -> Iterator[PodPlace]:
    for role in sorted(roles, key=lambda name: kind.roles.index(name) if name in kind.roles else len(kind.roles)):
        path = f"spec.{kind.replica_specs}.{role}"
        replicas = f"{path}.replicas" if "replicas" in _map_at(roles, role) else None
        yield PodPlace(role.lower(), f"{path}.template", replicas)


def _pods_of_components(body: Mapping[str, Any]) -> Iterator[PodPlace]:
    """Yield the pods of an AppWrapper: those that its components list, else those that its operator would find.

    Source: https://project-codeflare.github.io/appwrapper/arch-controller/
    """
    components = _map_at(body, "spec").get("components") or ()
    templates = [place for index, part in enumerate(components) for place in _pods_of_component(index, part)]
    prefix = _NOT_IN_LABEL.sub("-", str(body["metadata"].get("name") or "pods").lower())[:_MAX_PREFIX].strip("-")
    for index, (template, replicas) in enumerate(templates):
        yield PodPlace(f"{prefix}-{index}", template, replicas)


def _pods_of_component(index: int, component: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    prefix = f"spec.components[{index}]."
    if pod_sets := component.get("podSets"):
        for position, pod_set in enumerate(pod_sets):
            replicas = f"{prefix}podSets[{position}].replicas" if "replicas" in pod_set else None
            yield f"{prefix}{pod_set.get('path')}", replicas
        return
    template = _map_at(component, "template")
    kind, spec = str(template.get("kind")), _map_at(template, "spec")
    if kind == "Pod":
        yield f"{prefix}template", None
    if kind in _TEMPLATES:
        field = "parallelism" if kind == "Job" else "replicas"
        yield f"{prefix}template.{_TEMPLATES[kind]}", f"{prefix}template.spec.{field}" if field in spec else None
    for position, job in enumerate(spec.get("replicatedJobs") or ()):
        path = f"{prefix}template.spec.replicatedJobs[{position}]"
        yield f"{path}.template.spec.template", f"{path}.replicas" if "replicas" in job else None
    if kind == "RayCluster":
        yield from _pods_of_ray(f"{prefix}template.spec", spec)
    yield from _pods_of_ray(f"{prefix}template.spec.rayClusterSpec", _map_at(spec, "rayClusterSpec"))
    yield from _pods_of_replica_specs(f"{prefix}template.spec", spec)


def _pods_of_ray(path: str, cluster: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    if "headGroupSpec" in cluster:
        yield f"{path}.headGroupSpec.template", None
    for position, group in enumerate(cluster.get("workerGroupSpecs") or ()):
        group_path = f"{path}.workerGroupSpecs[{position}]"
        yield f"{group_path}.template", f"{group_path}.replicas" if "replicas" in group else None


def _pods_of_replica_specs(path: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for field, roles in spec.items():
        if field.endswith("ReplicaSpecs") and isinstance(roles, Mapping):
            for role, pods in roles.items():
                role_path = f"{path}.{field}.{role}"
                yield f"{role_path}.template", f"{role_path}.replicas" if "replicas" in pods else None


def _map_at(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}


def supported_version(key: KindKey) -> str | None:
    """Return the API version in which a workload of the kind is read; None if every version is."""
    return next((version for version, kind in KNOWN_WORKLOADS if (_group(version), kind) == key), None)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


Disposition = Literal["workload", "entry", "object", "secret", "namespace", "cluster", "left"]
"""What becomes of an object: `secret` and `namespace` are referred to, `cluster` is created by the cluster itself."""


def disposition(key: KindKey) -> Disposition:
    """Return what becomes of the objects of a kind."""
    if key in OTHER_WORKLOADS or key in {(_group(version), kind) for version, kind in KNOWN_WORKLOADS}:
        return "workload"
    if key in ENTRIES:
        return "entry"
    special: Mapping[KindKey, Disposition] = {("", "Secret"): "secret", ("", "Namespace"): "namespace"}
    if key in special:
        return special[key]
    if key in CREATED_BY_CLUSTER:
        return "cluster"
    return "left" if key in LEFT_OUT else "object"
