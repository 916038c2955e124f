"""Rules about runs that their queue could never admit, or would admit wrongly, even on an idle cluster."""

from collections.abc import Iterator, Mapping

from trainstack.kueue.booking import contradictory_flavors, pods_without_booking
from trainstack.kueue.verdict import Cause, Reason, Verdict
from trainstack.objects.labels import PRIORITY, QUEUE
from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.status.queued_workloads import pod_sets_by_setting
from trainstack.settings.values.paths import child_path

_NEVER_FITS_CAUSES: tuple[Cause, ...] = (
    "quota",
    "overflow",
    "taint",
    "affinity",
    "unreadable-affinity",
    "topology",
    "topology-level",
    "pod-sets",
    "namespace-unmanaged",
)
"""Causes of `never-fits`. Other rules report what is missing, closed, on hold or refused by the API server."""
_DEFAULT_REMEDIES: Mapping[Cause, str] = {
    "affinity": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "unreadable-affinity": "correct it in `affinity`, in `podPatch`, or in the runtime that sets it",
    "namespace-unmanaged": "use another namespace, or have the selector changed",
    "overflow": "write amounts that can be added up, such as 1P of memory or 1M of cpu",
    "placement": "request a wider level, fewer or smaller pods, or add nodes",
    "pod-refused": "keep the requests within the limits",
    "pod-sets": "use at most eight, with more replicas each, or split the run",
    "taint": "let its pods select and tolerate the nodes of one of the queue's flavors",
    "topology": "use a queue whose flavors have a topology if and only if the pods request one",
    "topology-level": "request a level of the topology, or use a queue whose flavors have the level",
}
"""Remedies by cause, for a verdict for which no tried change helps."""


@Rule(
    id="resource-uncovered",
    summary="The pods of a run request a resource that the cluster queue does not cover.",
    details="Kueue never admits them. A limit without a request, and a request of 0, count too.",
    change=hello("resources: {limits: {nvidia.com/gpu: 1}}"),
    remedy="Cover the resource in the queue, or do not request it, as the message proposes.",
)
def resource_uncovered(context: RuleContext) -> Iterator[Violation]:
    yield from _never_fits_violations(context, ("uncovered",))


@Rule(
    id="never-fits",
    summary="Kueue would not admit the run even on an idle cluster, with everything that the cohort lends.",
    details=(
        "Quota is missing, or the pods do not select and tolerate any flavor's nodes. The rule repeats Kueue's "
        "calculation ([0009](decisions/0009-admission-verdict.md)); nodes may still be too small."
    ),
    change=hello("resources: {requests: {cpu: 5}}"),
    remedy="Make one of the changes in the message, which were tried and help.",
)
def never_fits(context: RuleContext) -> Iterator[Violation]:
    yield from _never_fits_violations(context, _NEVER_FITS_CAUSES)


@Rule(
    id="requests-nothing",
    severity="warning",
    summary="The pods of a queued run request nothing that Kueue counts.",
    details=(
        "Kueue admits such a run at once, however much is in use. Pods without any request get no flavor either: they "
        "may start on every node, slow down its other pods, and are the first to be evicted. Defaults of a LimitRange "
        "in the namespace count as requests, and so does each pod in a queue that covers `pods`."
    ),
    change=hello("resources: {requests: {cpu: 0, memory: 0}}"),
    remedy="Set `resources.requests`, at least of `cpu` and `memory`.",
)
def requests_nothing(context: RuleContext) -> Iterator[Violation]:
    for workload in context.submissions:
        for pods, message in pods_without_booking(context.model, workload):
            yield Violation(pods.resources_path, message)


@Rule(
    id="flavors-contradict",
    summary="Kueue gives a run's pods two flavors whose nodes have different values of the same label.",
    details=(
        "Its resources are in different resource groups, each with a flavor of its own. Kueue adds the labels of both "
        "to the pods' node selector, where one overwrites the other."
    ),
    example="A run with cpu on a flavor with `pool: general`, and GPUs on one with `pool: gpu`.",
    remedy="Put the resources into one group, with a quota of each on each flavor, or use another queue.",
)
def flavors_contradict(context: RuleContext) -> Iterator[Violation]:
    for verdict in context.verdicts:
        yield from (Violation(verdict.path, message) for _, message in contradictory_flavors(context.model, verdict))


@Rule(
    id="queue-in-labels",
    summary="The `labels` of a run name its queue or priority class.",
    details="Kueue would queue the run, but its verdict, its forecast and `status` would not know of it.",
    change=hello("labels: {kueue.x-k8s.io/queue-name: training}"),
    remedy="Set `queue` or `priority` of the run instead.",
)
def queue_in_labels(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        labels_by_path: dict[str, Mapping[str, str]] = {f"{path}.labels": run.labels}
        labels_by_path |= {
            label_path: pods.settings.labels for label_path, pods in pod_sets_by_setting(path, run, "labels").items()
        }
        for label_path, labels in labels_by_path.items():
            for label, key in ((QUEUE, "queue"), (PRIORITY, "priority")):
                if label in labels:
                    remedy = f"remove the label, and set `{key}: {labels[label]}`"
                    yield Violation(child_path(label_path, label), f"the label {label} is set by `{key}`", remedy)


def _never_fits_violations(context: RuleContext, causes: tuple[Cause, ...]) -> Iterator[Violation]:
    for verdict in context.verdicts:
        for reason in verdict.reasons if verdict.outcome == "never fits" else ():
            if reason.cause in causes:
                yield Violation(reason.path or verdict.path, reason.message, reason_remedy(verdict, reason))


def reason_remedy(verdict: Verdict, reason: Reason) -> str:
    tried_remedies = "; or ".join(remedy.text for remedy in verdict.remedies)
    return tried_remedies or _DEFAULT_REMEDIES.get(reason.cause, "request less, or raise the queue's quota")
