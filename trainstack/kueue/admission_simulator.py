"""Verdicts: whether Kueue admits a workload at the head of its queue, on an idle cluster or with given usage."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainstack.kueue.diagnosis import inadmissible, unmet_requests
from trainstack.kueue.field_paths import queue_path
from trainstack.kueue.model import Admitted, Model, Workload
from trainstack.kueue.nomination import Attempt, attempts
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot
from trainstack.kueue.unmodelled import unmodelled_features
from trainstack.kueue.verdict import Cause, Outcome, Reason, Verdict, assigned
from trainstack.objects.ownership import listed

_MOST_NAMES = 3
_NEVER_HEAD = {"backoff", "queue-closed", "queue-stopped", "namespace-unmanaged", "pod-sets"}
"""Causes for which Kueue does not keep a workload at the head of its queue."""
_TEMPORARY: tuple[Cause, ...] = ("backoff", "check-retry", "queue-stopped")
"""Reasons other than quota with which a workload waits."""
_DISPATCHED = (
    "the quota is available in this cluster; MultiKueue then dispatches the run to a worker cluster, whose quota is "
    "not known here"
)
_TOPOLOGY = "the quota is available, and the nodes of flavor {} decide whether the pods can be placed"


def simulate(workload: Workload, model: Model, *, admitted: Sequence[Admitted] = ()) -> Verdict:
    """Return the verdict on one workload."""
    return AdmissionSimulator(model, admitted).verdict(workload)


class AdmissionSimulator:
    def __init__(
        self,
        model: Model,
        admitted: Iterable[Admitted] = (),
        pending: Iterable[Workload] = (),
        judged: Mapping[str, Verdict] | None = None,
    ) -> None:
        """`admitted`: the workloads with reserved quota; empty: an idle cluster.

        `pending`: the workloads that wait, in the order of submission; one that cannot be admitted holds up all
        workloads behind it in a StrictFIFO queue. `judged`: verdicts of Kueue's own code, by the workload's key.
        """
        self.model = model
        using = tuple(admitted)
        self._judged = judged or {}
        self._not_ready = [one.workload.key for one in using if not one.ready] if model.blocks_admission else []
        self._pending = sorted(pending, key=_order)
        self._places = {waiting.key: place for place, waiting in enumerate(self._pending)}
        self._blockers: dict[str, Verdict | None] = {}
        """By StrictFIFO queue: the verdict on the first pending workload that is not admitted now."""
        self.idle = Snapshot(model)
        self.now = Snapshot(model, using) if using else self.idle

    def alone(self, workload: Workload) -> Verdict:
        """Return the verdict on an idle cluster."""
        return self._verdict(workload, self.idle)

    def verdict(self, workload: Workload) -> Verdict:
        found = self._current(workload)
        if found.fits and (reason := self._held_up(workload, found)) is not None:
            return _verdict(workload, found.cluster_queue, "waits", [reason])
        return found

    def _current(self, workload: Workload) -> Verdict:
        return self._judged.get(workload.key) or self._verdict(workload, self.now)

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
        unmodelled = list(unmodelled_features(model, workload, cq))
        if unmodelled:
            return _verdict(workload, queue.name, "unknown", unmodelled)
        found = list(inadmissible(model, workload, queue, self.idle))
        temporary = [reason for reason in found if reason.cause in _TEMPORARY]
        snapshot.undecided = ""
        current = _last(snapshot, cq, workload)
        alone = current if current.succeeds or snapshot is self.idle else _last(self.idle, idle, workload)
        if not alone.succeeds:
            found += unmet_requests(model, idle, workload, now=False) or [_not_together(workload)]
        refused = _refused_pods(workload)
        if len(found) > len(temporary) or refused:
            return _verdict(workload, queue.name, "never fits", [*found, *refused])
        unread = list(_unread_overheads(model, workload))
        if unread or temporary:
            return _verdict(workload, queue.name, "unknown" if unread else "waits", [*unread, *temporary])
        undecided = _undecided(model, snapshot, cq, current)
        if undecided:
            return _verdict(workload, queue.name, "unknown", [Reason("in-use", undecided, workload.path)])
        if current.succeeds:
            waiting = [] if queue.strict else _refused_at_first(workload)
        else:
            waiting = unmet_requests(model, cq, workload, now=True) or [_not_together(workload)]
        if waiting:
            return _verdict(workload, queue.name, "waits", waiting)
        return self._admitted(workload, snapshot, cq, current)

    def _held_up(self, workload: Workload, found: Verdict) -> Reason | None:
        """Return what keeps Kueue from admitting a workload whose quota is available."""
        if self._not_ready and not found.preempts:
            names = listed(self._not_ready, _MOST_NAMES)
            message = f"waitForPodsReady.blockAdmission: Kueue admits nothing until the pods of {names} are ready"
            return Reason("not-ready", message, workload.path)
        queue = found.cluster_queue
        if not self.now.cluster_queues[queue].spec.strict:
            return None
        if queue not in self._blockers:
            self._blockers[queue] = self._first_blocker(queue)
        blocker = self._blockers[queue]
        if blocker is None:
            return None
        name = f"{blocker.namespace}/{blocker.name}"
        behind = bisect_right(self._pending, _order(workload), key=_order)
        if self._places[name] >= self._places.get(workload.key, behind):
            return None
        state = "never fits" if blocker.outcome == "never fits" else "waits"
        message = f"cluster queue {queue} is StrictFIFO: {name} {state}, and holds up all workloads behind it"
        return Reason("blocked", message, queue_path(self.model, queue, "queueingStrategy"))

    def _first_blocker(self, queue: str) -> Verdict | None:
        local_queues = self.model.local_queues or {}
        for waiting in self._pending:
            local = local_queues.get((waiting.namespace, waiting.queue))
            if local is not None and local.cluster_queue == queue:
                verdict = self._current(waiting)
                keeps = _NEVER_HEAD.isdisjoint(reason.cause for reason in verdict.reasons)
                if verdict.outcome in ("waits", "never fits") and keeps:
                    return verdict
        return None

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
        checks = cq.spec.checks_on({flavor for flavor, _ in usage})
        unknown = [Reason("topology", _TOPOLOGY.format(name), workload.path, flavor=name) for name in topologies]
        if not self.model.multikueue_checks.isdisjoint(checks):
            # The nodes, and so the topologies, are those of the worker cluster.
            unknown = [Reason("dispatched", _DISPATCHED, workload.path)]
        outcome: Outcome = "fits by borrowing" if borrowed else "fits"
        if current.targets:
            outcome = "fits by preempting"
        return _verdict(
            workload,
            cq.spec.name,
            "unknown" if unknown else outcome,
            unknown,
            assigned=pod_sets,
            usage=usage,
            borrowed=borrowed,
            preempts=tuple(target.workload.key for target in current.targets),
            checks=checks,
        )


def _refused_pods(workload: Workload) -> list[Reason]:
    return [
        Reason(
            "pod-refused",
            f"{fault}: the API server refuses its pods, and the run holds quota that Kueue reserves at a later attempt",
            pods.resources_path,
            pods.name,
        )
        for pods in workload.pod_sets
        for fault in pods.refused_pods
    ]


def _unread_overheads(model: Model, workload: Workload) -> Iterator[Reason]:
    """Yield the runtime classes whose overhead would be added to the requests."""
    how = "`check --cluster` reads it" if model.declared else "these credentials cannot read it"
    for pods in workload.pod_sets:
        if pods.runtime_class:
            message = (
                f"the overhead of runtime class {pods.runtime_class} counts as a request, and is unknown here; {how}"
            )
            yield Reason("unread", message, pods.resources_path, pods.name)


def _refused_at_first(workload: Workload) -> list[Reason]:
    """A StrictFIFO queue tries its head again at once; in others, the next attempt follows a release of quota."""
    text = "Kueue refuses its first attempts, and admits the run when other workloads of the queue or cohort end"
    return [
        Reason("pod-refused", f"{fault}: {text}", pods.resources_path, pods.name)
        for pods in workload.pod_sets
        for fault in pods.refused_at_first
    ]


def _order(workload: Workload) -> tuple[int, float]:
    """Order workloads as in their queue."""
    return -workload.priority, workload.created


def _last(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload) -> Attempt:
    *_, last = attempts(snapshot, cq, workload)
    return last


def _undecided(model: Model, snapshot: Snapshot, cq: QueueSnapshot, current: Attempt) -> str:
    """Return why it is unknown which workloads would be preempted; empty if it is known."""
    if snapshot.undecided:
        return f"the quota is in use; {snapshot.undecided}"
    candidates = [snapshot.cluster_queue_of(node) for node in cq.node.tree_queues() if node.active]
    if current.targets and model.admission_fair_sharing and any(one.spec.usage_based for one in candidates):
        return (
            "the quota is in use; whose workloads are preempted depends on the past usage of local queues in Kueue's"
            " admission fair sharing, which is not calculated"
        )
    return ""


def _not_together(workload: Workload) -> Reason:
    """Every pod set has a flavor with enough quota, but Kueue does not find one for all."""
    why = (
        "the same flavors to all pod sets of a group, and no flavor has enough quota for all of them"
        if any(pods.group for pods in workload.pod_sets)
        else "flavors to the pod sets in order, and the first ones take the quota that later ones need"
    )
    message = f"every pod set fits alone, but not all of them together: Kueue assigns {why}"
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
