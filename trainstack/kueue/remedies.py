"""What would make a run fit: changes of the environment or of the run, each tried before it is told."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from trainstack.kueue.cohort_paths import queue_path, quota_path
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
from trainstack.kueue.snapshot import ClusterQueueSnapshot, SchedulerSnapshot
from trainstack.kueue.verdict import Change, Reason, Remedy, Verdict

MOST = 3
"""Remedies that are told of one run."""
_ANOTHER_QUEUE, _ANOTHER_POD, _ANOTHER_RESOURCE = 0.0, 0.5, 1.0
"""How large changes are that are none of a number."""


class Simulator(Protocol):
    """What tries a change."""

    model: Model
    idle: SchedulerSnapshot

    def alone(self, workload: Workload) -> Verdict:
        """The verdict on an idle cluster, without remedies."""

    def over(self, model: Model) -> "Simulator":
        """The same over another model."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    size: float
    """How large the change is: of a number, in parts of what the workload asks for."""
    text: str
    changes: tuple[Change, ...]
    tried: Callable[[], Verdict]


def remedies(simulator: Simulator, workload: Workload, verdict: Verdict) -> tuple[Remedy, ...]:
    """The smallest changes that help, at most three."""
    # Pods of several roles may lack the same; it is one change.
    different = {each.text: each for each in _candidates(simulator, workload, verdict)}
    candidates = sorted(different.values(), key=lambda each: (each.size, each.text))
    return tuple(islice(_that_help(candidates), MOST))


def _that_help(candidates: Iterable[_Candidate]) -> Iterator[Remedy]:
    for each in candidates:
        outcome = each.tried().outcome
        if outcome in ("fits", "fits by borrowing"):
            yield Remedy(each.text, each.changes, outcome)


def _candidates(simulator: Simulator, workload: Workload, verdict: Verdict) -> Iterator[_Candidate]:
    yield from _other_queues(simulator, workload)
    cq = simulator.idle.cluster_queues.get(verdict.cluster_queue)
    if cq is None:
        return
    short = [each for each in verdict.reasons if each.cause == "quota" and each.resource]
    if short:
        yield from _more_quota(simulator, workload, cq, short)
        yield from _fewer_pods(simulator, workload, short)
        yield from _smaller_pods(simulator, workload, short)
    uncovered = [each for each in verdict.reasons if each.cause == "uncovered"]
    if uncovered:
        yield from _covered(simulator, workload, cq, uncovered)
    if any(each.cause in ("taint", "affinity") for each in verdict.reasons):
        yield from _other_nodes(simulator, workload, cq, verdict.reasons)
    if any(each.cause == "queue-closed" for each in verdict.reasons):
        yield _opened(simulator, workload, cq)


def _other_queues(simulator: Simulator, workload: Workload) -> Iterator[_Candidate]:
    shrinks = any(pods.least is not None for pods in workload.pod_sets)
    for (namespace, name), local in (simulator.model.local_queues or {}).items():
        cq = simulator.idle.cluster_queues.get(local.cluster_queue)
        if namespace != workload.namespace or name == workload.queue or cq is None:
            continue
        if shrinks or cq.may_hold(workload):
            other = replace(workload, queue=name)
            change = Change(f"{workload.path}.queue", workload.queue, name)
            yield _Candidate(_ANOTHER_QUEUE, f"use queue {name}", (change,), partial(simulator.alone, other))


def _more_quota(
    simulator: Simulator, workload: Workload, cq: ClusterQueueSnapshot, short: list[Reason]
) -> Iterator[_Candidate]:
    wanted: dict[FlavorResource, int] = {}
    for each in short:
        fr = (each.flavor, each.resource)
        wanted[fr] = max(wanted.get(fr, 0), each.missing)
    had = {fr: cq.node.quota(fr) for fr in wanted}
    raised = {fr: replace(had[fr], nominal=had[fr].nominal + more) for fr, more in wanted.items()}
    yield _requoted(simulator, workload, cq, "nominalQuota", had, raised)
    limits = {fr: each.borrowing_limit for fr, each in had.items()}
    if all(limit is not None for limit in limits.values()):
        raised = {
            fr: replace(had[fr], borrowing_limit=(had[fr].borrowing_limit or 0) + more) for fr, more in wanted.items()
        }
        yield _requoted(simulator, workload, cq, "borrowingLimit", had, raised)


def _requoted(
    simulator: Simulator,
    workload: Workload,
    cq: ClusterQueueSnapshot,
    key: str,
    had: dict[FlavorResource, Quota],
    raised: dict[FlavorResource, Quota],
) -> _Candidate:
    queue = cq.spec.name
    texts, changes, size = [], [], 0.0
    for (flavor, resource), quota in raised.items():
        before, after = (
            each.nominal if key == "nominalQuota" else each.borrowing_limit or 0
            for each in (had[flavor, resource], quota)
        )
        texts.append(
            f"raise {key} of {resource} on {flavor} from {readable(resource, before)} to {readable(resource, after)}"
        )
        path = quota_path(simulator.model, queue, flavor, resource, key)
        changes.append(Change(path, quantity(resource, before), quantity(resource, after)))
        size += (after - before) / max(1, sum(pods.requests.get(resource, 0) for pods in workload.pod_sets))

    def tried() -> Verdict:
        for fr, quota in raised.items():
            cq.node.set_quota(fr, quota)
        try:
            return simulator.alone(workload)
        finally:
            for fr, quota in had.items():
                cq.node.set_quota(fr, quota)

    return _Candidate(size, f"in cluster queue {queue}, {' and '.join(texts)}", tuple(changes), tried)


def _fewer_pods(simulator: Simulator, workload: Workload, short: list[Reason]) -> Iterator[_Candidate]:
    for index, pods in enumerate(workload.pod_sets):
        if pods.count < 2 or pods.name not in {each.pod_set for each in short}:
            continue
        low, high = 0, pods.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if simulator.alone(_with_count(workload, index, middle)).fits:
                low = middle
            else:
                high = middle - 1
        if low:
            fewer = _with_count(workload, index, low)
            name = "" if pods.name == "main" else f"{pods.name} "
            text = f"run {low} {name}pod{'' if low == 1 else 's'} instead of {pods.count}"
            change = Change(pods.path, str(pods.count), str(low))
            size = (pods.count - low) / pods.count
            yield _Candidate(size, text, (change,), partial(simulator.alone, fewer))


def _with_count(workload: Workload, index: int, count: int) -> Workload:
    pods = workload.pod_sets[index]
    return _with(workload, {index: replace(pods, count=count, requests=scaled(pods, count), least=None)})


def _with(workload: Workload, changed: dict[int, PodSet]) -> Workload:
    return replace(workload, pod_sets=tuple(changed.get(index, pods) for index, pods in enumerate(workload.pod_sets)))


def _smaller_pods(simulator: Simulator, workload: Workload, short: list[Reason]) -> Iterator[_Candidate]:
    """Each pod asks for as much as there is for it."""
    changed: dict[int, PodSet] = {}
    texts, changes, size = [], [], 0.0
    for index, pods in enumerate(workload.pod_sets):
        own = [each for each in short if each.pod_set == pods.name]
        requests = dict(pods.requests)
        for each in own:
            had = pods.per_pod.get(each.resource, 0)
            left = had - -(-each.missing // max(1, pods.count))
            if left <= 0:
                return
            requests[each.resource] = left * pods.count
            name = "each pod" if pods.name == "main" else f"each {pods.name} pod"
            resource = each.resource
            texts.append(f"{readable(resource, left)} {resource} in {name} instead of {readable(resource, had)}")
            changes.append(Change(pods.resources_path, quantity(resource, had), quantity(resource, left)))
            size += (had - left) / had
        changed[index] = replace(pods, requests=requests)
    smaller = _with(workload, changed)
    yield _Candidate(size, f"ask for {' and '.join(texts)}", tuple(changes), partial(simulator.alone, smaller))


def _covered(
    simulator: Simulator, workload: Workload, cq: ClusterQueueSnapshot, uncovered: list[Reason]
) -> Iterator[_Candidate]:
    queue, model = cq.spec, simulator.model
    names = sorted({each.resource for each in uncovered})
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
        path = f"{queue_path(model, queue.name)}.resourceGroups[0].coveredResources"
        change = Change(path, ", ".join(sorted(group.covered)), ", ".join(sorted(group.covered | set(names))))
        yield _Candidate(
            _ANOTHER_RESOURCE,
            f"cover {amounts} in cluster queue {queue.name}",
            (change,),
            lambda: simulator.over(_with_queue(model, wider)).alone(workload),
        )
    without = _with(
        workload,
        {
            index: replace(pods, requests={name: n for name, n in pods.requests.items() if name not in totals})
            for index, pods in enumerate(workload.pod_sets)
        },
    )
    changes = tuple(Change(each.path, each.resource, "") for each in uncovered)
    text = f"take {' and '.join(names)} out of the resources"
    yield _Candidate(_ANOTHER_RESOURCE, text, changes, partial(simulator.alone, without))


def _with_queue(model: Model, queue: ClusterQueue) -> Model:
    return replace(model, cluster_queues={**(model.cluster_queues or {}), queue.name: queue})


def _other_nodes(
    simulator: Simulator, workload: Workload, cq: ClusterQueueSnapshot, found: Iterable[Reason]
) -> Iterator[_Candidate]:
    """A run says once for all its pods what they tolerate and select; so all are tried with the change."""
    flavors = simulator.model.flavors or {}
    sets = {pods.name: pods for pods in workload.pod_sets}
    for each in found:
        if each.pod_set not in sets:
            continue
        if each.cause == "taint":
            taints = flavors[each.flavor].taints
            more = tuple(Toleration(one.key, "Equal", one.value, one.effect) for one in taints)
            tolerant = [replace(pods, tolerations=(*pods.tolerations, *more)) for pods in workload.pod_sets]
            said = " and ".join(f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in taints)
            change = Change(f"{workload.path}.tolerations", "", said)
            yield _Candidate(
                _ANOTHER_POD,
                f"tolerate {said}, the taints of flavor {each.flavor}",
                (change,),
                partial(simulator.alone, replace(workload, pod_sets=tuple(tolerant))),
            )
        elif each.cause == "affinity":
            labels = flavors[each.flavor].labels
            keys = next(group.keys for group in cq.group_of.values() if each.flavor in group.names)
            before = sets[each.pod_set].selector
            after = {key: labels.get(key, wanted) for key, wanted in before.items() if key in labels or key not in keys}
            others = [replace(pods, selector=after, affinity=()) for pods in workload.pod_sets]
            said = _selected(after)
            change = Change(f"{workload.path}.nodeSelector", _selected(before), said)
            text = f"select {said}" if said else f"leave {_selected(before)} out of nodeSelector"
            yield _Candidate(
                _ANOTHER_POD,
                f"{text} for flavor {each.flavor}",
                (change,),
                partial(simulator.alone, replace(workload, pod_sets=tuple(others))),
            )


def _selected(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={wanted}" for key, wanted in sorted(labels.items()))


def _opened(simulator: Simulator, workload: Workload, cq: ClusterQueueSnapshot) -> _Candidate:
    model, queue = simulator.model, cq.spec
    opened = _with_queue(model, replace(queue, namespaces=()))
    path = queue_path(model, queue.name, "namespaces")
    return _Candidate(
        _ANOTHER_QUEUE,
        f"add {workload.namespace} to the namespaces of cluster queue {queue.name}",
        (Change(path, "", workload.namespace),),
        lambda: simulator.over(opened).alone(workload),
    )
