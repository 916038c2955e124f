"""Queues and priorities, and whether a queue could ever admit a run."""

from collections.abc import Iterator

from trainstack.kueue.verdict import Cause, Reason, Verdict
from trainstack.preflight.live_context import LiveScene, absent, declared, unknown
from trainstack.preflight.rule import Check, Rule, Severity, Violation
from trainstack.preflight.rules.admission import never_fits, remedy_of, resource_uncovered
from trainstack.preflight.rules.operators import framework_unlisted
from trainstack.preflight.rules.queues import queue_closed
from trainstack.preflight.rules.references import priority_unknown, queue_unknown
from trainstack.runs.status.kinds import framework_of
from trainstack.runs.status.waiting import INACTIVE, conditions
from trainstack.settings.errors import nearest

_NEVER_FITS: tuple[Cause, ...] = ("quota", "taint", "affinity", "topology", "pod-refused")
"""Causes that no other rule reports: other rules find what is missing, or a queue that admits nothing."""


@queue_unknown.rule
def queue_absent(scene: LiveScene) -> Iterator[Violation]:
    own = {(one.namespace, one.name) for one in scene.settings.queues.local_queues}
    for path, run in scene.runs():
        there = scene.live.all("LocalQueue", run.namespace)
        if run.queue is None or "LocalQueue" in scene.live.unserved:
            continue
        if there is None:
            yield unknown(f"{path}.queue", f"whether namespace {run.namespace} has queue {run.queue}")
        elif run.queue not in there:
            yield absent(
                f"{path}.queue",
                f"namespace {run.namespace} has no local queue {run.queue}",
                f"{nearest(run.queue, there)} (or have it made)",
                own=(run.namespace, run.queue) in own,
                stack=scene.settings.stack,
            )


@Rule(
    id="queue-inactive",
    severity="error",
    may_be=("warning",),
    summary="A run's queue, or the cluster queue that it points at, admits nothing now.",
    details="If the queue is stopped (`stopPolicy`) it is a warning: the run waits.",
    example="A cluster queue with a flavor that does not exist.",
    remedy="Ask the owner of the queue to correct it.",
)
def queue_inactive(scene: LiveScene) -> Iterator[Violation]:
    cluster_queues = scene.live.all("ClusterQueue") or {}
    for path, run in scene.runs():
        queue = (scene.live.all("LocalQueue", run.namespace) or {}).get(run.queue or "")
        if queue is None:
            continue
        name = queue["spec"].get("clusterQueue", "")
        for what, body in ((f"cluster queue {name}", cluster_queues.get(name)), (f"queue {run.queue}", queue)):
            active = conditions(body).get("Active", {}) if body else {}
            if active.get("status") != "False":
                continue
            words = INACTIVE.get(active["reason"], f"admits nothing: {active.get('message', active['reason'])}")
            severity: Severity = "warning" if active["reason"] == "Stopped" else "error"
            remedy = "its owner can mend that; a run waits in it until then"
            yield Violation(f"{path}.queue", f"{what} {words}", remedy, severity)
            break


@priority_unknown.rule
def priority_missing(scene: LiveScene) -> Iterator[Violation]:
    there = scene.live.all("WorkloadPriorityClass")
    own = {one.name for one in scene.settings.queues.priority_classes}
    for path, run in scene.runs():
        if run.priority is None or "WorkloadPriorityClass" in scene.live.unserved:
            continue
        if there is None:
            yield unknown(f"{path}.priority", f"whether there is a priority class {run.priority}")
        elif run.priority not in there:
            yield absent(
                f"{path}.priority",
                f"the cluster has no WorkloadPriorityClass {run.priority}",
                f"{nearest(run.priority, there)} (or have it made)",
                own=run.priority in own,
                stack=scene.settings.stack,
            )


@framework_unlisted.rule
def framework_unmanaged(scene: LiveScene) -> Iterator[Violation]:
    if declared(scene.settings, "kueue"):
        return
    managed, told = scene.live.frameworks, set()
    for path, run in scene.runs():
        framework = framework_of(run)
        if run.queue is None or framework in told or "LocalQueue" in scene.live.unserved:
            continue
        if managed is None:
            told.add(framework)
            yield unknown(f"{path}.kind", f"whether Kueue manages a {run.kind}: its configuration")
        elif framework not in managed:
            message = f"the cluster's Kueue does not manage a {run.kind}: it would start at once, past every quota"
            remedy = f"have {framework} added to integrations.frameworks of Kueue's configuration"
            yield Violation(f"{path}.kind", message, remedy)


@never_fits.rule
def never_admitted(scene: LiveScene) -> Iterator[Violation]:
    yield from _refused(scene, _NEVER_FITS)


@resource_uncovered.rule
def uncovered_on_cluster(scene: LiveScene) -> Iterator[Violation]:
    yield from _refused(scene, ("uncovered",))


@queue_closed.rule
def closed_on_cluster(scene: LiveScene) -> Iterator[Violation]:
    yield from _refused(scene, ("queue-closed",))


def _refused(scene: LiveScene, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    """Runs that the cluster could never admit, for these causes; reasons that the files show are left out."""
    refused = [verdict for verdict in scene.verdicts if verdict.outcome == "never fits"]
    told = {key for verdict in scene.verdicts_of_files for key, _ in _reasons(verdict)} if refused else set()
    for verdict in refused:
        for key, reason in _reasons(verdict):
            if reason.cause in causes and key not in told:
                yield Violation(reason.path, reason.message, remedy_of(verdict, reason))


def _reasons(verdict: Verdict) -> Iterator[tuple[tuple[str, ...], Reason]]:
    """The reasons of a verdict, each with what is the same of it whatever the figures are."""
    for reason in verdict.reasons:
        yield (verdict.path, reason.cause, reason.pod_set, reason.resource), reason


RULES: tuple[Check[LiveScene], ...] = (
    queue_absent,
    queue_inactive,
    priority_missing,
    framework_unmanaged,
    never_admitted,
    uncovered_on_cluster,
    closed_on_cluster,
)
