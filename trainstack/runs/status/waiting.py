"""The reason why a run is queued, in plain words: from Kueue's messages about its Workload, and from other objects.

Kueue's messages are those of v0.15 to v0.19: pkg/scheduler, pkg/controller/core, pkg/workload,
pkg/cache/scheduler/clusterqueue.go.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.settings.values.quantities import format_amount, parse_stored

Body = Mapping[str, Any]
_POD_SET = re.compile(r"(?:^|; )couldn't assign flavors to pod set (?P<name>[^:]+): ")
_PREEMPTING = re.compile(r"Pending the preemption of (?P<count>\d+) workload")
_WORKLOAD_REASONS = (
    (r"ClusterQueue (\S+) is stopped", r"cluster queue \1 is stopped (stopPolicy): ask its owner to resume it"),
    (r"LocalQueue (\S+) is stopped", r"queue \1 is stopped (stopPolicy): ask its owner to resume it"),
    (
        r"LocalQueue (\S+) (?:doesn't exist|is terminating or missing)",
        r"the namespace has no queue \1: correct the run's `queue`, or have the queue declared",
    ),
    (
        r"ClusterQueue (\S+) (?:doesn't exist|not found|is terminating or missing)",
        r"its queue uses cluster queue \1, which does not exist: ask the platform's owner to declare it",
    ),
    (r"ClusterQueue (\S+) is inactive", r"cluster queue \1 is inactive: ask its owner for the reason"),
    (r"LocalQueue (\S+) is inactive", r"queue \1 is inactive: ask its owner for the reason"),
    (
        r"[Ww]orkload namespace doesn't match ClusterQueue selector",
        "the cluster queue does not accept this namespace: ask its owner to add it",
    ),
    (
        r"waiting for all admitted workloads to be in PodsReady condition",
        "it waits until the pods of all admitted runs are ready",
    ),
    (r"The workload has failed admission checks", "an admission check of the cluster queue rejected it"),
    (r"Workload is pending evaluation in the scheduling queue", "Kueue has not evaluated it yet"),
    (
        r"Bypassed scheduling evaluation because an equivalent workload recently failed",
        "an equivalent workload did not fit; Kueue evaluates this one once quota changes",
    ),
    (
        r"Admission is gated by: (.+)",
        r"its admission is gated by \1: whoever set the annotation kueue.x-k8s.io/admission-gated-by removes it",
    ),
    (
        r"Workload has overlapping preemption targets with another workload",
        "the runs that must be preempted for it are being preempted for another workload",
    ),
    (
        r"Workload requires preemption, but it's gated",
        "it must preempt other runs, and a preemption gate prevents that",
    ),
)
"""Kueue's messages about a whole workload."""
INACTIVE_REASONS = {
    "Stopped": "is stopped (stopPolicy): ask its owner to resume it",
    "FlavorNotFound": "lists a flavor that does not exist: ask its owner to declare or remove it",
    "AdmissionCheckNotFound": "lists an admission check that does not exist",
    "AdmissionCheckInactive": "lists an admission check that is not active",
    "TopologyNotFound": "lists a flavor whose topology does not exist: ask its owner to declare it",
    "MultiKueueWithProvisioningRequest": "lists admission checks of both MultiKueue and ProvisioningRequest",
    "ClusterQueueIsInactive": "uses an inactive cluster queue: ask its owner for the reason",
    "Terminating": "is being deleted",
}
"""The text after a queue's name, by the reason of its condition `Active: False`."""
_EVICTION_REASONS = {
    "PodsReadyTimeout": "its pods were not all ready in time",
    "AdmissionCheck": "an admission check was withdrawn",
    "ClusterQueueStopped": "its cluster queue was stopped and drained",
    "LocalQueueStopped": "its queue was stopped and drained",
    "NodeFailures": "a node of its pods failed",
    "FlavorMigration": "a flavor that its cluster queue lists earlier became available",
    "EvictedOnManagerCluster": "it was evicted on the manager cluster of MultiKueue",
}
_PREEMPTION_REASONS = {
    "InClusterQueue": "of higher priority in the same cluster queue",
    "InCohortReclamation": "whose cluster queue reclaimed the quota that it had lent",
    "InCohortFairSharing": "whose cluster queue had less than its fair share",
    "InCohortReclaimWhileBorrowing": "of higher priority, whose cluster queue reclaimed lent quota",
}
_JOB_UID = re.compile(r"JobUID: ([0-9a-f-]+)")


@dataclass(frozen=True)
class Queueing:
    """The objects that determine a launch's admission; None for an object that cannot be read."""

    workload: Body | None
    """The Workload; {} if Kueue has not created one."""
    local_queue: Body | None
    """The LocalQueue; {} if the namespace does not have it."""
    cluster_queue: Body | None = None
    """The ClusterQueue; {} if it does not exist. Tenants cannot read it."""
    dispatched: bool = False
    """Whether MultiKueue manages the launch."""
    connection_problems: Mapping[str, str] = field(default_factory=dict)
    """The reasons why Kueue does not reach worker clusters that the launch may use, by cluster."""
    copies: Mapping[str, Body | str] = field(default_factory=dict)
    """The copies of the Workload in nominated worker clusters, by cluster: {} without a copy, a text if the copy could
    not be read. Empty if no cluster was read."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """The `<namespace>/<name>` of other launches by the uid of their objects, as far as they were read."""


def conditions_by_type(body: Body) -> dict[str, Body]:
    return {condition["type"]: condition for condition in (body.get("status") or {}).get("conditions") or ()}


def preemptor_uid(workload: Body) -> str | None:
    """Return the uid of the launch that preempted this Workload; None if it was not preempted or the uid is unknown."""
    preempted = conditions_by_type(workload).get("Preempted", {})
    match = _JOB_UID.search(preempted.get("message", "")) if preempted.get("status") == "True" else None
    return match[1] if match else None


def worker_cluster(workload: Body) -> str:
    """Return the worker cluster that MultiKueue has chosen for a Workload; empty if it has chosen none."""
    return str((workload.get("status") or {}).get("clusterName") or "")


def nominated_clusters(workload: Body) -> list[str]:
    """Return the worker clusters in which a Workload waits for quota; none once MultiKueue has chosen one."""
    return [] if worker_cluster(workload) else list((workload.get("status") or {}).get("nominatedClusterNames") or ())


def connection_problem(cluster: Body) -> str:
    """Return why Kueue does not reach the cluster of a MultiKueueCluster; empty if it reaches it."""
    active = conditions_by_type(cluster).get("Active")
    if active is None:
        return "it has not been tried yet"
    if active.get("status") == "True":
        return ""
    return ": ".join(filter(None, (active.get("reason"), active.get("message"))))


def _explain_connections(queueing: Queueing) -> str:
    return "; ".join(f"Kueue does not reach {name} ({reason})" for name, reason in queueing.connection_problems.items())


def why_waiting(queue: str | None, queueing: Queueing) -> str:
    """Return why a suspended launch has not been admitted."""
    if queue is None:
        return "it is suspended without a queue: `suspend` was set manually"
    workload = queueing.workload
    if workload is None:
        return (
            "unknown: these credentials may not read the Workloads of this namespace; "
            "ask the namespace's administrator for that permission"
        )
    if not workload:
        return _explain_missing_workload(queue, queueing.local_queue)
    workload_conditions = conditions_by_type(workload)
    # Several reasons can apply at once: an evicted Workload is requeued and may wait for quota again.
    parts = []
    if not workload.get("spec", {}).get("active", True):
        message = workload_conditions.get("Evicted", {}).get("message", "")
        parts.append(
            "Kueue does not admit it, because its Workload is deactivated" + (f": {message}" if message else "")
        )
    evicted = workload_conditions.get("Evicted", {})
    # The eviction of a deactivated Workload is explained above.
    if evicted.get("status") == "True" and evicted.get("reason") != "Deactivated":
        parts.append(_explain_eviction(evicted, workload_conditions.get("Preempted", {}), queueing.owners))
        if queueing.dispatched and evicted.get("reason") == "AdmissionCheck" and _is_requeued_by_check(workload):
            parts[-1] = "MultiKueue requeued it: its worker cluster evicted it, or was lost for workerLostTimeout"
    requeue_state = (workload.get("status") or {}).get("requeueState", {})
    if requeue_state.get("requeueAt"):
        parts.append(f"it is requeued at {requeue_state['requeueAt']}")
    quota = workload_conditions.get("QuotaReserved", {})
    if quota.get("status") == "True":
        parts += [_explain_checks(workload, queueing), _explain_connections(queueing)]
    elif message := quota.get("message", ""):
        parts.append(_explain_inactive_queue(queueing, message) or explain_message(message))
    return "; ".join(filter(None, parts)) or "Kueue has not processed it yet"


def _explain_missing_workload(queue: str, local_queue: Body | None) -> str:
    if local_queue is None:
        return f"Kueue has not created its Workload; these credentials may not read whether queue {queue} exists"
    if not local_queue:
        return f"the namespace has no queue {queue}: correct the run's `queue`, or have the queue declared"
    return "Kueue has not created its Workload yet: check that its controller runs and manages this kind"


def _explain_inactive_queue(queueing: Queueing, message: str) -> str:
    """Return why a queue `is inactive`. Kueue puts the reason into the queue's conditions, not into the Workload's."""
    if "is inactive" not in message:
        return ""
    for queue_kind, body in (("cluster queue", queueing.cluster_queue), ("queue", queueing.local_queue)):
        active = conditions_by_type(body or {}).get("Active", {})
        if body and active.get("status") == "False" and (words := INACTIVE_REASONS.get(active.get("reason", ""))):
            why = _explain_connections(queueing) if active["reason"] == "AdmissionCheckInactive" else ""
            return f"{queue_kind} {body['metadata']['name']} {words}{f': {why}' if why else ''}"
    return ""


def explain_message(message: str) -> str:
    """Return a message of Kueue about an admission in plain words, or unchanged if it is unknown."""
    for pattern, words in _WORKLOAD_REASONS:
        if match := re.search(pattern, message):
            return match.expand(words)
    pod_set_matches = list(_POD_SET.finditer(message))
    ends = [*(pod_set_match.start() for pod_set_match in pod_set_matches), len(message)][1:]
    reasons_by_pod_set = {
        pod_set_match["name"]: _explain_pod_set(message[pod_set_match.end() : end])
        for pod_set_match, end in zip(pod_set_matches, ends, strict=True)
    }
    if not reasons_by_pod_set or not all(reasons_by_pod_set.values()):
        return message
    parts = (
        list(reasons_by_pod_set.values())
        if len(reasons_by_pod_set) == 1
        else [f"{name}: {words}" for name, words in reasons_by_pod_set.items()]
    )
    if match := _PREEMPTING.search(message):
        runs, verb = ("other run", "is") if match["count"] == "1" else ("other runs", "are")
        parts.append(f"it waits for the end of {match['count']} {runs}, which {verb} being preempted for it")
    return "; ".join(parts)


def _explain_never_fits(match: re.Match[str]) -> str:
    resource, flavor, considered, request, capacity = match.groups()
    if any(amount.startswith("-") for amount in (considered, request, capacity)):
        return f"it never fits: sums of {resource} on flavor {flavor} overflow, as they exceed Kueue's 64 bits"
    requested, maximum = parse_stored(considered).exact + parse_stored(request).exact, parse_stored(capacity).exact
    return (
        f"it never fits: it requests {format_amount(requested)} {resource}, but flavor {flavor} has at most "
        f"{format_amount(maximum)}, {format_amount(requested - maximum)} short"
    )


_POD_SET_REASONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed",
        r"insufficient \1: \3 more of flavor \2 must become free",
    ),
    (
        (
            r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests "
            r"\((\S+)\) \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
        ),
        _explain_never_fits,
    ),
    (r"resource (\S+) unavailable in ClusterQueue", r"it never fits: the cluster queue has no quota for \1"),
    (
        r"untolerated taint (\{[^}]*\}|\S+) in flavor ([^,; ]+[^,;. ])",
        r"it does not tolerate the taint \1 of flavor \2",
    ),
    (r"flavor (\S+) doesn't match node affinity", r"flavor \1 does not match its node selector"),
)
"""Kueue's reasons about a pod set."""


def _explain_pod_set(text: str) -> str:
    return "; or ".join(
        match.expand(words) if isinstance(words, str) else words(match)
        for pattern, words in _POD_SET_REASONS
        for match in re.finditer(pattern, text)
    )


def _explain_eviction(evicted: Body, preempted: Body, owners: Mapping[str, str]) -> str:
    if evicted["reason"] != "Preempted":
        why = _EVICTION_REASONS.get(evicted["reason"], evicted.get("message", evicted["reason"]))
        return f"it was evicted: {why}"
    uid = _JOB_UID.search(preempted.get("message", "") or evicted.get("message", ""))
    preemptor_name = owners.get(uid[1]) if uid else None
    why = _PREEMPTION_REASONS.get(preempted.get("reason", ""), "")
    return f"it was preempted by {preemptor_name or 'another run'}{f', {why}' if why else ''}"


def _explain_missing_quota(copy: Body | str) -> str:
    """Return why a worker cluster has not reserved quota for a Workload."""
    if isinstance(copy, str):
        return copy
    if not copy:
        return "Kueue has not created its Workload there; `trainstack check --cluster` names what is missing"
    return (
        explain_message(conditions_by_type(copy).get("QuotaReserved", {}).get("message", ""))
        or "Kueue has not processed it yet"
    )


def _is_requeued_by_check(workload: Body) -> bool:
    """Return whether the only admission check of a Workload, that of MultiKueue, has requeued it.

    Kueue v0.15 requeues it if the worker cluster is lost; releases since v0.16 also if the worker cluster evicts it.
    """
    checks = list((workload.get("status") or {}).get("admissionChecks") or ())
    return len(checks) == 1 and bool(checks[0].get("retryCount"))


def _explain_checks(workload: Body, queueing: Queueing) -> str:
    status = workload.get("status") or {}
    waiting = [check for check in status.get("admissionChecks") or () if check.get("state") != "Ready"]
    if not waiting:
        return ""
    names = ", ".join(check["name"] for check in waiting)
    text = f"its quota is reserved; it waits for admission check {names}"
    if cluster := worker_cluster(workload):
        return f"{text}, which starts it in cluster {cluster}"
    if nominated := nominated_clusters(workload):
        why = "; ".join(
            f"{name}: {_explain_missing_quota(queueing.copies[name])}" if name in queueing.copies else name
            for name in sorted(nominated)
        )
        return f"{text}: no cluster has reserved quota for it yet ({why})"
    messages = "; ".join(check["message"] for check in waiting if check.get("message"))
    return f"{text} ({messages})" if messages else text
