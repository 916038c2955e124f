"""Rules about the cluster's queues and priority classes, and about runs that a queue could never admit."""

from collections.abc import Iterator, Mapping
from typing import Any

from semver import Version

from trainstack.kueue.booking import contradictory_flavors, pods_without_booking
from trainstack.kueue.resource_node import missing_objects
from trainstack.kueue.verdict import Cause, Reason, Verdict
from trainstack.preflight.live_context import LiveContext, find_missing_object, is_operator_declared, unread_violation
from trainstack.preflight.rule import Rule, Severity, Violation
from trainstack.preflight.rules.admission import (
    flavors_contradict,
    never_fits,
    reason_remedy,
    requests_nothing,
    resource_uncovered,
)
from trainstack.preflight.rules.operators import TRAINING_OPERATOR_FRAMEWORKS, framework_unlisted
from trainstack.preflight.rules.queues import queue_closed
from trainstack.preflight.rules.references import priority_unknown, queue_unknown
from trainstack.runs.status.launch_kinds import display_kind, framework_of
from trainstack.runs.status.waiting import INACTIVE_REASONS, conditions_by_type
from trainstack.settings.sections.workloads import Workload
from trainstack.versions import parse_release

_NEVER_FITS: tuple[Cause, ...] = (
    "quota",
    "overflow",
    "taint",
    "affinity",
    "unreadable-affinity",
    "topology",
    "topology-level",
    "placement",
    "pod-refused",
    "pod-sets",
    "namespace-unmanaged",
)
"""Causes of `never-fits` on a cluster. Other rules report missing objects and queues that admit nothing."""

_FIRST_KUEUE_WITHOUT_TRAINING_OPERATOR = Version(0, 19, 0)
"""First Kueue release whose manifest does not enable the kinds of the training operator. Source: `frameworks` in its
config/components/manager/controller_manager_config.yaml."""

Body = Mapping[str, Any]
_MISSING_OBJECT_REASONS = ("FlavorNotFound", "TopologyNotFound", "AdmissionCheckNotFound", "AdmissionCheckInactive")
"""Reasons for which Kueue keeps a cluster queue inactive until other objects exist."""


@queue_unknown.rule
def queue_unknown_on_cluster(context: LiveContext) -> Iterator[Violation]:
    declared_queues = {(queue.namespace, queue.name) for queue in context.settings.queues.local_queues}
    for path, run in context.runs():
        if run.queue is not None and "LocalQueue" not in context.live.unserved:
            is_declared = (run.namespace, run.queue) in declared_queues
            yield from find_missing_object(
                context, f"{path}.queue", "LocalQueue", run.queue, run.namespace, is_declared=is_declared
            )


@Rule(
    id="queue-inactive",
    may_be=("warning",),
    summary="A run's local queue or cluster queue admits nothing now.",
    details="A warning if the queue is stopped (`stopPolicy`).",
    example="A cluster queue with a flavor that does not exist.",
    remedy="Ask the owner of the queue to correct it. Until then the run waits.",
)
def queue_inactive(context: LiveContext) -> Iterator[Violation]:
    cluster_queues = context.live.objects_by_name("ClusterQueue") or {}
    for path, run in context.runs():
        queue = (context.live.objects_by_name("LocalQueue", run.namespace) or {}).get(run.queue or "")
        if queue is None:
            continue
        name = (queue.get("spec") or {}).get("clusterQueue", "")
        if _is_completed(context, name, cluster_queues.get(name)):
            continue
        for title, body in ((f"cluster queue {name}", cluster_queues.get(name)), (f"queue {run.queue}", queue)):
            active_condition = conditions_by_type(body).get("Active", {}) if body else {}
            if active_condition.get("status") != "False":
                continue
            reason = INACTIVE_REASONS.get(
                active_condition["reason"],
                f"admits nothing: {active_condition.get('message', active_condition['reason'])}",
            )
            severity: Severity = "warning" if active_condition["reason"] == "Stopped" else "error"
            remedy = "the run waits until the owner of the queue corrects this"
            yield Violation(f"{path}.queue", f"{title} {reason}", remedy, severity)
            break


def _is_completed(context: LiveContext, name: str, body: Body | None) -> bool:
    """Return whether a cluster queue is inactive only because it lacks objects that `up` creates."""
    model = context.snapshot.model
    queue = (model.cluster_queues or {}).get(name)
    if queue is None or body is None or queue.inactive_message or missing_objects(model, queue):
        return False
    return conditions_by_type(body).get("Active", {}).get("reason") in _MISSING_OBJECT_REASONS


@priority_unknown.rule
def priority_unknown_on_cluster(context: LiveContext) -> Iterator[Violation]:
    declared_classes = {priority.name for priority in context.settings.queues.priority_classes}
    kind = "WorkloadPriorityClass"
    for path, run in context.runs():
        if run.priority is not None and kind not in context.live.unserved:
            yield from find_missing_object(
                context, f"{path}.priority", kind, run.priority, is_declared=run.priority in declared_classes
            )


@framework_unlisted.rule
def framework_unlisted_on_cluster(context: LiveContext) -> Iterator[Violation]:
    if is_operator_declared(context.settings, "kueue"):
        return
    managed_frameworks, reported_frameworks = context.live.frameworks, set()
    for path, run in context.runs():
        framework, kind = framework_of(run), display_kind(run)
        if run.queue is None or framework in reported_frameworks or "LocalQueue" in context.live.unserved:
            continue
        if managed_frameworks is None:
            reported_frameworks.add(framework)
            yield _unread_framework_violation(context, path, run)
        elif framework not in managed_frameworks:
            message = f"the cluster's Kueue does not manage kind {kind}: the run would start outside every quota"
            yield Violation(f"{path}.kind", message, _framework_remedy(framework))


def _framework_remedy(framework: str) -> str:
    return f"have {framework} added to integrations.frameworks of Kueue's configuration"


def _unread_framework_violation(context: LiveContext, path: str, run: Workload) -> Violation:
    """Return a warning if the running release of Kueue does not enable the run's kind by default, else `unknown`."""
    framework, kind, release = framework_of(run), display_kind(run), parse_release(context.kueue_release)
    is_enabled_by_default = release is None or release < _FIRST_KUEUE_WITHOUT_TRAINING_OPERATOR
    if is_enabled_by_default or framework not in TRAINING_OPERATOR_FRAMEWORKS:
        return unread_violation(context, f"{path}.kind", f"Kueue manages kind {kind}", "its configuration")
    message = (
        f"Kueue {context.kueue_release} manages kind {kind} only if its configuration, which could not be read, "
        "enables it: otherwise the run would start outside every quota"
    )
    alternative = ", or use kind TrainJob" if run.kind == "PyTorchJob" else ""
    return Violation(f"{path}.kind", message, f"{_framework_remedy(framework)}{alternative}", "warning")


@never_fits.rule
def never_fits_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from _never_fits_violations(context, _NEVER_FITS)


@requests_nothing.rule
def requests_nothing_on_cluster(context: LiveContext) -> Iterator[Violation]:
    """Yield pods of which the cluster's Kueue counts nothing, without those that the files already show."""
    model, file_submissions = context.model_of_files, context.submissions_of_files
    reported_paths = {
        pods.resources_path for workload in file_submissions for pods, _ in pods_without_booking(model, workload)
    }
    for workload in context.submissions:
        for pods, message in pods_without_booking(context.snapshot.model, workload):
            if pods.resources_path not in reported_paths:
                yield Violation(pods.resources_path, message)


@flavors_contradict.rule
def flavors_contradict_on_cluster(context: LiveContext) -> Iterator[Violation]:
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
def resource_uncovered_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from _never_fits_violations(context, ("uncovered",))


@queue_closed.rule
def queue_closed_on_cluster(context: LiveContext) -> Iterator[Violation]:
    yield from _never_fits_violations(context, ("queue-closed",))


def _never_fits_violations(context: LiveContext, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    """Yield violations of runs that the cluster could never admit, without reasons that the files show."""
    never_fitting = [verdict for verdict in context.verdicts if verdict.outcome == "never fits"]
    reported_keys = (
        {key for verdict in context.verdicts_of_files for key, _ in _keyed_reasons(verdict)} if never_fitting else set()
    )
    for verdict in never_fitting:
        for key, reason in _keyed_reasons(verdict):
            if reason.cause in causes and key not in reported_keys:
                yield Violation(reason.path, reason.message, reason_remedy(verdict, reason))


def _keyed_reasons(verdict: Verdict) -> Iterator[tuple[tuple[str, ...], Reason]]:
    """Yield the reasons of a verdict, with keys that do not depend on amounts, which differ on the cluster."""
    for reason in verdict.reasons:
        yield (verdict.path, reason.cause, reason.pod_set, reason.resource), reason
