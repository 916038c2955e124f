"""Why a workload is not admitted: all that is missing, not only where the flavor search ended."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf

from trainstack.kueue.field_paths import local_queue_path, queue_path, quota_path
from trainstack.kueue.flavor_assigner import scale_requests
from trainstack.kueue.managed_jobs import manages_namespace, namespace_labels
from trainstack.kueue.model import (
    ClusterQueue,
    Flavor,
    FlavorResource,
    Model,
    PodSet,
    Requirement,
    Usage,
    Workload,
)
from trainstack.kueue.node_affinity import (
    find_untolerated_taint,
    match_labels,
    requirement_fault,
    selector_matches,
)
from trainstack.kueue.quantities import format_readable
from trainstack.kueue.resource_node import (
    dispatches_and_provisions,
    inactive_checks,
    missing_flavors,
    missing_topologies,
)
from trainstack.kueue.snapshot import GroupFlavors, QueueSnapshot, Snapshot
from trainstack.kueue.verdict import Cause, Reason


def inadmissibility_reasons(
    model: Model, workload: Workload, queue: ClusterQueue, snapshot: Snapshot
) -> Iterator[Reason]:
    """Yield the reasons that do not depend on quota: a rejected workload, other namespaces, an inactive queue."""
    yield from _management_reasons(model, workload)
    yield from _rejection_reasons(workload)
    queue_reason = partial(_queue_reason, model, queue.name)
    if not selector_matches(queue.namespace_selector, namespace_labels(model, workload.namespace)):
        yield queue_reason("queue-closed", f"does not admit workloads of namespace {workload.namespace}", "namespaces")
    for flavor in missing_flavors(model, queue):
        yield queue_reason("flavor-missing", f"is inactive: its flavor {flavor} does not exist", flavor=flavor)
    for topology in missing_topologies(model, queue):
        yield queue_reason("topology-missing", f"is inactive: topology {topology} of its flavors does not exist")
    for check in inactive_checks(model, queue):
        yield queue_reason("check-inactive", f"is inactive: its admission check {check} is missing or inactive")
    if queue.cohort is not None and snapshot.tree.is_cyclic(queue.cohort):
        yield queue_reason(
            "cohort-cycle", f"is inactive: the parents of its cohort {queue.cohort} form a cycle", "cohort"
        )
    if queue.inactive_message:
        yield queue_reason("queue-inactive", f"is inactive: {queue.inactive_message}")
    # A declared queue has no status, so the rule of the release is applied here.
    elif model.release.dispatches_or_provisions and dispatches_and_provisions(model, queue):
        yield queue_reason("queue-inactive", "is inactive: it has checks of both MultiKueue and ProvisioningRequest")
    local_queue = (model.local_queues or {})[workload.namespace, workload.queue]
    if queue.stop_policy != "None":
        yield queue_reason("queue-stopped", f"is stopped (stopPolicy: {queue.stop_policy})", "stopPolicy")
    if local_queue.stop_policy != "None":
        message = f"queue {local_queue.name} is stopped (stopPolicy: {local_queue.stop_policy})"
        yield Reason(
            "queue-stopped", message, local_queue_path(model, local_queue.namespace, local_queue.name, "stopPolicy")
        )


def _management_reasons(model: Model, workload: Workload) -> Iterator[Reason]:
    """Yield why Kueue creates no Workload for the run, which stays suspended."""
    count = len(workload.pod_sets)
    maximum = model.release.max_pod_sets
    if count > maximum:
        message = f"it has {count} kinds of pods, and a Workload of Kueue at most {maximum}: it stays suspended"
        yield Reason("pod-sets", message, workload.path)
    if not manages_namespace(model, workload.namespace):
        message = (
            f"managedJobsNamespaceSelector of Kueue's Configuration leaves out namespace {workload.namespace}: it "
            "stays suspended"
        )
        yield Reason("namespace-unmanaged", message, f"{workload.path}.namespace")


def _rejection_reasons(workload: Workload) -> Iterator[Reason]:
    """Yield the reasons in the workload itself."""
    if workload.requeue_at is not None:
        requeue_time = datetime.fromtimestamp(workload.requeue_at, UTC).isoformat()
        yield Reason("backoff", f"Kueue queues it again at {requeue_time}, after its eviction", workload.path)
    for check, state in workload.failed_checks.items():
        cause: Cause = "check-retry" if state == "Retry" else "check-failed"
        yield Reason(cause, f"its admission check {check} is in state {state}", workload.path)
    for pods in workload.pod_sets:
        for fault in pods.faults:
            yield Reason("pod-refused", fault, pods.resources_path, pods.name)


def _queue_reason(model: Model, queue: str, cause: Cause, problem: str, key: str = "", flavor: str = "") -> Reason:
    """Return a reason in the cluster queue. `key`: the settings key of its field."""
    return Reason(cause, f"cluster queue {queue} {problem}", queue_path(model, queue, key), flavor=flavor)


def unmet_requests(model: Model, cq: QueueSnapshot, workload: Workload, *, now: bool) -> list[Reason]:
    """Return the missing quota and the flavors that do not match.

    A pod set without a flavor is counted on the one that has the most of what it requests, so that the requests of
    later pod sets are added to it. `now`: compare with the quota that is available now, not with an idle cluster's.
    """
    # The first flavor with the smallest shortage counts as assigned, so that shortages of later pod sets add up.
    reasons: list[Reason] = []
    usage: dict[FlavorResource, int] = {}
    for pods in workload.pod_sets:
        requests = scale_requests(pods, pods.count)
        if "pods" in cq.group_of:
            requests["pods"] = pods.count
        for resource in cq.uncovered_resources(requests):
            message = f"{_pod_phrase(pods)} requests {resource}, which cluster queue {cq.spec.name} does not cover"
            reasons.append(Reason("uncovered", message, pods.resources_path, pods.name, resource=resource))
        # `group_of` has a group once for each of its resources.
        groups = {id(group): group for name, group in cq.group_of.items() if name in requests}
        nearest_flavors: list[str] = []
        for group in groups.values():
            covered_requests = {name: number for name, number in requests.items() if name in group.covered_resources}
            group_reasons, nearest_flavor = _group_reasons(model, cq, pods, group, covered_requests, usage, now=now)
            reasons += group_reasons
            if nearest_flavor is None:
                continue
            nearest_flavors.append(nearest_flavor)
            for resource, number in covered_requests.items():
                usage[nearest_flavor, resource] = usage.get((nearest_flavor, resource), 0) + number
        if pods.count and len(nearest_flavors) == len(groups) and cq.lacks_one_topology(pods, nearest_flavors):
            reasons.append(_topologies_reason(cq, pods, nearest_flavors))
    return reasons


def _group_reasons(
    model: Model,
    cq: QueueSnapshot,
    pods: PodSet,
    group: GroupFlavors,
    requests: dict[str, int],
    usage: Usage,
    *,
    now: bool,
) -> tuple[list[Reason], str | None]:
    """Return what is missing in one resource group, and the flavor with the smallest shortage; None if none matches."""
    mismatches: list[Reason] = []
    shortages_by_flavor: dict[str, list[Reason]] = {}
    # A missing flavor is reported by `inadmissibility_reasons`.
    for flavor in group.flavors:
        if flavor is not None and (mismatch := _mismatch(cq, pods, group, flavor)):
            if mismatch.cause == "unreadable-affinity":
                return [mismatch], None  # It ends the search for a flavor.
            mismatches.append(mismatch)
        elif flavor is not None:
            amounts = {(flavor.name, resource): number for resource, number in requests.items()}
            shortages_by_flavor[flavor.name] = _shortages(model, cq, pods, amounts, usage, now=now)
    if not shortages_by_flavor:
        return _explain_contradiction(mismatches, pods, group), None
    nearest_flavor = min(shortages_by_flavor, key=lambda name: _distance(shortages_by_flavor[name], requests))
    return shortages_by_flavor[nearest_flavor], nearest_flavor


def _topologies_reason(cq: QueueSnapshot, pods: PodSet, flavors: Iterable[str]) -> Reason:
    names = sorted(cq.topology_flavors & {*flavors})
    got = f"flavors {' and '.join(names)}, of which each has a topology" if names else "no flavor with a topology"
    message = f"{_pod_phrase(pods)} gets {got}; Kueue places pods in the topology of exactly one flavor"
    return Reason("topology", message, pods.path, pods.name, next(iter(names), ""))


def _distance(shortages: list[Reason], requests: dict[str, int]) -> float:
    """Return how far a flavor is from having enough; infinite if no amount of quota would help."""
    return sum(
        inf if reason.cause == "overflow" else reason.missing / max(1, requests[reason.resource])
        for reason in shortages
    )


def _mismatch(cq: QueueSnapshot, pods: PodSet, group: GroupFlavors, flavor: Flavor) -> Reason | None:
    pod_phrase = _pod_phrase(pods)
    match cq.topology_mismatch(flavor, pods, group):
        case "none":
            message = f"{pod_phrase} requests a topology, but flavor {flavor.name} has none"
            return Reason("topology", message, pods.path, pods.name, flavor.name)
        case "only":
            message = f"flavor {flavor.name} requires pods that request a topology; {pod_phrase} does not"
            return Reason("topology", message, pods.path, pods.name, flavor.name)
        case "level":
            return _missing_level(cq, pods, flavor)
    taint = find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        message = (
            f"flavor {flavor.name} has the taint {taint.key}{value}:{taint.effect}, which {pod_phrase} does not "
            "tolerate"
        )
        return Reason("taint", message, pods.path, pods.name, flavor.name)
    return _label_mismatch(pods, group, flavor)


def _label_mismatch(pods: PodSet, group: GroupFlavors, flavor: Flavor) -> Reason | None:
    match, pod_phrase = (
        match_labels(pods.selector, pods.affinity, flavor.labels, group.compared_keys(flavor)),
        _pod_phrase(pods),
    )
    if isinstance(match, Requirement):
        message = f"Kueue cannot read the node affinity of {pod_phrase}, label {match.key}: {requirement_fault(match)}"
        return Reason("unreadable-affinity", message, pods.path, pods.name, flavor.name)
    if not match:
        message = f"the labels of flavor {flavor.name} do not match the node selector or affinity of {pod_phrase}"
        return Reason("affinity", message, pods.path, pods.name, flavor.name)
    return None


def _explain_contradiction(mismatches: list[Reason], pods: PodSet, group: GroupFlavors) -> list[Reason]:
    """Return the reasons, of which the first names the labels of several flavors that the pods select together."""
    if any(reason.cause != "affinity" for reason in mismatches):
        return mismatches
    flavors_by_label: dict[str, list[str]] = {}
    for key, value in pods.selector.items():
        names = [flavor.name for flavor in group.flavors if flavor is not None and flavor.labels.get(key) == value]
        if any(key in group.compared_keys(flavor) for flavor in group.flavors if flavor is not None):
            flavors_by_label[f"{key}={value}"] = names
    if len(flavors_by_label) < 2 or not all(flavors_by_label.values()):
        return mismatches
    labels = " and ".join(f"{label} of flavor {' or '.join(names)}" for label, names in flavors_by_label.items())
    first_mismatch, *further_mismatches = mismatches
    return [
        replace(first_mismatch, message=f"{_pod_phrase(pods)} selects {labels}, but no flavor has all"),
        *further_mismatches,
    ]


def _missing_level(cq: QueueSnapshot, pods: PodSet, flavor: Flavor) -> Reason:
    levels = (cq.topologies or {})[flavor.topology or ""]
    missing_levels = " and ".join(level for level in pods.levels if level not in levels)
    message = (
        f"{_pod_phrase(pods)} requests level {missing_levels}, which topology {flavor.topology} of flavor "
        f"{flavor.name} does not have (its levels: {', '.join(levels)})"
    )
    return Reason("topology-level", message, pods.path, pods.name, flavor.name)


def _shortages(
    model: Model, cq: QueueSnapshot, pods: PodSet, amounts: Usage, usage: Usage, *, now: bool
) -> list[Reason]:
    shortages = []
    queue, name = cq.spec.name, "" if pods.name == "main" else f"{pods.name} "
    needs = f"{pods.count} {name}{'pod needs' if pods.count == 1 else 'pods need'}"
    for fr, number in amounts.items():
        flavor, resource = fr
        available = cq.available(fr) if now else cq.node.potential_available(fr)
        earlier_usage = usage.get(fr, 0)
        missing = earlier_usage + number - available
        if missing <= 0:
            continue
        amount = partial(format_readable, resource)
        # After an overflow, the difference is not an amount of quota that is missing.
        if not now and cq.node.overflows(fr):
            message = (
                f"{needs} {amount(number)} {resource}; the quotas of {resource} on flavor {flavor} that cluster queue "
                f"{queue} depends on overflow: they add up to more than the 64 bits in which Kueue calculates"
            )
            field_path = quota_path(model, queue, flavor, resource)
            shortages.append(Reason("overflow", message, pods.path, pods.name, flavor, resource, quota_path=field_path))
            continue
        addition = f", in addition to the {amount(earlier_usage)} of the pod sets before them" if earlier_usage else ""
        available_text = (
            f"has {amount(max(0, available))} of flavor {flavor} available ({amount(missing)} must be released)"
            if now
            else f"has at most {amount(available)} of flavor {flavor} ({amount(missing)} missing)"
        )
        reason = Reason(
            cause="in-use" if now else "quota",
            message=f"{needs} {amount(number)} {resource}{addition}; cluster queue {queue} {available_text}",
            path=pods.path,
            pod_set=pods.name,
            flavor=flavor,
            resource=resource,
            missing=missing,
            quota_path=quota_path(model, queue, flavor, resource),
        )
        shortages.append(reason)
    return shortages


def _pod_phrase(pods: PodSet) -> str:
    return "the pod" if pods.name == "main" and pods.count == 1 else f"the {pods.name} pod"
