"""Changes of the environment or of the run that make a run fit; each is simulated before it is suggested."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from trainstack.kueue.field_paths import queue_path, quota_path
from trainstack.kueue.flavor_assigner import scaled
from trainstack.kueue.model import ClusterQueue, FlavorResource, PodSet, Quota, ResourceGroup, Toleration, Workload
from trainstack.kueue.quantities import quantity, readable
from trainstack.kueue.snapshot import QueueSnapshot
from trainstack.kueue.verdict import Change, Reason, Remedy, Verdict

if TYPE_CHECKING:
    from trainstack.kueue.admission_simulator import AdmissionSimulator

MOST = 3
_ANOTHER_QUEUE, _ANOTHER_POD, _ANOTHER_RESOURCE = 0.0, 0.5, 1.0
"""Sizes of changes that do not change an amount."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    size: float
    """Of a changed amount: relative to what the workload requests."""
    text: str
    changes: tuple[Change, ...]
    simulate: Callable[[], Verdict]


def remedies(simulator: "AdmissionSimulator", workload: Workload, verdict: Verdict) -> tuple[Remedy, ...]:
    """Return the smallest changes that help, at most MOST."""
    search = _Search(simulator, workload)
    cq = simulator.idle.cluster_queues.get(verdict.cluster_queue)
    candidates = [*search.other_queues(), *(search.candidates(cq, verdict.reasons) if cq is not None else ())]
    # Several pod sets may lead to the same change.
    distinct = {candidate.text: candidate for candidate in candidates}
    ordered = sorted(distinct.values(), key=lambda candidate: (candidate.size, candidate.text))
    outcomes = ((candidate, candidate.simulate().outcome) for candidate in ordered)
    helpful = (
        Remedy(candidate.text, candidate.changes, outcome)
        for candidate, outcome in outcomes
        if outcome in ("fits", "fits by borrowing")
    )
    return tuple(islice(helpful, MOST))


@dataclass(frozen=True, slots=True)
class _Search:
    simulator: "AdmissionSimulator"
    workload: Workload

    def candidates(self, cq: QueueSnapshot, reasons: tuple[Reason, ...]) -> Iterator[_Candidate]:
        short = [reason for reason in reasons if reason.cause == "quota" and reason.resource]
        if short:
            yield from self.more_quota(cq, short)
            yield from self.fewer_pods(short)
            yield from self.smaller_pods(short)
        uncovered = [reason for reason in reasons if reason.cause == "uncovered"]
        if uncovered:
            yield from self.covered(cq.spec, uncovered)
        for reason in reasons:
            if reason.cause == "taint":
                yield self.tolerated(reason)
            elif reason.cause == "affinity":
                yield self.selected(cq, reason)
            elif reason.cause == "queue-closed":
                yield self.opened(cq.spec)

    def other_queues(self) -> Iterator[_Candidate]:
        workload, simulator = self.workload, self.simulator
        shrinks = any(pods.min_count is not None for pods in workload.pod_sets)
        for (namespace, name), local in (simulator.model.local_queues or {}).items():
            cq = simulator.idle.cluster_queues.get(local.cluster_queue)
            if namespace != workload.namespace or name == workload.queue or cq is None:
                continue
            if shrinks or cq.may_hold(workload):
                change = Change(f"{workload.path}.queue", workload.queue, name)
                other = partial(simulator.alone, replace(workload, queue=name))
                yield _Candidate(_ANOTHER_QUEUE, f"use queue {name}", (change,), other)

    def more_quota(self, cq: QueueSnapshot, short: list[Reason]) -> Iterator[_Candidate]:
        missing: dict[FlavorResource, int] = {}
        for reason in short:
            fr = (reason.flavor, reason.resource)
            missing[fr] = max(missing.get(fr, 0), reason.missing)
        before = {fr: cq.node.quota(fr) for fr in missing}
        nominal = {fr: replace(quota, nominal=quota.nominal + missing[fr]) for fr, quota in before.items()}
        yield self.raised(cq, "nominalQuota", before, nominal)
        limits = {fr: quota.borrowing_limit for fr, quota in before.items()}
        if None not in limits.values():
            borrowing = {
                fr: replace(quota, borrowing_limit=(quota.borrowing_limit or 0) + missing[fr])
                for fr, quota in before.items()
            }
            yield self.raised(cq, "borrowingLimit", before, borrowing)

    def raised(
        self, cq: QueueSnapshot, key: str, before: dict[FlavorResource, Quota], after: dict[FlavorResource, Quota]
    ) -> _Candidate:
        queue = cq.spec.name
        texts, changes, size = [], [], 0.0
        for fr, quota in after.items():
            flavor, resource = fr
            old, new = (
                one.nominal if key == "nominalQuota" else one.borrowing_limit or 0 for one in (before[fr], quota)
            )
            amounts = f"from {readable(resource, old)} to {readable(resource, new)}"
            texts.append(f"raise {key} of {resource} on {flavor} {amounts}")
            path = quota_path(self.simulator.model, queue, flavor, resource, key)
            changes.append(Change(path, quantity(resource, old), quantity(resource, new)))
            size += (new - old) / max(1, sum(pods.requests.get(resource, 0) for pods in self.workload.pod_sets))

        raised = replace(cq.spec, quotas={**cq.spec.quotas, **after})
        text = f"in cluster queue {queue}, {' and '.join(texts)}"
        return _Candidate(size, text, tuple(changes), partial(self.with_queue, raised))

    def fewer_pods(self, short: list[Reason]) -> Iterator[_Candidate]:
        for index, pods in enumerate(self.workload.pod_sets):
            if pods.count < 2 or pods.name not in {reason.pod_set for reason in short}:
                continue
            simulate = partial(self.with_count, index)
            fewer = range(pods.count - 1, 0, -1)
            place = bisect_left(fewer, x=True, key=lambda count: simulate(count).fits)
            if place < len(fewer):
                most = fewer[place]
                name = "" if pods.name == "main" else f"{pods.name} "
                text = f"run {most} {name}pod{'' if most == 1 else 's'} instead of {pods.count}"
                change = Change(pods.path, str(pods.count), str(most))
                yield _Candidate((pods.count - most) / pods.count, text, (change,), partial(simulate, most))

    def with_count(self, index: int, count: int) -> Verdict:
        sets = list(self.workload.pod_sets)
        sets[index] = replace(sets[index], count=count, requests=scaled(sets[index], count), min_count=None)
        return self.simulator.alone(replace(self.workload, pod_sets=tuple(sets)))

    def smaller_pods(self, short: list[Reason]) -> Iterator[_Candidate]:
        """Reduce each pod's requests to the available quota."""
        smaller: dict[str, dict[str, int]] = {}
        texts, changes, size = [], [], 0.0
        for pods in self.workload.pod_sets:
            smaller[pods.name] = dict(pods.requests)
            for reason in (reason for reason in short if reason.pod_set == pods.name):
                resource = reason.resource
                before = pods.per_pod.get(resource, 0)
                after = before - -(-reason.missing // max(1, pods.count))
                if after <= 0:
                    return
                smaller[pods.name][resource] = after * pods.count
                name = "each pod" if pods.name == "main" else f"each {pods.name} pod"
                texts.append(f"{resource} in {name} from {readable(resource, before)} to {readable(resource, after)}")
                changes.append(Change(pods.resources_path, quantity(resource, before), quantity(resource, after)))
                size += (before - after) / before
        simulate = self.with_pods(lambda pods: replace(pods, requests=smaller[pods.name]))
        yield _Candidate(size, f"decrease {' and '.join(texts)}", tuple(changes), simulate)

    def covered(self, queue: ClusterQueue, uncovered: list[Reason]) -> Iterator[_Candidate]:
        names = sorted({reason.resource for reason in uncovered})
        totals = {name: sum(pods.requests.get(name, 0) for pods in self.workload.pod_sets) for name in names}
        if queue.groups:
            group = queue.groups[0]
            covered = group.covered | set(names)
            quotas = {(flavor, name): Quota(total) for flavor in group.flavors for name, total in totals.items()}
            groups = (ResourceGroup(covered, group.flavors), *queue.groups[1:])
            wider = replace(queue, groups=groups, quotas={**queue.quotas, **quotas})
            amounts = " and ".join(f"{name} (at least {readable(name, total)})" for name, total in totals.items())
            path = f"{queue_path(self.simulator.model, queue.name)}.resourceGroups[0].coveredResources"
            change = Change(path, ", ".join(sorted(group.covered)), ", ".join(sorted(covered)))
            text = f"cover {amounts} in cluster queue {queue.name}"
            yield _Candidate(_ANOTHER_RESOURCE, text, (change,), partial(self.with_queue, wider))
        changes = tuple(Change(reason.path, reason.resource, "") for reason in uncovered)
        text = f"remove {' and '.join(names)} from the resources"
        simulate = self.with_pods(
            lambda pods: replace(pods, requests={name: n for name, n in pods.requests.items() if name not in totals})
        )
        yield _Candidate(_ANOTHER_RESOURCE, text, changes, simulate)

    def opened(self, queue: ClusterQueue) -> _Candidate:
        change = Change(queue_path(self.simulator.model, queue.name, "namespaces"), "", self.workload.namespace)
        text = f"add {self.workload.namespace} to the namespaces of cluster queue {queue.name}"
        return _Candidate(_ANOTHER_QUEUE, text, (change,), partial(self.with_queue, replace(queue, namespaces=())))

    def with_queue(self, queue: ClusterQueue) -> Verdict:
        """Simulate with another cluster queue of the same name."""
        model, tree = self.simulator.model, self.simulator.idle.tree
        root = tree.queues[queue.name].root
        # On an idle cluster, the queues of other root cohorts have no effect.
        related = {name: spec for name, spec in (model.cluster_queues or {}).items() if tree.queues[name].root is root}
        changed = replace(model, cluster_queues={**related, queue.name: queue})
        return type(self.simulator)(changed).alone(self.workload)

    def with_pods(self, change: Callable[[PodSet], PodSet]) -> Callable[[], Verdict]:
        changed = replace(self.workload, pod_sets=tuple(map(change, self.workload.pod_sets)))
        return partial(self.simulator.alone, changed)

    # A run's tolerations and nodeSelector apply to all its pods, so the simulation changes all pod sets.
    def tolerated(self, reason: Reason) -> _Candidate:
        taints = (self.simulator.model.flavors or {})[reason.flavor].taints
        added = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
        listed = " and ".join(
            f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints
        )
        change = Change(f"{self.workload.path}.tolerations", "", listed)
        text = f"tolerate {listed}, the taints of flavor {reason.flavor}"
        simulate = self.with_pods(lambda pods: replace(pods, tolerations=(*pods.tolerations, *added)))
        return _Candidate(_ANOTHER_POD, text, (change,), simulate)

    def selected(self, cq: QueueSnapshot, reason: Reason) -> _Candidate:
        labels = (self.simulator.model.flavors or {})[reason.flavor].labels
        keys = next(group.keys for group in cq.group_of.values() if reason.flavor in group.names)
        before = next(pods.selector for pods in self.workload.pod_sets if pods.name == reason.pod_set)
        after = {key: labels.get(key, value) for key, value in before.items() if key in labels or key not in keys}
        change = Change(f"{self.workload.path}.nodeSelector", _listed(before), _listed(after))
        text = f"select {_listed(after)}" if after else f"remove {_listed(before)} from nodeSelector"
        simulate = self.with_pods(lambda pods: replace(pods, selector=after, affinity=()))
        return _Candidate(_ANOTHER_POD, f"{text} for flavor {reason.flavor}", (change,), simulate)


def _listed(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
