"""Why a run waits, in plain words: what Kueue says of its Workload, and what it leaves unsaid.

Kueue's messages are those of v0.15: pkg/scheduler, pkg/controller/core, pkg/cache/scheduler/clusterqueue.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainstack.settings.values.quantities import amount, readable

Body = Mapping[str, Any]
_POD_SET = re.compile(r"(?:^|; )couldn't assign flavors to pod set (?P<name>[^:]+): ")
_REASONS = (
    re.compile(r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<more>\S+) more needed"),
    re.compile(
        r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), previously considered podsets requests "
        r"\((?P<before>\S+)\) \+ current podset request \((?P<request>\S+)\) > maximum capacity \((?P<most>\S+)\)"
    ),
    re.compile(r"resource (?P<uncovered>\S+) unavailable in ClusterQueue"),
    re.compile(r"untolerated taint (?P<taint>\{[^}]*\}|\S+) in flavor (?P<flavor>[^,; ]+[^,;. ])"),
    re.compile(r"flavor (?P<other>\S+) doesn't match node affinity"),
)
_PREEMPTING = re.compile(r"Pending the preemption of (?P<count>\d+) workload")
_WHOLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"ClusterQueue (\S+) is stopped", r"cluster queue \1 is on hold (its stopPolicy): its owner lets it go on"),
        (r"LocalQueue (\S+) is stopped", r"queue \1 is on hold (its stopPolicy): its owner lets it go on"),
        (
            r"LocalQueue (\S+) (?:doesn't exist|is terminating or missing)",
            r"the namespace has no queue \1: correct the run's `queue`, or have the queue declared",
        ),
        (
            r"ClusterQueue (\S+) (?:doesn't exist|not found|is terminating or missing)",
            r"its queue leads to cluster queue \1, which does not exist: the platform's owner declares it",
        ),
        (r"ClusterQueue (\S+) is inactive", r"cluster queue \1 admits nothing now: its owner can say why"),
        (r"LocalQueue (\S+) is inactive", r"queue \1 admits nothing now: its owner can say why"),
        (
            r"Workload namespace doesn't match ClusterQueue selector",
            "the cluster queue is not open to this namespace: its owner can open it",
        ),
        (
            r"waiting for all admitted workloads to be in PodsReady condition",
            "it is its turn once the pods of all runs that were admitted before are ready",
        ),
        (r"The workload has failed admission checks", "an admission check of the cluster queue has refused it"),
    )
)
INACTIVE = {
    "Stopped": "is on hold (its stopPolicy): its owner lets it go on",
    "FlavorNotFound": "lists a flavor that does not exist: its owner declares it or takes it out",
    "AdmissionCheckNotFound": "lists an admission check that does not exist",
    "AdmissionCheckInactive": "lists an admission check that is not active",
    "ClusterQueueIsInactive": "leads to a cluster queue that admits nothing now: its owner can say why",
    "Terminating": "is being deleted",
}
"""What a queue's reason for not being active means, after the queue's name."""
_EVICTED = {
    "PodsReadyTimeout": "its pods were not all ready in time",
    "AdmissionCheck": "an admission check was withdrawn",
    "ClusterQueueStopped": "its cluster queue was stopped and drained",
    "LocalQueueStopped": "its queue was stopped and drained",
    "NodeFailures": "a node of its pods failed",
}
_BY_WHOM = {
    "InClusterQueue": "of higher priority in the same cluster queue",
    "InCohortReclamation": "whose cluster queue took back the quota that it had lent",
    "InCohortFairSharing": "whose cluster queue had less than its fair share",
    "InCohortReclaimWhileBorrowing": "of higher priority, whose cluster queue took back lent quota",
}
_JOB_UID = re.compile(r"JobUID: ([0-9a-f-]+)")


@dataclass(frozen=True)
class Queueing:
    """What was read of a launch's queueing. None: it may not be read."""

    workload: Body | None
    """The Workload; {} where Kueue has made none."""
    local_queue: Body | None
    """{} where the namespace has none of that name."""
    cluster_queue: Body | None = None
    """{} where it does not exist. A tenant never reads it."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """`<namespace>/<name>` of other launches by the uid of their objects, as far as they were looked up."""


def conditions(body: Body) -> dict[str, Body]:
    """An object's conditions by type."""
    return {each["type"]: each for each in (body.get("status") or {}).get("conditions") or ()}


def preemptor(workload: Body) -> str | None:
    """The uid of the launch that this Workload was preempted for; None when it was not, or that is not told."""
    preempted = conditions(workload).get("Preempted", {})
    match = _JOB_UID.search(preempted.get("message", "")) if preempted.get("status") == "True" else None
    return match[1] if match else None


def why_waiting(queue: str, queueing: Queueing) -> str:
    """Why a launch that is suspended has not been admitted."""
    workload = queueing.workload
    if workload is None:
        return (
            "unknown: Workloads of this namespace may not be read with these credentials; "
            "who administers the namespace can grant that"
        )
    if not workload:
        return _without_workload(queue, queueing.local_queue)
    found = conditions(workload)
    parts = []
    if not workload.get("spec", {}).get("active", True):
        message = found.get("Evicted", {}).get("message", "")
        parts.append("Kueue holds it for good, it is deactivated" + (f": {message}" if message else ""))
    evicted = found.get("Evicted", {})
    if evicted.get("status") == "True" and evicted.get("reason") != "Deactivated":
        parts.append(_evicted(evicted, found.get("Preempted", {}), queueing.owners))
    again = (workload.get("status") or {}).get("requeueState", {})
    if again.get("requeueAt"):
        parts.append(f"it is tried again at {again['requeueAt']}")
    quota = found.get("QuotaReserved", {})
    if quota.get("status") == "True":
        parts.append(_checks(workload))
    elif message := quota.get("message", ""):
        parts.append(_queue_closed(queueing, message) or in_words(message))
    return "; ".join(filter(None, parts)) or "Kueue has not judged it yet"


def _without_workload(queue: str, local_queue: Body | None) -> str:
    if local_queue is None:
        return f"Kueue has not taken it up; whether queue {queue} exists may not be read with these credentials"
    if not local_queue:
        return f"the namespace has no queue {queue}: correct the run's `queue`, or have the queue declared"
    return "Kueue has not taken it up yet: is its controller running, and does it manage this kind?"


def _queue_closed(queueing: Queueing, message: str) -> str:
    """The reason behind Kueue's `is inactive`, which the queue tells and the Workload does not."""
    if "is inactive" not in message:
        return ""
    for what, body in (("cluster queue", queueing.cluster_queue), ("queue", queueing.local_queue)):
        active = conditions(body or {}).get("Active", {})
        if body and active.get("status") == "False" and (words := INACTIVE.get(active.get("reason", ""))):
            return f"{what} {body['metadata']['name']} {words}"
    return ""


def in_words(message: str) -> str:
    """One of Kueue's messages about an admission, in plain words; itself where it says something unknown."""
    for pattern, words in _WHOLE:
        if match := pattern.search(message):
            return match.expand(words)
    bounds = list(_POD_SET.finditer(message))
    ends = [*(each.start() for each in bounds), len(message)][1:]
    sets = {each["name"]: _pod_set(message[each.end() : end]) for each, end in zip(bounds, ends, strict=True)}
    if not sets or not all(sets.values()):
        return message
    parts = list(sets.values()) if len(sets) == 1 else [f"{name}: {words}" for name, words in sets.items()]
    if match := _PREEMPTING.search(message):
        parts.append(f"{match['count']} other run{'' if match['count'] == '1' else 's'} must give way first")
    return "; ".join(parts)


def _pod_set(text: str) -> str:
    return "; or ".join(_reason(match.groupdict()) for reason in _REASONS for match in reason.finditer(text))


def _reason(said: Mapping[str, str]) -> str:
    if "more" in said:
        return (
            f"{said['resource']} is in use by others: {said['more']} more of flavor {said['flavor']} must become free"
        )
    if "most" in said:
        wanted, most = amount(said["before"]) + amount(said["request"]), amount(said["most"])
        return (
            f"it never fits: it asks for {readable(wanted)} {said['resource']}, and flavor {said['flavor']} has "
            f"{readable(most)} at most, {readable(wanted - most)} short"
        )
    if "uncovered" in said:
        return f"it never fits: the cluster queue has no quota for {said['uncovered']} at all"
    if "taint" in said:
        return f"it does not tolerate the taint {said['taint']} of flavor {said['flavor']}"
    return f"flavor {said['other']} is of other nodes than it selects"


def _evicted(evicted: Body, preempted: Body, owners: Mapping[str, str]) -> str:
    if evicted["reason"] != "Preempted":
        why = _EVICTED.get(evicted["reason"], evicted.get("message", evicted["reason"]))
        return f"it was evicted: {why}"
    uid = _JOB_UID.search(preempted.get("message", "") or evicted.get("message", ""))
    by = owners.get(uid[1]) if uid else None
    why = _BY_WHOM.get(preempted.get("reason", ""), "")
    return f"it was preempted by {by or 'another run'}{f', {why}' if why else ''}"


def _checks(workload: Body) -> str:
    states = (workload.get("status") or {}).get("admissionChecks") or ()
    names = [each["name"] for each in states if each.get("state") != "Ready"]
    return f"its quota is reserved; it waits for admission check {', '.join(names)}" if names else ""
