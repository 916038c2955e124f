"""The present state of a cluster, in which a workload is submitted behind and beside those that wait.

The scheduler's cycles run until nothing changes any more before an eviction ends: first without the workload, then with
it. A forecast begins in the same way.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainstack.kueue.admission_verdict import admission_verdict, make_verdict
from trainstack.kueue.field_paths import queue_path
from trainstack.kueue.hold_up import HoldUp, hold_up_message
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.scheduler import Event, Scheduler
from trainstack.kueue.snapshot import Snapshot
from trainstack.kueue.unmodeled_features import unmodeled_features
from trainstack.kueue.verdict import Cause, Outcome, Reason, Verdict
from trainstack.objects.ownership import format_names

_MAX_NAMES = 3
_QUOTA_CAUSES: frozenset[Cause] = frozenset(("in-use", "quota"))
"""Causes of a workload that waits for quota alone."""


@dataclass(frozen=True, slots=True)
class _SettledState:
    """A tree of cohorts in which the pending workloads change nothing any more."""

    scheduler: Scheduler
    admitted_keys: tuple[str, ...]
    """Pending workloads that it has admitted."""
    acting_keys: frozenset[str]
    """Pending workloads that it has admitted, or for which it has preempted others."""
    undecided: str
    """Why it is uncertain what it has preempted; empty if it is certain."""


@dataclass(frozen=True)
class PresentState:
    model: Model
    admitted: tuple[AdmittedWorkload, ...]
    pending: tuple[Workload, ...]
    """In the order of submission."""
    idle_snapshot: Snapshot
    """No usage."""
    usage_snapshot: Snapshot
    """The usage of the admitted workloads."""
    judge_verdicts: Mapping[str, Verdict]
    """Of Kueue's own code on workloads alone, by key."""
    judge: Callable[[Workload, Snapshot], Verdict]
    """Returns the verdict on a workload alone with some usage."""
    _settled_states: dict[tuple[frozenset[str], frozenset[str]], _SettledState] = field(default_factory=dict)
    """By the cluster queues of the tree and the refused workloads."""
    _unknown_keys: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """The keys of the pending workloads of unknown admission, by the cluster queues of the tree."""

    def verdict(self, workload: Workload, verdict: Verdict) -> Verdict:
        """Return the verdict on a workload that is submitted now. `verdict`: on the workload alone."""
        waits_for_quota = verdict.outcome == "waits" and _QUOTA_CAUSES.issuperset(
            reason.cause for reason in verdict.reasons
        )
        if not verdict.fits and not waits_for_quota:
            return verdict
        tree = frozenset(node.name for node in self.usage_snapshot.tree.queues[verdict.cluster_queue].tree_queues())
        pending = [other for other in self.pending if self._cluster_queue(other) in tree]
        if not any(other.key != workload.key for other in pending):
            return self._behind_starting_pods(workload, verdict, ())
        refused_keys = frozenset(other.key for other in pending if self._is_refused(other))
        if tree not in self._unknown_keys:
            self._unknown_keys[tree] = frozenset(other.key for other in pending if self._is_unknown(other))
        present_verdict, deciding_keys = self._verdict_among(workload, verdict, tree, pending, refused_keys)
        # Kueue tries an inadmissible workload again when quota is released. If its last attempt may be older than the
        # usage, or if its admission is unknown, the verdict has to be the same with and without it.
        inadmissible_keys = {
            other.key for other in pending if other.key in deciding_keys and self._may_be_inadmissible(other, tree)
        }
        if uncertain_keys := (self._unknown_keys[tree] | inadmissible_keys) - {workload.key}:
            other_verdict, _ = self._verdict_among(workload, verdict, tree, pending, refused_keys | uncertain_keys)
            if _decision(present_verdict) != _decision(other_verdict):
                names = format_names(sorted(uncertain_keys), _MAX_NAMES)
                message = f"it depends on whether Kueue admits or tries {names} before it, which is unknown"
                return _unknown_verdict(workload, verdict, message)
        return present_verdict

    def _verdict_among(
        self,
        workload: Workload,
        verdict: Verdict,
        tree: frozenset[str],
        pending: Sequence[Workload],
        refused_keys: frozenset[str],
    ) -> tuple[Verdict, frozenset[str]]:
        """Return the verdict on a workload among the pending ones of its tree of cohorts, and which of them decide it.

        `refused_keys`: pending workloads that are never admitted.
        """
        others = [other for other in pending if other.key != workload.key]
        is_new = len(others) == len(pending)
        state = self._settled_states.pop((tree, refused_keys), None) if is_new else None
        state = state or self._settle(tree, others, refused_keys)
        scheduler = state.scheduler
        # Kueue's own code has not seen what the pending workloads use.
        settled_verdict = self.judge(workload, scheduler.snapshot)
        if not verdict.judged_by or settled_verdict.outcome == "waits":
            verdict = settled_verdict
        scheduler.snapshot.undecided = ""
        scheduler.submit(workload)
        events = scheduler.settle_present()
        own_events = [event for event in events if workload.key in (event.key, event.preemptor)]
        hold_up = scheduler.find_hold_up(workload) if verdict.fits and not own_events else None
        if is_new and not events and (hold_up is not None or not verdict.fits):
            # A workload that only waits leaves the state as it was.
            scheduler.finish(workload.key)
            self._settled_states[tree, refused_keys] = state
        deciding_keys = state.acting_keys | ({hold_up.workload.key} if hold_up is not None else set())
        if undecided := state.undecided or scheduler.snapshot.undecided:
            return _unknown_verdict(workload, verdict, f"the quota is in use; {undecided}"), deciding_keys
        if hold_up is not None:
            return self._held_up_verdict(workload, verdict, hold_up), deciding_keys
        if own_events and not verdict.judged_by:
            verdict = self._verdict_on_events(workload, verdict, own_events, scheduler)
        return self._behind_starting_pods(workload, verdict, state.admitted_keys), deciding_keys

    def _settle(
        self, tree: Collection[str], pending: Sequence[Workload], refused_keys: Collection[str]
    ) -> _SettledState:
        cluster_queues = {name: queue for name, queue in (self.model.cluster_queues or {}).items() if name in tree}
        scheduler = Scheduler(
            replace(self.model, cluster_queues=cluster_queues),
            [admitted for admitted in self.admitted if admitted.cluster_queue in tree],
            paced=True,
            refused_keys=refused_keys,
        )
        for other in pending:
            scheduler.submit(other)
        events = scheduler.settle_present()
        admitted_keys = tuple(event.key for event in events if event.kind == "admitted")
        acting_keys = frozenset(event.preemptor or event.key for event in events)
        return _SettledState(scheduler, admitted_keys, acting_keys, scheduler.snapshot.undecided)

    def _verdict_on_events(
        self, workload: Workload, verdict: Verdict, events: Sequence[Event], scheduler: Scheduler
    ) -> Verdict:
        """Return the verdict on a workload that the scheduler admits, or for which it preempts others.

        `verdict`: on the workload alone, which is usually the same.
        """
        admission = next((event for event in events if event.key == workload.key), None)
        if admission is None:
            targets = tuple(event.key for event in events)
            preempting_verdict = make_verdict(
                workload, verdict.cluster_queue, "fits by preempting", (), preempts=targets
            )
            return verdict if verdict.preempts else preempting_verdict
        if (verdict.assigned, verdict.preempts) == (admission.assigned, ()):
            return verdict
        scheduler.snapshot.tree.remove(admission.cluster_queue, admission.usage)
        cq = scheduler.snapshot.cluster_queues[admission.cluster_queue]
        return admission_verdict(self.model, workload, cq, admission.assigned, admission.usage)

    def _held_up_verdict(self, workload: Workload, verdict: Verdict, hold_up: HoldUp) -> Verdict:
        queue = self.usage_snapshot.cluster_queues[verdict.cluster_queue].spec
        is_order_unknown = self.model.admission_fair_sharing and queue.usage_based
        if is_order_unknown and hold_up.is_own_queue and hold_up.workload.queue != workload.queue:
            message = (
                f"whether it or {hold_up.workload.key} comes first depends on the past usage of local queues, which is "
                "not calculated"
            )
            return _unknown_verdict(workload, verdict, message)
        alone_verdict = self.judge_verdicts.get(hold_up.workload.key)
        alone_verdict = alone_verdict or self.judge(hold_up.workload, self.idle_snapshot)
        setting = "queueingStrategy" if hold_up.is_strict else ""
        path = queue_path(self.model, hold_up.cluster_queue, setting)
        reason = Reason("blocked", hold_up_message(hold_up, never_fits=alone_verdict.outcome == "never fits"), path)
        return make_verdict(workload, queue.name, "waits", [reason])

    def _behind_starting_pods(self, workload: Workload, verdict: Verdict, admitted_keys: Iterable[str]) -> Verdict:
        """Return the verdict, or that the workload waits until the pods of others are ready.

        `admitted_keys`: pending workloads that are admitted before it.
        """
        if not self.model.blocks_admission or not verdict.fits or verdict.preempts:
            return verdict
        keys = [admitted.workload.key for admitted in self.admitted if not admitted.is_ready]
        keys += admitted_keys
        if not keys:
            return verdict
        names = format_names(keys, _MAX_NAMES)
        message = f"waitForPodsReady.blockAdmission: Kueue admits nothing until the pods of {names} are ready"
        return make_verdict(workload, verdict.cluster_queue, "waits", [Reason("not-ready", message, workload.path)])

    def _cluster_queue(self, workload: Workload) -> str:
        local_queue = (self.model.local_queues or {}).get((workload.namespace, workload.queue))
        return local_queue.cluster_queue if local_queue is not None else ""

    def _is_refused(self, workload: Workload) -> bool:
        """Whether Kueue's own code does not admit a pending workload."""
        verdict = self.judge_verdicts.get(workload.key)
        return verdict is not None and verdict.outcome in ("waits", "never fits")

    def _may_be_inadmissible(self, workload: Workload, tree: Collection[str]) -> bool:
        """Whether Kueue may have last tried a pending workload before others were admitted."""
        if self.usage_snapshot.cluster_queues[self._cluster_queue(workload)].spec.is_strict_fifo:
            return False
        others = [admitted for admitted in self.admitted if admitted.cluster_queue in tree]
        is_preempting = any(other.is_evicted and other.preemptor_uid == workload.uid != "" for other in others)
        return not is_preempting and any(other.reserved_at >= workload.created for other in others)

    def _is_unknown(self, workload: Workload) -> bool:
        """Whether it is unknown if Kueue admits a pending workload."""
        if (verdict := self.judge_verdicts.get(workload.key)) is not None:
            return verdict.outcome == "unknown"
        cq = self.usage_snapshot.cluster_queues[self._cluster_queue(workload)]
        return (
            bool(cq.topology_flavors)
            or any(unmodeled_features(self.model, workload, cq))
            or any(pods.runtime_class or pods.pod_refusals or pods.first_refusals for pods in workload.pod_sets)
        )


def _unknown_verdict(workload: Workload, verdict: Verdict, message: str) -> Verdict:
    reason = Reason("in-use", message, workload.path)
    return make_verdict(workload, verdict.cluster_queue, "unknown", [reason])


def _decision(verdict: Verdict) -> tuple[Outcome, tuple[object, ...], frozenset[str]]:
    return verdict.outcome, verdict.assigned, frozenset(verdict.preempts)
