"""Verdicts: whether Kueue admits a workload at the head of its queue, on an idle cluster or with given usage."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from trainstack.declared.declared import Declared
from trainstack.kueue.diagnosis import inadmissible, unmet_requests
from trainstack.kueue.flavor_assigner import Mode
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import Admitted, Model, Workload
from trainstack.kueue.nomination import Attempt, attempts
from trainstack.kueue.releases import for_release
from trainstack.kueue.remedies import remedies
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot
from trainstack.kueue.verdict import Outcome, Reason, Verdict, assigned
from trainstack.kueue.workloads import declared_workloads

_TOPOLOGY = "the quota is available; whether the nodes of flavor {} fit the topology is known only at admission"


def declared_verdicts(declared: Declared) -> list[Verdict]:
    """Return the verdicts on an environment's queued runs, on an idle cluster, with remedies."""
    model = declared_model(declared)
    simulator = AdmissionSimulator(model)
    verdicts = [simulator.verdict(workload) for workload in declared_workloads(declared, model)]
    kueue = declared.settings.operators.kueue
    return for_release(verdicts, kueue.manifest.version if kueue else "")


def simulate(workload: Workload, model: Model, *, admitted: Sequence[Admitted] = ()) -> Verdict:
    """Return the verdict on one workload, without remedies."""
    return AdmissionSimulator(model, admitted).verdict(workload, with_remedies=False)


class AdmissionSimulator:
    def __init__(self, model: Model, admitted: Iterable[Admitted] = ()) -> None:
        """`admitted`: the workloads with reserved quota; empty: an idle cluster."""
        self.model = model
        using = tuple(admitted)
        self.idle = Snapshot(model)
        self.now = Snapshot(model, using) if using else self.idle

    def alone(self, workload: Workload) -> Verdict:
        """Return the verdict on an idle cluster, without remedies."""
        return self._verdict(workload, self.idle)

    def verdict(self, workload: Workload, *, with_remedies: bool = True) -> Verdict:
        found = self._verdict(workload, self.now)
        if with_remedies and found.outcome == "never fits":
            return replace(found, remedies=remedies(self, workload, found))
        return found

    def _verdict(self, workload: Workload, snapshot: Snapshot) -> Verdict:
        model = self.model
        if model.flavors is None or model.cluster_queues is None or model.local_queues is None:
            message = (
                f"the cluster queue of queue {workload.queue} is not readable here; the platform's owner can run the"
                " same command on the platform's environment"
            )
            return _verdict(workload, "", "unknown", [Reason("unread", message, workload.path)])
        local = model.local_queues.get((workload.namespace, workload.queue))
        if local is None:
            message = f"namespace {workload.namespace} has no queue {workload.queue}"
            return _verdict(workload, "", "never fits", [Reason("queue-missing", message, f"{workload.path}.queue")])
        if local.cluster_queue not in model.cluster_queues:
            message = f"queue {local.name} points at cluster queue {local.cluster_queue}, which does not exist"
            reason = Reason("cluster-queue-missing", message, f"{workload.path}.queue")
            return _verdict(workload, local.cluster_queue, "never fits", [reason])
        return self._in_queue(workload, snapshot, snapshot.cluster_queues[local.cluster_queue])

    def _in_queue(self, workload: Workload, snapshot: Snapshot, cq: QueueSnapshot) -> Verdict:
        model, queue, idle = self.model, cq.spec, self.idle.cluster_queues[cq.spec.name]
        found = list(inadmissible(model, workload, queue, self.idle))
        stopped = [reason for reason in found if reason.cause == "queue-stopped"]
        current = _last(snapshot, cq, workload)
        alone = current if current.succeeds or snapshot is self.idle else _last(self.idle, idle, workload)
        if not alone.succeeds:
            found += unmet_requests(model, idle, workload, now=False) or [_not_together(workload)]
        if len(found) > len(stopped):
            return _verdict(workload, queue.name, "never fits", found)
        if stopped:
            return _verdict(workload, queue.name, "waits", stopped)
        reclaims = queue.cohort is not None and queue.preemption.reclaim_within_cohort != "Never"
        if model.fair_sharing and current.assignment.mode is not Mode.FIT and reclaims:
            message = (
                f"the quota is in use; whether workloads of cohort {queue.cohort} are preempted depends on the shares"
                " of Kueue's fair sharing, which are known only at admission"
            )
            return _verdict(workload, queue.name, "unknown", [Reason("in-use", message, workload.path)])
        if not current.succeeds:
            waiting = unmet_requests(model, cq, workload, now=True) or [_not_together(workload)]
            return _verdict(workload, queue.name, "waits", waiting)
        return self._admitted(workload, snapshot, cq, current)

    def _admitted(self, workload: Workload, snapshot: Snapshot, cq: QueueSnapshot, current: Attempt) -> Verdict:
        usage = current.assignment.usage
        with snapshot.tree.without(current.targets):
            borrowed = {
                fr: min(number, cq.node.usage.get(fr, 0) + number - cq.node.quota(fr).nominal)
                for fr, number in usage.items()
                if number and cq.node.borrows_with(fr, number)
            }
        flavors = self.model.flavors or {}
        pod_sets = assigned(current.assignment)
        topologies = sorted({name for pods in pod_sets for name in pods.flavors.values() if flavors[name].topology})
        outcome: Outcome = "fits by borrowing" if borrowed else "fits"
        if current.targets:
            outcome = "fits by preempting"
        return _verdict(
            workload,
            cq.spec.name,
            "unknown" if topologies else outcome,
            [Reason("topology", _TOPOLOGY.format(name), workload.path, flavor=name) for name in topologies],
            assigned=pod_sets,
            usage=usage,
            borrowed=borrowed,
            preempts=tuple(target.workload.key for target in current.targets),
            checks=cq.spec.checks_on({flavor for flavor, _ in usage}),
        )


def _last(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload) -> Attempt:
    *_, last = attempts(snapshot, cq, workload)
    return last


def _not_together(workload: Workload) -> Reason:
    """Every pod set has a flavor with enough quota, but Kueue's order of assignment does not find one for all."""
    message = (
        "every pod set fits alone, but not all of them together: Kueue assigns flavors to the pod sets in order, and"
        " the first ones take the quota that later ones need"
    )
    return Reason("quota", message, workload.path)


def _verdict(
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
