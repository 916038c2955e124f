"""The present state of a cluster, in which a workload is submitted behind and beside those that wait.

The scheduler's cycles run until nothing changes any more before an eviction ends: first without the workload, then with
it. A forecast begins in the same way.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trainstack.kueue.admission_verdict import admission_verdict, make_verdict
from trainstack.kueue.field_paths import queue_path
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.scheduler import Event, HoldUp, Scheduler
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
    undecided: str
    """Why it is uncertain what it has preempted; empty if it is certain."""


@dataclass(frozen=True)
class PresentState:
    model: Model
    admitted: tuple[AdmittedWorkload, ...]
    pending: tuple[Workload, ...]
    """In the order of submission."""
    usage_snapshot: Snapshot
    """The usage of the admitted workloads."""
    judge_verdicts: Mapping[str, Verdict]
    """Of Kueue's own code on workloads alone, by key."""
    judge: Callable[[Workload, Snapshot], Verdict]
    """Returns the verdict on a workload alone with some usage."""

    def verdict(self, workload: Workload, verdict: Verdict) -> Verdict:
        """Return the verdict on a workload that is submitted now. `verdict`: on the workload alone."""
        waits_for_quota = verdict.outcome == "waits" and _QUOTA_CAUSES.issuperset(
            reason.cause for reason in verdict.reasons
        )
        if not verdict.fits and not waits_for_quota:
            return verdict
        tree = frozenset(node.name for node in self.usage_snapshot.tree.queues[verdict.cluster_queue].tree_queues())
        pending = [other for other in self.pending if other.key != workload.key and self._cluster_queue(other) in tree]
        if not pending:
            return self._behind_starting_pods(workload, verdict, ())
        refused_keys = frozenset(other.key for other in pending if self._is_refused(other))
        present_verdict = self._verdict_among(workload, verdict, tree, pending, refused_keys)
        # A pending workload of unknown admission is admitted or refused: the verdict has to be the same in both cases.
        unknown_keys = frozenset(other.key for other in pending if self._is_unknown(other))
        if unknown_keys:
            other_verdict = self._verdict_among(workload, verdict, tree, pending, refused_keys | unknown_keys)
            if _decision(present_verdict) != _decision(other_verdict):
                names = format_names(sorted(unknown_keys), _MAX_NAMES)
                return _unknown_verdict(workload, verdict, f"whether Kueue admits {names} before it is unknown")
        return present_verdict

    def _verdict_among(
        self,
        workload: Workload,
        verdict: Verdict,
        tree: Collection[str],
        pending: Sequence[Workload],
        refused_keys: Collection[str],
    ) -> Verdict:
        """Return the verdict on a workload among the pending ones of its tree of cohorts.

        `refused_keys`: pending workloads that are never admitted.
        """
        state = self._settle(tree, pending, refused_keys)
        scheduler = state.scheduler
        if not verdict.judged_by:
            verdict = self.judge(workload, scheduler.snapshot)
        scheduler.snapshot.undecided = ""
        scheduler.submit(workload)
        own_events = [event for event in scheduler.settle_present() if workload.key in (event.key, event.preemptor)]
        if undecided := state.undecided or scheduler.snapshot.undecided:
            return _unknown_verdict(workload, verdict, f"the quota is in use; {undecided}")
        if own_events and not verdict.judged_by:
            verdict = self._verdict_on_events(workload, verdict, own_events, scheduler)
        elif not own_events and verdict.fits and (hold_up := scheduler.find_hold_up(workload)) is not None:
            return self._held_up_verdict(workload, verdict, hold_up)
        return self._behind_starting_pods(workload, verdict, state.admitted_keys)

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
        return _SettledState(scheduler, admitted_keys, scheduler.snapshot.undecided)

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
        is_same_queue = hold_up.cluster_queue == queue.name
        if (
            is_same_queue
            and self.model.admission_fair_sharing
            and queue.usage_based
            and hold_up.workload.queue != workload.queue
        ):
            message = (
                f"whether it or {hold_up.workload.key} comes first depends on the past usage of local queues, which is "
                "not calculated"
            )
            return _unknown_verdict(workload, verdict, message)
        reason = self._hold_up_reason(hold_up, is_same_queue=is_same_queue)
        return make_verdict(workload, queue.name, "waits", [reason])

    def _hold_up_reason(self, hold_up: HoldUp, *, is_same_queue: bool) -> Reason:
        name, queue = hold_up.workload.key, hold_up.cluster_queue
        if hold_up.preempts:
            targets = format_names(hold_up.preempts, _MAX_NAMES)
            where = "is ahead in" if is_same_queue else "comes first, from"
            message = f"{name} {where} cluster queue {queue}, and waits for the end of {targets}, which it preempts"
        elif not is_same_queue:
            message = f"Kueue keeps quota of the cohort for {name}, which waits at the head of cluster queue {queue}"
        elif hold_up.is_strict:
            idle_outcome = self.judge(hold_up.workload, Snapshot(self.model)).outcome
            state = "never fits" if idle_outcome == "never fits" else "waits"
            message = f"cluster queue {queue} is StrictFIFO: {name} {state}, and holds up all workloads behind it"
        else:
            message = f"Kueue tries {name} again in every cycle, and nothing behind it in cluster queue {queue}"
        path = queue_path(self.model, queue, "queueingStrategy" if hold_up.is_strict else "")
        return Reason("blocked", message, path)

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
