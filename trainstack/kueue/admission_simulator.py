"""Verdicts: each workload by itself, at the head of its queue, on a cluster that is idle or used as a snapshot says."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainstack.declared.declared import Declared
from trainstack.kueue.diagnosis import closed, inactive, pod_faults, reasons
from trainstack.kueue.flavor_assigner import PreemptionMode
from trainstack.kueue.from_objects import declared_model
from trainstack.kueue.model import Admitted, ClusterQueue, Model, Workload
from trainstack.kueue.nomination import Attempt, attempts
from trainstack.kueue.remedies import remedies
from trainstack.kueue.snapshot import ClusterQueueSnapshot, SchedulerSnapshot
from trainstack.kueue.verdict import Outcome, Reason, Verdict, assigned
from trainstack.kueue.workloads import declared_workloads

_OWNER = "the platform's owner can tell, with the same command on the platform's environment"


def declared_verdicts(declared: Declared) -> list[Verdict]:
    """Of every run of an environment that Kueue holds, on an idle cluster, with remedies."""
    model = declared_model(declared)
    simulate = AdmissionSimulator(model)
    return [simulate.verdict(each) for each in declared_workloads(declared, model)]


def simulate(workload: Workload, model: Model, *, admitted: Sequence[Admitted] = ()) -> Verdict:
    """Of one workload, without remedies. `admitted`: who has quota now."""
    return AdmissionSimulator(model, admitted).verdict(workload, with_remedies=False)


class AdmissionSimulator:
    """Judges many workloads over one model."""

    def __init__(self, model: Model, admitted: Iterable[Admitted] = ()) -> None:
        """`admitted`: who has quota now; without any the cluster is idle."""
        self.model = model
        using = tuple(admitted)
        self.idle = SchedulerSnapshot(model)
        self.now = SchedulerSnapshot(model, using) if using else self.idle

    def alone(self, workload: Workload) -> Verdict:
        """What would become of a workload on an idle cluster, without remedies."""
        return self._verdict(workload, self.idle)

    def over(self, model: Model) -> "AdmissionSimulator":
        """A judge over another model, on an idle cluster."""
        return AdmissionSimulator(model)

    def verdict(self, workload: Workload, *, with_remedies: bool = True) -> Verdict:
        """What would become of a workload."""
        found = self._verdict(workload, self.now)
        if with_remedies and found.outcome == "never fits":
            return replace(found, remedies=remedies(self, workload, found))
        return found

    def _verdict(self, workload: Workload, snapshot: SchedulerSnapshot) -> Verdict:
        model = self.model
        if model.flavors is None or model.cluster_queues is None or model.local_queues is None:
            message = f"what queue {workload.queue} leads to may not be read from here; {_OWNER}"
            return _verdict(workload, "", "unknown", [Reason("unread", message, workload.path)])
        local = model.local_queues.get((workload.namespace, workload.queue))
        if local is None:
            message = f"namespace {workload.namespace} has no queue {workload.queue}"
            return _verdict(workload, "", "never fits", [Reason("queue-missing", message, f"{workload.path}.queue")])
        if local.cluster_queue not in model.cluster_queues:
            message = f"queue {local.name} leads to cluster queue {local.cluster_queue}, which does not exist"
            reason = Reason("cluster-queue-missing", message, f"{workload.path}.queue")
            return _verdict(workload, local.cluster_queue, "never fits", [reason])
        return self._in_queue(workload, snapshot, snapshot.cluster_queues[local.cluster_queue])

    def _in_queue(self, workload: Workload, snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot) -> Verdict:
        model, queue, idle = self.model, cq.spec, self.idle.cluster_queues[cq.spec.name]
        found = [
            *pod_faults(workload),
            *closed(model, workload, queue),
            *inactive(model, workload, queue, self.idle),
        ]
        held = [each for each in found if each.cause == "queue-stopped"]
        made = _last(snapshot, cq, workload)
        alone = made if made.succeeds or snapshot is self.idle else _last(self.idle, idle, workload)
        if not alone.succeeds:
            found += reasons(model, idle, workload, now=False) or [_spoilt(workload)]
        if len(found) > len(held):
            return _verdict(workload, queue.name, "never fits", found)
        if held:
            return _verdict(workload, queue.name, "waits", held)
        if model.fair_sharing and made.assignment.mode is not PreemptionMode.FIT and _reclaims(queue):
            return _verdict(workload, queue.name, "unknown", [_shared(workload, queue)])
        if not made.succeeds:
            waiting = reasons(model, cq, workload, now=True) or [_spoilt(workload)]
            return _verdict(workload, queue.name, "waits", waiting)
        return self._admitted(workload, snapshot, cq, made)

    def _admitted(
        self, workload: Workload, snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot, made: Attempt
    ) -> Verdict:
        usage = made.assignment.usage
        for each in made.targets:
            snapshot.tree.remove(each.cluster_queue, each.usage)
        beyond = {
            fr: cq.node.usage.get(fr, 0) + number - cq.node.quota(fr).nominal
            for fr, number in usage.items()
            if cq.node.borrows_with(fr, number)
        }
        for each in made.targets:
            snapshot.tree.add(each.cluster_queue, each.usage)
        flavors = self.model.flavors or {}
        placed = assigned(made.assignment)
        outcome: Outcome = "fits by borrowing" if beyond else "fits"
        doubts = sorted({name for each in placed for name in each.flavors.values() if flavors[name].topology})
        if made.targets:
            outcome = "fits by preempting"
        return Verdict(
            name=workload.name,
            namespace=workload.namespace,
            queue=workload.queue,
            path=workload.path,
            cluster_queue=cq.spec.name,
            outcome="unknown" if doubts else outcome,
            assigned=placed,
            usage=usage,
            borrowed={fr: min(number, usage[fr]) for fr, number in beyond.items()},
            preempts=tuple(each.workload.key for each in made.targets),
            checks=cq.spec.checks_on({flavor for flavor, _ in usage}),
            reasons=tuple(_place(workload, name) for name in doubts),
        )


def _last(snapshot: SchedulerSnapshot, cq: ClusterQueueSnapshot, workload: Workload) -> Attempt:
    *_, last = attempts(snapshot, cq, workload)
    return last


def _reclaims(queue: ClusterQueue) -> bool:
    return queue.cohort is not None and queue.preemption.reclaim_within_cohort != "Never"


def _shared(workload: Workload, queue: ClusterQueue) -> Reason:
    message = (
        f"others use what it asks for; whether they of cohort {queue.cohort} give way, Kueue tells at admission, by the"
        " shares of its fair sharing"
    )
    return Reason("in-use", message, workload.path)


def _spoilt(workload: Workload) -> Reason:
    """Each pod set has a flavor with enough, and the order in which Kueue tries them leads to none for all."""
    message = (
        "each kind of pod fits by itself, but not all of them together: Kueue gives flavors to one kind after the "
        "other, in the order of the queue, and those that come first take what the others need"
    )
    return Reason("quota", message, workload.path)


def _place(workload: Workload, flavor: str) -> Reason:
    message = f"its quota is there; whether flavor {flavor} has the nodes for its topology, Kueue tells at admission"
    return Reason("topology", message, workload.path, flavor=flavor)


def _verdict(workload: Workload, cluster_queue: str, outcome: Outcome, found: Sequence[Reason]) -> Verdict:
    return Verdict(
        name=workload.name,
        namespace=workload.namespace,
        queue=workload.queue,
        path=workload.path,
        cluster_queue=cluster_queue,
        outcome=outcome,
        reasons=tuple(found),
    )
