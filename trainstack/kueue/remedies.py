"""Changes of the environment or of the run that make a run fit; each is simulated before it is suggested."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from trainstack.kueue.field_paths import queue_path, quota_path
from trainstack.kueue.flavor_assigner import scaled
from trainstack.kueue.model import (
    ClusterQueue,
    FlavorResource,
    Model,
    PodSet,
    Quota,
    ResourceGroup,
    Toleration,
    Workload,
)
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
    # Several pod sets may lead to the same change.
    distinct = {candidate.text: candidate for candidate in _candidates(simulator, workload, verdict)}
    candidates = sorted(distinct.values(), key=lambda candidate: (candidate.size, candidate.text))
    return tuple(islice(_that_help(candidates), MOST))


def _that_help(candidates: Sequence[_Candidate]) -> Iterator[Remedy]:
    for candidate in candidates:
        outcome = candidate.simulate().outcome
        if outcome in ("fits", "fits by borrowing"):
            yield Remedy(candidate.text, candidate.changes, outcome)


def _candidates(simulator: "AdmissionSimulator", workload: Workload, verdict: Verdict) -> Iterator[_Candidate]:
    yield from _other_queues(simulator, workload)
    cq = simulator.idle.cluster_queues.get(verdict.cluster_queue)
    if cq is None:
        return
    short = [reason for reason in verdict.reasons if reason.cause == "quota" and reason.resource]
    if short:
        yield from _more_quota(simulator, workload, cq, short)
        yield from _fewer_pods(simulator, workload, short)
        yield from _smaller_pods(simulator, workload, short)
    uncovered = [reason for reason in verdict.reasons if reason.cause == "uncovered"]
    if uncovered:
        yield from _covered(simulator, workload, cq, uncovered)
    for reason in verdict.reasons:
        if reason.cause == "taint":
            yield _tolerated(simulator, workload, reason)
        elif reason.cause == "affinity":
            yield _selected(simulator, workload, cq, reason)
        elif reason.cause == "queue-closed":
            queue = replace(cq.spec, namespaces=())
            path = queue_path(simulator.model, queue.name, "namespaces")
            text = f"add {workload.namespace} to the namespaces of cluster queue {queue.name}"
            change = Change(path, "", workload.namespace)
            yield _Candidate(_ANOTHER_QUEUE, text, (change,), partial(_with_queue, simulator, workload, queue))


def _other_queues(simulator: "AdmissionSimulator", workload: Workload) -> Iterator[_Candidate]:
    shrinks = any(pods.min_count is not None for pods in workload.pod_sets)
    for (namespace, name), local in (simulator.model.local_queues or {}).items():
        cq = simulator.idle.cluster_queues.get(local.cluster_queue)
        if namespace != workload.namespace or name == workload.queue or cq is None:
            continue
        if shrinks or cq.may_hold(workload):
            other = replace(workload, queue=name)
            change = Change(f"{workload.path}.queue", workload.queue, name)
            yield _Candidate(_ANOTHER_QUEUE, f"use queue {name}", (change,), partial(simulator.alone, other))


def _more_quota(
    simulator: "AdmissionSimulator", workload: Workload, cq: QueueSnapshot, short: list[Reason]
) -> Iterator[_Candidate]:
    missing: dict[FlavorResource, int] = {}
    for reason in short:
        fr = (reason.flavor, reason.resource)
        missing[fr] = max(missing.get(fr, 0), reason.missing)
    before = {fr: cq.node.quota(fr) for fr in missing}
    nominal = {fr: replace(quota, nominal=quota.nominal + missing[fr]) for fr, quota in before.items()}
    yield _raised(simulator, workload, cq, "nominalQuota", before, nominal)
    if all(quota.borrowing_limit is not None for quota in before.values()):
        limits = {
            fr: replace(quota, borrowing_limit=(quota.borrowing_limit or 0) + missing[fr])
            for fr, quota in before.items()
        }
        yield _raised(simulator, workload, cq, "borrowingLimit", before, limits)


def _raised(
    simulator: "AdmissionSimulator",
    workload: Workload,
    cq: QueueSnapshot,
    key: str,
    before: dict[FlavorResource, Quota],
    after: dict[FlavorResource, Quota],
) -> _Candidate:
    queue = cq.spec.name
    texts, changes, size = [], [], 0.0
    for (flavor, resource), quota in after.items():
        old, new = (
            one.nominal if key == "nominalQuota" else one.borrowing_limit or 0
            for one in (before[flavor, resource], quota)
        )
        texts.append(
            f"raise {key} of {resource} on {flavor} from {readable(resource, old)} to {readable(resource, new)}"
        )
        path = quota_path(simulator.model, queue, flavor, resource, key)
        changes.append(Change(path, quantity(resource, old), quantity(resource, new)))
        size += (new - old) / max(1, sum(pods.requests.get(resource, 0) for pods in workload.pod_sets))

    def simulate() -> Verdict:
        for fr, quota in after.items():
            cq.node.set_quota(fr, quota)
        try:
            return simulator.alone(workload)
        finally:
            for fr, quota in before.items():
                cq.node.set_quota(fr, quota)

    return _Candidate(size, f"in cluster queue {queue}, {' and '.join(texts)}", tuple(changes), simulate)


def _fewer_pods(simulator: "AdmissionSimulator", workload: Workload, short: list[Reason]) -> Iterator[_Candidate]:
    for index, pods in enumerate(workload.pod_sets):
        if pods.count < 2 or pods.name not in {reason.pod_set for reason in short}:
            continue
        low, high = 0, pods.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if simulator.alone(_with_count(workload, index, middle)).fits:
                low = middle
            else:
                high = middle - 1
        if low:
            name = "" if pods.name == "main" else f"{pods.name} "
            text = f"run {low} {name}pod{'' if low == 1 else 's'} instead of {pods.count}"
            change = Change(pods.path, str(pods.count), str(low))
            size = (pods.count - low) / pods.count
            yield _Candidate(size, text, (change,), partial(simulator.alone, _with_count(workload, index, low)))


def _with_count(workload: Workload, index: int, count: int) -> Workload:
    sets = list(workload.pod_sets)
    sets[index] = replace(sets[index], count=count, requests=scaled(sets[index], count), min_count=None)
    return replace(workload, pod_sets=tuple(sets))


def _smaller_pods(simulator: "AdmissionSimulator", workload: Workload, short: list[Reason]) -> Iterator[_Candidate]:
    """Reduce each pod's requests to the available quota."""
    sets: list[PodSet] = []
    texts, changes, size = [], [], 0.0
    for pods in workload.pod_sets:
        requests = dict(pods.requests)
        for reason in short:
            if reason.pod_set != pods.name:
                continue
            resource = reason.resource
            before = pods.per_pod.get(resource, 0)
            after = before - -(-reason.missing // max(1, pods.count))
            if after <= 0:
                return
            requests[resource] = after * pods.count
            name = "each pod" if pods.name == "main" else f"each {pods.name} pod"
            texts.append(f"{resource} in {name} from {readable(resource, before)} to {readable(resource, after)}")
            changes.append(Change(pods.resources_path, quantity(resource, before), quantity(resource, after)))
            size += (before - after) / before
        sets.append(replace(pods, requests=requests))
    smaller = partial(simulator.alone, replace(workload, pod_sets=tuple(sets)))
    yield _Candidate(size, f"decrease {' and '.join(texts)}", tuple(changes), smaller)


def _covered(
    simulator: "AdmissionSimulator", workload: Workload, cq: QueueSnapshot, uncovered: list[Reason]
) -> Iterator[_Candidate]:
    queue = cq.spec
    names = sorted({reason.resource for reason in uncovered})
    totals = {name: sum(pods.requests.get(name, 0) for pods in workload.pod_sets) for name in names}
    if queue.groups:
        group = queue.groups[0]
        quotas = {(flavor, name): Quota(total) for flavor in group.flavors for name, total in totals.items()}
        wider = replace(
            queue,
            groups=(ResourceGroup(group.covered | set(names), group.flavors), *queue.groups[1:]),
            quotas={**queue.quotas, **quotas},
        )
        amounts = " and ".join(f"{name} (at least {readable(name, total)})" for name, total in totals.items())
        path = f"{queue_path(simulator.model, queue.name)}.resourceGroups[0].coveredResources"
        change = Change(path, ", ".join(sorted(group.covered)), ", ".join(sorted(group.covered | set(names))))
        text = f"cover {amounts} in cluster queue {queue.name}"
        yield _Candidate(_ANOTHER_RESOURCE, text, (change,), partial(_with_queue, simulator, workload, wider))
    without = _changed_pods(
        workload,
        lambda pods: replace(pods, requests={name: n for name, n in pods.requests.items() if name not in totals}),
    )
    changes = tuple(Change(reason.path, reason.resource, "") for reason in uncovered)
    text = f"remove {' and '.join(names)} from the resources"
    yield _Candidate(_ANOTHER_RESOURCE, text, changes, partial(simulator.alone, without))


def _with_queue(simulator: "AdmissionSimulator", workload: Workload, queue: ClusterQueue) -> Verdict:
    """Return the verdict with another cluster queue of the same name."""
    model: Model = simulator.model
    changed = replace(model, cluster_queues={**(model.cluster_queues or {}), queue.name: queue})
    return type(simulator)(changed).alone(workload)


def _changed_pods(workload: Workload, change: Callable[[PodSet], PodSet]) -> Workload:
    return replace(workload, pod_sets=tuple(map(change, workload.pod_sets)))


# A run's tolerations and nodeSelector apply to all its pods, so the simulation changes all pod sets.
def _tolerated(simulator: "AdmissionSimulator", workload: Workload, reason: Reason) -> _Candidate:
    taints = (simulator.model.flavors or {})[reason.flavor].taints
    added = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    tolerant = _changed_pods(workload, lambda pods: replace(pods, tolerations=(*pods.tolerations, *added)))
    listed = " and ".join(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints)
    change = Change(f"{workload.path}.tolerations", "", listed)
    text = f"tolerate {listed}, the taints of flavor {reason.flavor}"
    return _Candidate(_ANOTHER_POD, text, (change,), partial(simulator.alone, tolerant))


def _selected(simulator: "AdmissionSimulator", workload: Workload, cq: QueueSnapshot, reason: Reason) -> _Candidate:
    labels = (simulator.model.flavors or {})[reason.flavor].labels
    keys = next(group.keys for group in cq.group_of.values() if reason.flavor in group.names)
    before = next(pods.selector for pods in workload.pod_sets if pods.name == reason.pod_set)
    after = {key: labels.get(key, value) for key, value in before.items() if key in labels or key not in keys}
    matching = _changed_pods(workload, lambda pods: replace(pods, selector=after, affinity=()))
    change = Change(f"{workload.path}.nodeSelector", _listed(before), _listed(after))
    text = f"select {_listed(after)}" if after else f"remove {_listed(before)} from nodeSelector"
    candidate = partial(simulator.alone, matching)
    return _Candidate(_ANOTHER_POD, f"{text} for flavor {reason.flavor}", (change,), candidate)


def _listed(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
