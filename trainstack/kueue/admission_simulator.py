"""Verdicts: whether Kueue admits a workload, alone or in the present state of a cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from trainstack.kueue.admission_verdict import admission_verdict, make_verdict
from trainstack.kueue.diagnosis import inadmissibility_reasons, unmet_requests
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.nomination import AdmissionAttempt, consecutive_attempts
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot
from trainstack.kueue.unmodeled_features import unmodeled_features
from trainstack.kueue.verdict import Cause, Reason, Verdict, pod_set_admissions

if TYPE_CHECKING:
    from trainstack.kueue.present_state import PresentState

_TEMPORARY_CAUSES: tuple[Cause, ...] = ("backoff", "check-retry", "queue-stopped")
"""Causes other than quota for which a workload waits."""


def simulate(workload: Workload, model: Model, *, admitted: Sequence[AdmittedWorkload] = ()) -> Verdict:
    """Return the verdict on one workload."""
    return AdmissionSimulator(model, admitted).verdict(workload)


class AdmissionSimulator:
    """The verdicts on workloads with one model and one usage of its quota."""

    def __init__(
        self,
        model: Model,
        admitted: Iterable[AdmittedWorkload] = (),
        pending: Iterable[Workload] = (),
        judge_verdicts: Mapping[str, Verdict] | None = None,
    ) -> None:
        """`admitted`: the workloads with reserved quota; empty: an idle cluster.

        `pending`: the workloads that wait, in the order of submission. `judge_verdicts`: of Kueue's own code on
        workloads alone, by the workload's key.
        """
        self.model = model
        admitted_workloads = tuple(admitted)
        self._judge_verdicts = judge_verdicts or {}
        self.idle_snapshot = Snapshot(model)
        self.usage_snapshot = Snapshot(model, admitted_workloads) if admitted_workloads else self.idle_snapshot
        self._admitted, self._pending = admitted_workloads, tuple(pending)

    def idle_verdict(self, workload: Workload) -> Verdict:
        """Return the verdict on an idle cluster."""
        return self._with_assumptions(self._judge(workload, self.idle_snapshot))

    def verdict(self, workload: Workload) -> Verdict:
        """Return the verdict in the present state."""
        verdict = self._judge_verdicts.get(workload.key) or self._judge(workload, self.usage_snapshot)
        has_others = self._pending or (self.model.blocks_admission and self._admitted)
        return self._with_assumptions(self._present_state.verdict(workload, verdict) if has_others else verdict)

    @cached_property
    def _present_state(self) -> "PresentState":
        from trainstack.kueue.present_state import PresentState  # noqa: PLC0415 (previews of files need no scheduler)

        return PresentState(
            model=self.model,
            admitted=self._admitted,
            pending=self._pending,
            idle_snapshot=self.idle_snapshot,
            usage_snapshot=self.usage_snapshot,
            judge_verdicts=self._judge_verdicts,
            judge=self._judge,
        )

    def _with_assumptions(self, verdict: Verdict) -> Verdict:
        return _mark_assumptions(verdict) if self.model.assumes_defaults else verdict

    def _judge(self, workload: Workload, snapshot: Snapshot) -> Verdict:
        model = self.model
        if model.flavors is None or model.cluster_queues is None or model.local_queues is None:
            message = (
                f"the cluster queue of queue {workload.queue} is not readable here; the platform's owner can run the"
                " same command on the platform's environment"
            )
            return make_verdict(workload, "", "unknown", [Reason("unread", message, workload.path)])
        local_queue = model.local_queues.get((workload.namespace, workload.queue))
        if local_queue is None:
            message = f"namespace {workload.namespace} has no queue {workload.queue}"
            return make_verdict(
                workload, "", "never fits", [Reason("queue-missing", message, f"{workload.path}.queue")]
            )
        if local_queue.cluster_queue not in model.cluster_queues:
            message = (
                f"queue {local_queue.name} points at cluster queue {local_queue.cluster_queue}, which does not exist"
            )
            reason = Reason("cluster-queue-missing", message, f"{workload.path}.queue")
            return make_verdict(workload, local_queue.cluster_queue, "never fits", [reason])
        return self._judge_in_queue(workload, snapshot, snapshot.cluster_queues[local_queue.cluster_queue])

    def _judge_in_queue(self, workload: Workload, snapshot: Snapshot, cq: QueueSnapshot) -> Verdict:
        model, queue, idle_cq = self.model, cq.spec, self.idle_snapshot.cluster_queues[cq.spec.name]
        unmodelled_reasons = list(unmodeled_features(model, workload, cq))
        if unmodelled_reasons:
            return make_verdict(workload, queue.name, "unknown", unmodelled_reasons)
        reasons = list(inadmissibility_reasons(model, workload, queue, self.idle_snapshot))
        temporary_reasons = [reason for reason in reasons if reason.cause in _TEMPORARY_CAUSES]
        snapshot.undecided = ""
        # What never fits is decided on an idle cluster; the attempt there is only needed if the one with usage fails.
        attempt = _last_attempt(snapshot, cq, workload)
        idle_attempt = (
            attempt
            if attempt.succeeds or snapshot is self.idle_snapshot
            else _last_attempt(self.idle_snapshot, idle_cq, workload)
        )
        if not idle_attempt.succeeds:
            reasons += unmet_requests(model, idle_cq, workload, now=False) or [_joint_quota_reason(workload)]
        # A lasting reason hides temporary ones: after their end, the workload would still not fit.
        refusals = _pod_refusals(workload)
        if len(reasons) > len(temporary_reasons) or refusals:
            return make_verdict(workload, queue.name, "never fits", [*reasons, *refusals])
        unread_overheads = list(_unread_overheads(model, workload))
        if unread_overheads or temporary_reasons:
            return make_verdict(
                workload,
                queue.name,
                "unknown" if unread_overheads else "waits",
                [*unread_overheads, *temporary_reasons],
            )
        uncertainty = _preemption_uncertainty(model, snapshot, cq, attempt)
        if uncertainty:
            return make_verdict(workload, queue.name, "unknown", [Reason("in-use", uncertainty, workload.path)])
        if attempt.succeeds:
            reasons_to_wait = [] if queue.is_strict_fifo else _first_refusals(workload)
        else:
            reasons_to_wait = unmet_requests(model, cq, workload, now=True) or [_joint_quota_reason(workload)]
        if reasons_to_wait:
            return make_verdict(workload, queue.name, "waits", reasons_to_wait)
        with snapshot.tree.without(attempt.targets):
            return admission_verdict(
                model,
                workload,
                cq,
                pod_set_admissions(attempt.assignment),
                attempt.assignment.usage,
                tuple(target.workload.key for target in attempt.targets),
            )


def _mark_assumptions(verdict: Verdict) -> Verdict:
    """Return a verdict by the defaults of Kueue's Configuration; `unknown` if fields that are often set decide it."""
    causes = {reason.cause for reason in verdict.reasons}
    if verdict.outcome == "unknown" or causes & {"queue-missing", "cluster-queue-missing"}:
        return verdict
    fields = ""
    if verdict.preempts or "in-use" in causes:
        fields = "the quota is in use, and fairSharing decides whose workloads are preempted"
    elif verdict.outcome == "never fits" and causes == {"uncovered"}:
        fields = "the cluster queue does not cover what the pods request, which resources may leave out or transform"
    if not fields:
        return replace(verdict, assumes_defaults=True)
    message = f"{fields}: these credentials cannot read Kueue's Configuration"
    unknown_reason = Reason("unread", message, verdict.path)
    return replace(
        verdict,
        outcome="unknown",
        assigned=(),
        usage={},
        borrowed={},
        preempts=(),
        checks=(),
        reasons=(unknown_reason,),
    )


def _pod_refusals(workload: Workload) -> list[Reason]:
    return [
        Reason(
            "pod-refused",
            f"{fault}: the API server refuses its pods, and the run holds quota that Kueue reserves at a later attempt",
            pods.resources_path,
            pods.name,
        )
        for pods in workload.pod_sets
        for fault in pods.pod_refusals
    ]


def _unread_overheads(model: Model, workload: Workload) -> Iterator[Reason]:
    """Yield the runtime classes whose overhead would be added to the requests."""
    hint = "`check --cluster` reads it" if model.is_declared else "these credentials cannot read it"
    for pods in workload.pod_sets:
        if pods.runtime_class:
            message = (
                f"the overhead of runtime class {pods.runtime_class} counts as a request, and is unknown here; {hint}"
            )
            yield Reason("unread", message, pods.resources_path, pods.name)


def _first_refusals(workload: Workload) -> list[Reason]:
    """Return why Kueue refuses the first attempts of a workload whose queue is not StrictFIFO.

    A StrictFIFO queue tries its head again at once; in others, the next attempt follows a release of quota.
    """
    text = "Kueue refuses its first attempts, and admits the run when other workloads of the queue or cohort end"
    return [
        Reason("pod-refused", f"{fault}: {text}", pods.resources_path, pods.name)
        for pods in workload.pod_sets
        for fault in pods.first_refusals
    ]


def _last_attempt(snapshot: Snapshot, cq: QueueSnapshot, workload: Workload) -> AdmissionAttempt:
    *_, last_attempt = consecutive_attempts(snapshot, cq, workload)
    return last_attempt


def _preemption_uncertainty(model: Model, snapshot: Snapshot, cq: QueueSnapshot, attempt: AdmissionAttempt) -> str:
    """Return why it is unknown which workloads would be preempted; empty if it is known."""
    if snapshot.undecided:
        return f"the quota is in use; {snapshot.undecided}"
    candidate_queues = [snapshot.cluster_queue_of(node) for node in cq.node.tree_queues() if node.is_active]
    if (
        attempt.targets
        and model.admission_fair_sharing
        and any(candidate_queue.spec.usage_based for candidate_queue in candidate_queues)
    ):
        return (
            "the quota is in use; whose workloads are preempted depends on the past usage of local queues in Kueue's"
            " admission fair sharing, which is not calculated"
        )
    return ""


def _joint_quota_reason(workload: Workload) -> Reason:
    """Return the reason if every pod set has a flavor with enough quota, but Kueue finds no flavors for all."""
    behavior = (
        "the same flavors to all pod sets of a group, and no flavor has enough quota for all of them"
        if any(pods.group for pods in workload.pod_sets)
        else "flavors to the pod sets in order, and the first ones take the quota that later ones need"
    )
    message = f"every pod set fits alone, but not all of them together: Kueue assigns {behavior}"
    return Reason("quota", message, workload.path)
