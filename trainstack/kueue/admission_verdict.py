"""Verdicts on workloads from their admissions."""

from collections.abc import Sequence
from typing import Any

from trainstack.kueue.model import Model, Usage, Workload
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Outcome, PodSetAdmission, Reason, Verdict

_DISPATCH_MESSAGE = (
    "the quota is available in this cluster; MultiKueue then dispatches the run to a worker cluster, whose quota is "
    "not known here"
)
_TOPOLOGY_MESSAGE = "the quota is available, and the nodes of flavor {} decide whether the pods can be placed"


def admission_verdict(
    model: Model,
    workload: Workload,
    cq: QueueSnapshot,
    pod_sets: tuple[PodSetAdmission, ...],
    usage: Usage,
    preempts: tuple[str, ...] = (),
) -> Verdict:
    """Return the verdict on a workload that is admitted, at once or after preemption.

    `cq`: with the usage before its admission, and after the preemption.
    """
    borrowed = {
        fr: min(number, cq.node.usage.get(fr, 0) + number - cq.node.quota(fr).nominal)
        for fr, number in usage.items()
        if number and cq.node.borrows_with(fr, number)
    }
    flavors = model.flavors or {}
    topologies = sorted({name for pods in pod_sets for name in pods.flavors.values() if flavors[name].topology})
    checks = cq.spec.checks_on({flavor for flavor, _ in usage})
    unknown_reasons = [
        Reason("topology", _TOPOLOGY_MESSAGE.format(name), workload.path, flavor=name) for name in topologies
    ]
    if not model.multikueue_checks.isdisjoint(checks):
        # The nodes, and so the topologies, are those of the worker cluster.
        unknown_reasons = [Reason("dispatched", _DISPATCH_MESSAGE, workload.path)]
    outcome: Outcome = "fits by borrowing" if borrowed else "fits"
    if preempts:
        outcome = "fits by preempting"
    return make_verdict(
        workload,
        cq.spec.name,
        "unknown" if unknown_reasons else outcome,
        unknown_reasons,
        assigned=pod_sets,
        usage=usage,
        borrowed=borrowed,
        preempts=preempts,
        checks=checks,
    )


def make_verdict(
    workload: Workload, cluster_queue: str, outcome: Outcome, reasons: Sequence[Reason], **admission: Any
) -> Verdict:
    return Verdict(
        name=workload.name,
        namespace=workload.namespace,
        queue=workload.queue,
        path=workload.path,
        cluster_queue=cluster_queue,
        outcome=outcome,
        reasons=tuple(reasons),
        **admission,
    )
