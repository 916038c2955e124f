"""Rules about the cluster's queues and priority classes, and about runs that a queue could never admit."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainstack.kueue.booking import contradictory_flavors, pods_without_booking
from trainstack.kueue.resource_node import missing_objects
from trainstack.kueue.verdict import Cause, Reason, Verdict
from trainstack.preflight.live_context import LiveContext, absent_name, declared, unread
from trainstack.preflight.rule import Rule, Severity, Violation
from trainstack.preflight.rules.admission import (
    flavors_contradict,
    never_fits,
    remedy_of,
    requests_nothing,
    resource_uncovered,
)
from trainstack.preflight.rules.operators import framework_unlisted
from trainstack.preflight.rules.queues import queue_closed
from trainstack.preflight.rules.references import priority_unknown, queue_unknown
from trainstack.runs.status.kinds import framework_of, shown_kind
from trainstack.runs.status.waiting import INACTIVE, conditions

_NEVER_FITS: tuple[Cause, ...] = (
    "quota",
    "overflow",
    "taint",
    "affinity",
    "topology",
    "topology-level",
    "placement",
    "pod-refused",
    "pod-sets",
    "namespace-unmanaged",
)
"""Causes of `never-fits` on a cluster. Other rules report missing objects and queues that admit nothing."""

Body = Mapping[str, Any]
_MISSING = ("FlavorNotFound", "TopologyNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive")
"""Reasons for which Kueue keeps a cluster queue inactive until other objects exist."""


@queue_unknown.rule
def queue_absent(context: LiveContext) -> Iterator[Violation]:
    own = {(queue.namespace, queue.name) for queue in context.settings.queues.local_queues}
    for path, run in context.runs():
        if run.queue is not None and "LocalQueue" not in context.live.unserved:
            is_own = (run.namespace, run.queue) in own
            yield from absent_name(context, f"{path}.queue", "LocalQueue", run.queue, run.namespace, own=is_own)


@Rule(
    id="queue-inactive",
    may_be=("warning",),
    summary="A run's local queue or cluster queue admits nothing now.",
    details="A warning if the queue is stopped (`stopPolicy`).",
    example="A cluster queue with a flavor that does not exist.",
    remedy="Ask the owner of the queue to correct it. Until then the run waits.",
)
def queue_inactive(context: LiveContext) -> Iterator[Violation]:
    cluster_queues = context.live.all("ClusterQueue") or {}
    for path, run in context.runs():
        queue = (context.live.all("LocalQueue", run.namespace) or {}).get(run.queue or "")
        if queue is None:
            continue
        name = (queue.get("spec") or {}).get("clusterQueue", "")
        if _is_completed(context, name, cluster_queues.get(name)):
            continue
        for title, body in ((f"cluster queue {name}", cluster_queues.get(name)), (f"queue {run.queue}", queue)):
            active = conditions(body).get("Active", {}) if body else {}
            if active.get("status") != "False":
                continue
            reason = INACTIVE.get(active["reason"], f"admits nothing: {active.get('message', active['reason'])}")
            severity: Severity = "warning" if active["reason"] == "Stopped" else "error"
            remedy = "the run waits until the owner of the queue corrects this"
            yield Violation(f"{path}.queue", f"{title} {reason}", remedy, severity)
            break


def _is_completed(context: LiveContext, name: str, body: Body | None) -> bool:
    """Return whether a cluster queue is inactive only because it lacks objects that `up` creates."""
    model = context.snapshot.model
    queue = (model.cluster_queues or {}).get(name)
    if queue is None or body is None or queue.inactive_message or missing_objects(model, queue):
        return False
    return conditions(body).get("Active", {}).get("reason") in _MISSING


@priority_unknown.rule
def priority_missing(context: LiveContext) -> Iterator[Violation]:
    own = {priority.name for priority in context.settings.queues.priority_classes}
    kind = "WorkloadPriorityClass"
    for path, run in context.runs():
        if run.priority is not None and kind not in context.live.unserved:
            yield from absent_name(context, f"{path}.priority", kind, run.priority, own=run.priority in own)


@framework_unlisted.rule
def framework_unmanaged(context: LiveContext) -> Iterator[Violation]:
    if declared(context.settings, "kueue"):
        return
    managed, reported = context.live.frameworks, set()
    for path, run in context.runs():
        framework, kind = framework_of(run), shown_kind(run)
        if run.queue is None or framework in reported or "LocalQueue" in context.live.unserved:
            continue
        if managed is None:
            reported.add(framework)
            yield unread(context, f"{path}.kind", f"Kueue manages kind {kind}", "its configuration")
        elif framework not in managed:
            message = f"the cluster's Kueue does not manage kind {kind}: the run would start outside every quota"
            remedy = f"have {framework} added to integrations.frameworks of Kueue's configuration"
            yield Violation(f"{path}.kind", message, remedy)


@never_fits.rule
def never_admitted(context: LiveContext) -> Iterator[Violation]:
    yield from _refused(context, _NEVER_FITS)


@requests_nothing.rule
def nothing_counted(context: LiveContext) -> Iterator[Violation]:
    """Yield pods of which the cluster's Kueue counts nothing, without those that the files already show."""
    model, reported = context.model_of_files, context.submissions_of_files
    known = {pods.resources_path for workload in reported for pods, _ in pods_without_booking(model, workload)}
    for workload in context.submissions:
        for pods, message in pods_without_booking(context.snapshot.model, workload):
            if pods.resources_path not in known:
                yield Violation(pods.resources_path, message)


@flavors_contradict.rule
def contradiction_on_cluster(context: LiveContext) -> Iterator[Violation]:
    reported = {
        (verdict.path, message)
        for verdict in context.verdicts_of_files
        for _, message in contradictory_flavors(context.model_of_files, verdict)
    }
    for verdict in context.verdicts:
        for _, message in contradictory_flavors(context.snapshot.model, verdict):
            if (verdict.path, message) not in reported:
                yield Violation(verdict.path, message)


@resource_uncovered.rule
def uncovered_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from _refused(context, ("uncovered",))


@queue_closed.rule
def closed_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from _refused(context, ("queue-closed",))


def _refused(context: LiveContext, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    """Yield violations of runs that the cluster could never admit, without reasons that the files show."""
    refused = [verdict for verdict in context.verdicts if verdict.outcome == "never fits"]
    reported = {key for verdict in context.verdicts_of_files for key, _ in _reasons(verdict)} if refused else set()
    for verdict in refused:
        for key, reason in _reasons(verdict):
            if reason.cause in causes and key not in reported:
                yield Violation(reason.path, reason.message, remedy_of(verdict, reason))


def _reasons(verdict: Verdict) -> Iterator[tuple[tuple[str, ...], Reason]]:
    """Yield the reasons of a verdict, with keys that do not depend on amounts, which differ on the cluster."""
    for reason in verdict.reasons:
        yield (verdict.path, reason.cause, reason.pod_set, reason.resource), reason
