"""Models and snapshots from Kubernetes objects, declared by an environment or read from a cluster.

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeVar

from trainstack.kueue.differences import KueueRelease, release_of
from trainstack.kueue.feature_gates import FeatureGates
from trainstack.kueue.fields import unmodeled_fields
from trainstack.kueue.managed_jobs import (
    blocks_admission,
    configuration_from_settings,
    frameworks,
    managed_namespace_selector,
)
from trainstack.kueue.model import (
    AdmittedWorkload,
    ClusterNode,
    ClusterQueue,
    Cohort,
    FairStrategy,
    Flavor,
    FlavorFungibility,
    FlavorResource,
    FungibilityPolicy,
    LimitRange,
    LocalQueue,
    Model,
    Preemption,
    Preference,
    QueueState,
    Quota,
    ResourceGroup,
    Taint,
    Transformation,
    Workload,
)
from trainstack.kueue.pod_requests import label_selector, tolerations
from trainstack.kueue.quantities import WHOLE, quota_value, resource_value, resources_to_billionths, to_billionths
from trainstack.kueue.releases import release_from_settings
from trainstack.kueue.workloads import read_kueue_workload
from trainstack.objects.labels import NAMESPACE_NAME
from trainstack.settings.sections.operators import KueueConfiguration
from trainstack.settings.sections.queues import MULTI_KUEUE_CONTROLLER, PROVISIONING_CONTROLLER
from trainstack.stack_objects.stack_objects import StackObjects

Body = Mapping[str, Any]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def stack_model(stack_objects: StackObjects) -> Model:
    """Return the model of an environment's files; queues that another stack declares are unknown."""
    environment = stack_objects.settings.environment
    is_owner = environment.profile == "owner" and "platform" in environment.layers
    unread_kinds = ("Node", "RuntimeClass") if is_owner else (*_OWNER_KINDS, "Node", "RuntimeClass")
    kueue = stack_objects.settings.operators.kueue
    configuration = configuration_from_settings(kueue.configuration if kueue else KueueConfiguration())
    return read_model(
        admission_objects(stack_objects),
        unread_kinds=unread_kinds,
        is_declared=True,
        kueue_configuration=configuration,
        release=release_from_settings(stack_objects.settings),
    )


def admission_objects(stack_objects: StackObjects) -> list[Body]:
    """Return the declared objects that admission depends on."""
    return [*stack_objects.namespaces.manifests_of_kind("Namespace"), *stack_objects.queues.manifests]


_OWNER_KINDS = ("ResourceFlavor", "Topology", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass", "AdmissionCheck")


def read_model(
    objects: Iterable[Body],
    *,
    unread_kinds: Container[str] = (),
    is_declared: bool = False,
    kueue_configuration: Body | None = None,
    release: str = "",
) -> Model:
    """Return the model of objects; kinds that admission does not depend on are ignored.

    `unread_kinds`: kinds that could not be read. `is_declared`: whether an environment's files declare the objects.
    `kueue_configuration`: of the running Kueue, if known. `release`: its release; empty: unknown.
    """
    kueue_release = release_of(release)
    resources: Body = (kueue_configuration or {}).get("resources") or {}
    gates = FeatureGates.read(kueue_configuration, kueue_release.gates)
    objects_by_kind: dict[str, dict[str, Body]] = defaultdict(dict)
    for body in objects:
        metadata = body["metadata"]
        objects_by_kind[body["kind"]][f"{metadata.get('namespace', '')}/{metadata['name']}"] = body

    def read_kind(kind: str, read: Callable[[Body], T], key: Callable[[Body], K]) -> dict[K, T] | None:
        # None, because objects of an unread kind may exist; {} would mean that there are none.
        return None if kind in unread_kinds else {key(body): read(body) for body in objects_by_kind[kind].values()}

    nodes, topologies = read_kind("Node", _node, _name), read_kind("Topology", _levels, _name)
    calculated_reasons = _calculated_reasons(topologies)
    # More than one may be a global default for a moment. Source: getDefaultPriorityClass in Kueue's pkg/util/priority.
    priority_classes = objects_by_kind["PriorityClass"].values()
    limits_by_namespace: dict[str, list[Body]] = defaultdict(list)
    for body in objects_by_kind["LimitRange"].values():
        limits_by_namespace[body["metadata"]["namespace"]] += body["spec"].get("limits") or ()
    return Model(
        flavors=read_kind("ResourceFlavor", partial(_flavor, gates), _name),
        cluster_queues=read_kind(
            "ClusterQueue", partial(_cluster_queue, gates, kueue_release, calculated_reasons), _name
        ),
        local_queues=read_kind("LocalQueue", _local_queue, lambda body: (body["metadata"]["namespace"], _name(body))),
        # Without the gate, Kueue ignores Cohort objects: a cohort is only the name that its queues share.
        cohorts={
            _name(body): _cohort(gates, kueue_release, body)
            for body in (objects_by_kind["Cohort"].values() if gates.is_enabled("HierarchicalCohorts") else ())
        },
        namespaces={
            _name(body): {**(body["metadata"].get("labels") or {}), NAMESPACE_NAME: _name(body)}
            for body in objects_by_kind["Namespace"].values()
        },
        priorities=read_kind("WorkloadPriorityClass", lambda body: body["value"], _name),
        # Whether the controller of a declared check is active is known only in a cluster.
        active_checks=read_kind("AdmissionCheck", lambda body: is_declared or _is_active(body), _name),
        multikueue_checks=_checks_of(MULTI_KUEUE_CONTROLLER, objects_by_kind["AdmissionCheck"].values()),
        provisioning_checks=_checks_of(PROVISIONING_CONTROLLER, objects_by_kind["AdmissionCheck"].values()),
        topologies=topologies,
        limit_ranges={name: merge_limit_ranges(items) for name, items in limits_by_namespace.items()},
        overheads=read_kind("RuntimeClass", lambda body: (body.get("overhead") or {}).get("podFixed") or {}, _name),
        excluded_prefixes=tuple(resources.get("excludeResourcePrefixes") or ()),
        transformations={
            body["input"]: Transformation(
                resources_to_billionths(body.get("outputs")), body.get("strategy") == "Replace"
            )
            for body in resources.get("transformations") or ()
        },
        ignores_undeclared=gates.is_enabled("QuotaCheckStrategy")
        and resources.get("quotaCheckStrategy") == "IgnoreUndeclared",
        maps_device_classes=bool(resources.get("deviceClassMappings")),
        fair_sharing=_fair_strategies(kueue_configuration or {}),
        admission_fair_sharing=gates.is_enabled("AdmissionFairSharing")
        and (kueue_configuration or {}).get("admissionFairSharing") is not None,
        requeues_by_creation=_requeues_by_creation((kueue_configuration or {}).get("waitForPodsReady") or {}),
        release=kueue_release,
        gates=gates,
        frameworks=frameworks(kueue_configuration),
        managed_namespaces=managed_namespace_selector(kueue_configuration, gates),
        blocks_admission=blocks_admission(kueue_configuration),
        default_priority=min((body["value"] for body in priority_classes if body.get("globalDefault")), default=0),
        unmodeled_fields=_unmodeled_fields(objects_by_kind, kueue_configuration, kueue_release),
        nodes=None if nodes is None else tuple(nodes.values()),
        is_declared=is_declared,
    )


def read_cluster_queue(body: Body, model: Model) -> ClusterQueue:
    """Return a cluster queue as `read_model` reads it."""
    return _cluster_queue(model.gates, model.release, _calculated_reasons(model.topologies), body)


def read_queue_state(
    objects: Iterable[Body],
    *,
    unread_kinds: Container[str] = (),
    kueue_configuration: Body | None = None,
    release: str = "",
) -> QueueState:
    """Return a model with the admitted and pending workloads of Kueue's Workloads. Arguments as in `read_model`."""
    bodies = list(objects)
    model = read_model(bodies, unread_kinds=unread_kinds, kueue_configuration=kueue_configuration, release=release)
    workloads = [read_kueue_workload(body, model) for body in bodies if body["kind"] == "Workload"]
    return QueueState(
        model=model,
        admitted=tuple(workload for workload in workloads if isinstance(workload, AdmittedWorkload)),
        pending=tuple(workload for workload in workloads if isinstance(workload, Workload)),
        objects=tuple(bodies),
        configuration=kueue_configuration,
    )


def merge_limit_ranges(limits: Iterable[Body]) -> tuple[LimitRange, ...]:
    """Merge the limits of a namespace's LimitRanges, into one for containers, one for pods and one for volume claims.

    Source: Summarize in Kueue's pkg/util/limitrange/limitrange.go, and the API server's own defaults of a LimitRange.
    """
    merged_ranges = []
    kinds: tuple[Literal["Container", "Pod", "PersistentVolumeClaim"], ...] = (
        "Container",
        "Pod",
        "PersistentVolumeClaim",
    )
    for kind in kinds:
        minimum: dict[str, int] = {}
        maximum: dict[str, int] = {}
        default_limits: dict[str, int] = {}
        default_requests: dict[str, int] = {}
        ratios: dict[str, Fraction] = {}
        # The tightest bounds and the first defaults apply; the API server adds defaults to each LimitRange.
        limits_of_kind = [limit for limit in limits if limit["type"] == kind]
        for limit in limits_of_kind:
            highest, lowest = resources_to_billionths(limit.get("max")), resources_to_billionths(limit.get("min"))
            maximum |= {name: min(number, maximum.get(name, number)) for name, number in highest.items()}
            minimum |= {name: max(number, minimum.get(name, number)) for name, number in lowest.items()}
            for name, number in resources_to_billionths(limit.get("maxLimitRequestRatio")).items():
                ratios[name] = min(Fraction(number, WHOLE), ratios.get(name, Fraction(number, WHOLE)))
            if kind == "Container":
                limit_default = {**highest, **resources_to_billionths(limit.get("default"))}
                default_limits = {**limit_default, **default_limits}
                default_requests = {
                    **lowest,
                    **limit_default,
                    **resources_to_billionths(limit.get("defaultRequest")),
                    **default_requests,
                }
        if limits_of_kind:
            merged_ranges.append(LimitRange(kind, minimum, maximum, default_limits, default_requests, ratios))
    return tuple(merged_ranges)


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _unmodeled_fields(
    objects_by_kind: Mapping[str, Mapping[str, Body]], kueue: Body | None, release: KueueRelease
) -> dict[tuple[str, str], tuple[str, ...]]:
    objects = {
        (kind, key.removeprefix("/")): body
        for kind in ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")
        for key, body in objects_by_kind[kind].items()
    }
    fields_by_object = {key: tuple(unmodeled_fields(key[0], body, release.fields)) for key, body in objects.items()}
    fields_by_object["Configuration", ""] = tuple(unmodeled_fields("Configuration", kueue or {}, release.fields))
    return {key: fields for key, fields in fields_by_object.items() if fields}


def _fair_strategies(configuration: Body) -> tuple[FairStrategy, ...]:
    """Source: parseStrategies in pkg/scheduler/preemption/preemption.go."""
    fair_sharing = configuration.get("fairSharing")
    # In v1beta1, fairSharing may be set and is not enabled by default.
    enabled_by_default = not str(configuration.get("apiVersion")).endswith("v1beta1")
    if fair_sharing is None or not fair_sharing.get("enable", enabled_by_default):
        return ()
    strategies: Iterable[FairStrategy] = fair_sharing.get("preemptionStrategies") or ()
    return tuple(strategies) or ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def _requeues_by_creation(wait_for_pods_ready: Body) -> bool:
    return (wait_for_pods_ready.get("requeuingStrategy") or {}).get("timestamp") == "Creation"


def _flavor(gates: FeatureGates, body: Body) -> Flavor:
    spec = body.get("spec") or {}
    return Flavor(
        name=_name(body),
        labels=spec.get("nodeLabels") or {},
        taints=_taints(spec.get("nodeTaints")),
        tolerations=tolerations(spec.get("tolerations") or ()),
        topology=spec.get("topologyName") if gates.is_enabled("TopologyAwareScheduling") else None,
    )


def _cohort(gates: FeatureGates, release: KueueRelease, body: Body) -> Cohort:
    spec = body.get("spec") or {}
    quotas = _quotas(gates, release, spec.get("resourceGroups") or ())
    return Cohort(_name(body), spec.get("parentName") or None, quotas, _weight(spec))


def _weight(spec: Body) -> float:
    """Source: parseFairWeight in pkg/cache/scheduler/fair_sharing.go."""
    weight = (spec.get("fairSharing") or {}).get("weight")
    return 1.0 if weight is None else to_billionths(str(weight)) / WHOLE


def _levels(body: Body) -> tuple[str, ...]:
    return tuple(level["nodeLabel"] for level in (body.get("spec") or {}).get("levels") or ())


def _cluster_queue(
    gates: FeatureGates, release: KueueRelease, calculated_reasons: Container[str], body: Body
) -> ClusterQueue:
    spec = body.get("spec") or {}
    groups = spec.get("resourceGroups") or ()
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return ClusterQueue(
        name=_name(body),
        groups=tuple(
            ResourceGroup(frozenset(group["coveredResources"]), tuple(flavor["name"] for flavor in group["flavors"]))
            for group in groups
        ),
        quotas=_quotas(gates, release, groups),
        # In v1beta1 it is `cohort`.
        cohort=spec.get("cohortName") or spec.get("cohort") or None,
        # A missing selector matches nothing, an empty one everything.
        namespace_selector=None if spec.get("namespaceSelector") is None else label_selector(spec["namespaceSelector"]),
        is_strict_fifo=spec.get("queueingStrategy") == "StrictFIFO",
        preemption=_preemption(spec.get("preemption") or {}),
        fungibility=_fungibility(gates, release, spec.get("flavorFungibility") or {}),
        stop_policy=spec.get("stopPolicy") or "None",
        checks=tuple(check["name"] for check in checks),
        check_flavors={check["name"]: frozenset(check["onFlavors"]) for check in checks if check.get("onFlavors")},
        inactive_message=_inactivity_message(body, calculated_reasons),
        weight=_weight(spec),
        usage_based=(spec.get("admissionScope") or {}).get("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


_OPPOSITE_PREFERENCES: Mapping[str | None, Preference] = {
    "BorrowingOverPreemption": "PreemptionOverBorrowing",
    "PreemptionOverBorrowing": "BorrowingOverPreemption",
}


def _fungibility(gates: FeatureGates, release: KueueRelease, spec: Body) -> FlavorFungibility:
    """Read the preference as v0.15 understands it. Source: isPreferred in flavorassigner.go."""
    # In v1beta1 `MayStopSearch` is called after its field.
    borrow: FungibilityPolicy = "TryNextFlavor" if spec.get("whenCanBorrow") == "TryNextFlavor" else "MayStopSearch"
    preempt: FungibilityPolicy = (
        "MayStopSearch" if spec.get("whenCanPreempt") in ("MayStopSearch", "Preempt") else "TryNextFlavor"
    )
    preference: Preference | None = spec.get("preference")
    if release.preference_as_named:
        preference = _OPPOSITE_PREFERENCES.get(preference)
    implicit = gates.is_enabled("FlavorFungibilityImplicitPreferenceDefault")
    if preference is None and implicit and borrow == "TryNextFlavor":
        preference = "BorrowingOverPreemption"
    return FlavorFungibility(borrow, preempt, preference, release.no_candidates_last)


_CALCULATED_REASONS = {"Stopped", "FlavorNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive"}
"""Reasons of the condition Active that the model calculates itself, from what the environment declares; of a queue
without a Topology too, if the cluster's Topologies are known."""


def _calculated_reasons(topologies: Mapping[str, tuple[str, ...]] | None) -> Container[str]:
    return _CALCULATED_REASONS if topologies is None else {*_CALCULATED_REASONS, "TopologyNotFound"}


def _inactivity_message(queue: Body, calculated_reasons: Container[str]) -> str:
    if queue["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    conditions = (queue.get("status") or {}).get("conditions") or ()
    messages = (
        condition.get("message") or condition["reason"]
        for condition in conditions
        if condition["type"] == "Active"
        and condition["status"] == "False"
        and condition["reason"] not in calculated_reasons
    )
    return next(messages, "").removeprefix("Can't admit new workloads: ").rstrip(".")


def _preemption(spec: Body) -> Preemption:
    borrowing = spec.get("borrowWithinCohort") or {}
    return Preemption(
        within_cluster_queue=spec.get("withinClusterQueue") or "Never",
        reclaim_within_cohort=spec.get("reclaimWithinCohort") or "Never",
        borrow_within_cohort=borrowing.get("policy", "Never") != "Never",
        borrow_threshold=borrowing.get("maxPriorityThreshold"),
    )


def _quotas(gates: FeatureGates, release: KueueRelease, groups: Iterable[Body]) -> dict[FlavorResource, Quota]:
    return {
        (str(flavor["name"]), str(body["name"])): _quota(gates, release, body)
        for group in groups
        for flavor in group["flavors"]
        for body in flavor["resources"]
    }


def _quota(gates: FeatureGates, release: KueueRelease, body: Body) -> Quota:
    value_of = quota_value if release.saturates else resource_value
    nominal, borrowing_limit, lending_limit = (
        None if body.get(key) is None else value_of(body["name"], body[key])
        for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
    )
    return Quota(nominal or 0, borrowing_limit, lending_limit if gates.is_enabled("LendingLimit") else None)


def _local_queue(body: Body) -> LocalQueue:
    spec = body.get("spec") or {}
    return LocalQueue(
        namespace=body["metadata"]["namespace"],
        name=_name(body),
        cluster_queue=spec.get("clusterQueue") or "",
        stop_policy=spec.get("stopPolicy") or "None",
    )


def _checks_of(controller: str, checks: Iterable[Body]) -> frozenset[str]:
    return frozenset(_name(body) for body in checks if (body.get("spec") or {}).get("controllerName") == controller)


def _is_active(check: Body) -> bool:
    conditions = (check.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)


def _node(body: Body) -> ClusterNode:
    spec = body.get("spec") or {}
    return ClusterNode(
        name=_name(body),
        labels=body["metadata"].get("labels") or {},
        taints=_taints(spec.get("taints")),
        allocatable={
            name: resource_value(name, text)
            for name, text in ((body.get("status") or {}).get("allocatable") or {}).items()
        },
        unschedulable=bool(spec.get("unschedulable")),
    )


def _taints(bodies: Iterable[Body] | None) -> tuple[Taint, ...]:
    return tuple(Taint(body["key"], body.get("value") or "", body["effect"]) for body in bodies or ())
