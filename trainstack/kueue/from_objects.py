"""Models and snapshots from Kubernetes objects: those that an environment's builders make, or those that a cluster has.

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Any, cast

from trainstack.declared.declared import Declared
from trainstack.kueue.model import (
    Admitted,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorFungibility,
    FlavorResource,
    LimitRange,
    LocalQueue,
    Model,
    Node,
    Preemption,
    Quota,
    Requirement,
    ResourceGroup,
    Snapshot,
    Taint,
    Transformation,
    Workload,
)
from trainstack.kueue.pod_requests import requirements, tolerations
from trainstack.kueue.quantities import exactly, value
from trainstack.kueue.workloads import read_kueue_workload

Body = Mapping[str, Any]


def declared_model(declared: Declared) -> Model:
    """Of an environment's files, on an idle cluster; where another stack has the queues, they are unknown."""
    environment = declared.settings.environment
    owns = environment.profile == "owner" and "platform" in environment.halves
    unread = ("Node",) if owns else (*_KINDS, "Node")
    return read_model(declared_objects(declared), unread=unread, declared=True)


def declared_objects(declared: Declared) -> list[Body]:
    """What an environment declares of all that an admission depends on."""
    return [*declared.namespaces.of_kind("Namespace"), *declared.queues.manifests]


_KINDS = ("ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass", "AdmissionCheck")


def read_model(
    objects: Iterable[Body], *, unread: Container[str] = (), declared: bool = False, kueue: Body | None = None
) -> Model:
    """A model of objects; those of kinds that it does not need are passed over.

    Args:
        objects: of the kinds that Kueue's admission depends on.
        unread: kinds that may not be read: what there is of them is unknown.
        declared: whether they come from an environment's files.
        kueue: the running Kueue's Configuration, as far as it is known.

    """
    said = kueue or {}
    counting: Body = said.get("resources") or {}
    sharing: Body | None = said.get("fairSharing")
    by_kind: dict[str, dict[str, Body]] = defaultdict(dict)
    for body in objects:
        metadata = body["metadata"]
        by_kind[body["kind"]][f"{metadata.get('namespace', '')}/{metadata['name']}"] = body

    def known(kind: str) -> list[Body] | None:
        return None if kind in unread else list(by_kind[kind].values())

    flavors, cluster_queues, local_queues = map(known, ("ResourceFlavor", "ClusterQueue", "LocalQueue"))
    priorities, checks, nodes = map(known, ("WorkloadPriorityClass", "AdmissionCheck", "Node"))
    ranges: dict[str, list[Body]] = defaultdict(list)
    for body in by_kind["LimitRange"].values():
        ranges[body["metadata"]["namespace"]] += body["spec"].get("limits") or ()
    return Model(
        flavors=None if flavors is None else _named(map(_flavor, flavors)),
        cluster_queues=None if cluster_queues is None else _named(map(_cluster_queue, cluster_queues)),
        local_queues=None
        if local_queues is None
        else {(each.namespace, each.name): each for each in map(_local_queue, local_queues)},
        cohorts=_named(map(_cohort, by_kind["Cohort"].values())),
        namespaces={
            _name(body): {**(body["metadata"].get("labels") or {}), _NAMESPACE_NAME: _name(body)}
            for body in by_kind["Namespace"].values()
        },
        priorities=None if priorities is None else {_name(body): body["value"] for body in priorities},
        active_checks=None if checks is None else {_name(body): _is_active(body) for body in checks},
        limit_ranges={name: limit_ranges(items) for name, items in ranges.items()},
        overheads={
            _name(body): body["overhead"]["podFixed"]
            for body in by_kind["RuntimeClass"].values()
            if (body.get("overhead") or {}).get("podFixed")
        },
        excluded=tuple(counting.get("excludeResourcePrefixes") or ()),
        transformations={each["input"]: _transformation(each) for each in counting.get("transformations") or ()},
        # In v1beta1 it may be there and not enabled.
        fair_sharing=sharing is not None and bool(sharing.get("enable", True)),
        nodes=None if nodes is None else tuple(map(_node, nodes)),
        declared=declared,
    )


def read_snapshot(objects: Iterable[Body], *, unread: Container[str] = (), kueue: Body | None = None) -> Snapshot:
    """A model and who uses it, from what was read of a cluster: Kueue's Workloads too. Arguments as `read_model`'s."""
    bodies = list(objects)
    model = read_model(bodies, unread=unread, kueue=kueue)
    found = [read_kueue_workload(body, model) for body in bodies if body["kind"] == "Workload"]
    return Snapshot(
        model=model,
        admitted=tuple(each for each in found if isinstance(each, Admitted)),
        pending=tuple(each for each in found if isinstance(each, Workload)),
    )


def limit_ranges(items: Iterable[Body]) -> tuple[LimitRange, ...]:
    """The limits of a namespace's LimitRanges, one for containers and one for pods.

    Source: Summarize in Kueue's pkg/util/limitrange/limitrange.go, and the API server's own defaults of a LimitRange.
    """
    found = {}
    for kind in ("Container", "Pod"):
        least: dict[str, int] = {}
        most: dict[str, int] = {}
        limits: dict[str, int] = {}
        wants: dict[str, int] = {}
        for item in (each for each in items if each["type"] == kind):
            highest, lowest = exactly(item.get("max")), exactly(item.get("min"))
            given = {**highest, **exactly(item.get("default"))} if kind == "Container" else {}
            asked = {**lowest, **given, **exactly(item.get("defaultRequest"))} if kind == "Container" else {}
            most |= {name: min(number, most.get(name, number)) for name, number in highest.items()}
            least |= {name: max(number, least.get(name, number)) for name, number in lowest.items()}
            limits, wants = {**given, **limits}, {**asked, **wants}
            found[kind] = LimitRange(
                kind="Container" if kind == "Container" else "Pod",
                least=least,
                most=most,
                default_limits=limits,
                default_requests=wants,
            )
    return tuple(found.values())


_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def _named(things: Iterable[Any]) -> dict[str, Any]:
    return {each.name: each for each in things}


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _flavor(body: Body) -> Flavor:
    spec = body.get("spec") or {}
    return Flavor(
        name=_name(body),
        labels=spec.get("nodeLabels") or {},
        taints=_taints(spec.get("nodeTaints")),
        tolerations=tolerations(spec.get("tolerations") or ()),
        topology=spec.get("topologyName"),
    )


def _cohort(body: Body) -> Cohort:
    spec = body.get("spec") or {}
    return Cohort(_name(body), spec.get("parentName") or None, _quotas(spec.get("resourceGroups") or ()))


def _cluster_queue(body: Body) -> ClusterQueue:
    spec = body["spec"]
    groups = spec.get("resourceGroups") or ()
    fungibility = spec.get("flavorFungibility") or {}
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return ClusterQueue(
        name=_name(body),
        groups=tuple(
            ResourceGroup(frozenset(each["coveredResources"]), tuple(flavor["name"] for flavor in each["flavors"]))
            for each in groups
        ),
        quotas=_quotas(groups),
        cohort=spec.get("cohortName") or None,
        namespaces=_selector(spec.get("namespaceSelector")),
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        preemption=_preemption(spec.get("preemption") or {}),
        fungibility=FlavorFungibility(
            when_can_borrow=fungibility.get("whenCanBorrow") or "MayStopSearch",
            when_can_preempt=fungibility.get("whenCanPreempt") or "TryNextFlavor",
            preference=fungibility.get("preference"),
        ),
        stop_policy=spec.get("stopPolicy") or "None",
        checks=tuple(each["name"] for each in checks),
        check_flavors={each["name"]: frozenset(each["onFlavors"]) for each in checks if each.get("onFlavors")},
        inactive=_inactive(body),
    )


_CALCULATED = {"Stopped", "FlavorNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive"}
"""Reasons that the model tells by itself, for what an environment will have made of the queue."""


def _inactive(queue: Body) -> str:
    if queue["metadata"].get("deletionTimestamp"):
        return "it is being deleted"
    conditions = (queue.get("status") or {}).get("conditions") or ()
    told = (each for each in conditions if each["type"] == "Active" and each["status"] == "False")
    messages = (each.get("message") or each["reason"] for each in told if each["reason"] not in _CALCULATED)
    return next(messages, "").removeprefix("Can't admit new workloads: ").rstrip(".")


def _preemption(said: Body) -> Preemption:
    borrowing = said.get("borrowWithinCohort") or {}
    return Preemption(
        within_cluster_queue=said.get("withinClusterQueue") or "Never",
        reclaim_within_cohort=said.get("reclaimWithinCohort") or "Never",
        borrow_within_cohort=borrowing.get("policy", "Never") != "Never",
        borrow_threshold=borrowing.get("maxPriorityThreshold"),
    )


def _quotas(groups: Iterable[Body]) -> dict[FlavorResource, Quota]:
    found = {}
    for group in groups:
        for flavor in group["flavors"]:
            for said in flavor["resources"]:
                resource = said["name"]
                nominal, borrowing, lending = (
                    None if said.get(key) is None else value(resource, said[key])
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                )
                found[(flavor["name"], resource)] = Quota(nominal or 0, borrowing, lending)
    return cast("dict[FlavorResource, Quota]", found)


def _selector(said: Body | None) -> tuple[Requirement, ...] | None:
    """A label selector; one that is not there selects nothing, one that is empty everything."""
    if said is None:
        return None
    equal = (Requirement(key, "In", (wanted,)) for key, wanted in (said.get("matchLabels") or {}).items())
    return (*equal, *requirements(said.get("matchExpressions")))


def _local_queue(body: Body) -> LocalQueue:
    spec = body["spec"]
    return LocalQueue(
        namespace=body["metadata"]["namespace"],
        name=_name(body),
        cluster_queue=spec["clusterQueue"],
        stop_policy=spec.get("stopPolicy") or "None",
    )


def _is_active(check: Body) -> bool:
    conditions = (check.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def _transformation(body: Body) -> Transformation:
    return Transformation(exactly(body.get("outputs")), body.get("strategy") == "Replace")


def _node(body: Body) -> Node:
    spec = body.get("spec") or {}
    return Node(
        name=_name(body),
        labels=body["metadata"].get("labels") or {},
        taints=_taints(spec.get("taints")),
        allocatable={name: value(name, text) for name, text in body["status"].get("allocatable", {}).items()},
        closed=bool(spec.get("unschedulable")),
    )


def _taints(bodies: Iterable[Body] | None) -> tuple[Taint, ...]:
    return tuple(Taint(each["key"], each.get("value") or "", each["effect"]) for each in bodies or ())
