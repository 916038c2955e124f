"""What would make a run fit: changes of the environment or of the run, each tried before it is told."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from trainstack.kueue.cohort_paths import queue_path, quota_path
from trainstack.kueue.flavor_assigner import scaled
from trainstack.kueue.model import ClusterQueue, FlavorResource, Group, Model, PodSet, Quota, Toleration, Workload
from trainstack.kueue.quantities import quantity, readable
from trainstack.kueue.snapshot import Pool, State
from trainstack.kueue.verdict import Change, Lack, Remedy, Verdict

MOST = 3
"""Remedies that are told of one run."""
_ANOTHER_QUEUE, _ANOTHER_POD, _ANOTHER_RESOURCE = 0.0, 0.5, 1.0
"""How large changes are that are none of a number."""


class Judging(Protocol):
    """What tries a change."""

    model: Model
    idle: State

    def alone(self, workload: Workload) -> Verdict:
        """The verdict on an idle cluster, without remedies."""

    def over(self, model: Model) -> "Judging":
        """The same over another model."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    size: float
    """How large the change is: of a number, in parts of what the workload asks for."""
    text: str
    changes: tuple[Change, ...]
    tried: Callable[[], Verdict]


def remedies(judge: Judging, workload: Workload, verdict: Verdict) -> tuple[Remedy, ...]:
    """The smallest changes that help, at most three."""
    # Pods of several roles may lack the same; it is one change.
    different = {each.text: each for each in _candidates(judge, workload, verdict)}
    candidates = sorted(different.values(), key=lambda each: (each.size, each.text))
    return tuple(islice(_that_help(candidates), MOST))


def _that_help(candidates: Iterable[_Candidate]) -> Iterator[Remedy]:
    for each in candidates:
        outcome = each.tried().outcome
        if outcome in ("fits", "fits by borrowing"):
            yield Remedy(each.text, each.changes, outcome)


def _candidates(judge: Judging, workload: Workload, verdict: Verdict) -> Iterator[_Candidate]:
    yield from _other_queues(judge, workload)
    pool = judge.idle.pools.get(verdict.cluster_queue)
    if pool is None:
        return
    short = [each for each in verdict.lacks if each.cause == "quota" and each.resource]
    if short:
        yield from _more_quota(judge, workload, pool, short)
        yield from _fewer_pods(judge, workload, short)
        yield from _smaller_pods(judge, workload, short)
    uncovered = [each for each in verdict.lacks if each.cause == "uncovered"]
    if uncovered:
        yield from _covered(judge, workload, pool, uncovered)
    if any(each.cause in ("taint", "affinity") for each in verdict.lacks):
        yield from _other_nodes(judge, workload, pool, verdict.lacks)
    if any(each.cause == "queue-closed" for each in verdict.lacks):
        yield _opened(judge, workload, pool)


def _other_queues(judge: Judging, workload: Workload) -> Iterator[_Candidate]:
    shrinks = any(pods.least is not None for pods in workload.pod_sets)
    for (namespace, name), local in (judge.model.local_queues or {}).items():
        pool = judge.idle.pools.get(local.cluster_queue)
        if namespace != workload.namespace or name == workload.queue or pool is None:
            continue
        if shrinks or pool.may_hold(workload):
            other = replace(workload, queue=name)
            change = Change(f"{workload.path}.queue", workload.queue, name)
            yield _Candidate(_ANOTHER_QUEUE, f"use queue {name}", (change,), partial(judge.alone, other))


def _more_quota(judge: Judging, workload: Workload, pool: Pool, short: list[Lack]) -> Iterator[_Candidate]:
    wanted: dict[FlavorResource, int] = {}
    for each in short:
        what = (each.flavor, each.resource)
        wanted[what] = max(wanted.get(what, 0), each.missing)
    had = {what: pool.node.quota(what) for what in wanted}
    raised = {what: replace(had[what], nominal=had[what].nominal + more) for what, more in wanted.items()}
    yield _requoted(judge, workload, pool, "nominalQuota", had, raised)
    limits = {what: each.borrowing_limit for what, each in had.items()}
    if all(limit is not None for limit in limits.values()):
        raised = {
            what: replace(had[what], borrowing_limit=(had[what].borrowing_limit or 0) + more)
            for what, more in wanted.items()
        }
        yield _requoted(judge, workload, pool, "borrowingLimit", had, raised)


def _requoted(
    judge: Judging,
    workload: Workload,
    pool: Pool,
    key: str,
    had: dict[FlavorResource, Quota],
    raised: dict[FlavorResource, Quota],
) -> _Candidate:
    queue = pool.said.name
    texts, changes, size = [], [], 0.0
    for (flavor, resource), quota in raised.items():
        before, after = (
            each.nominal if key == "nominalQuota" else each.borrowing_limit or 0
            for each in (had[flavor, resource], quota)
        )
        texts.append(
            f"raise {key} of {resource} on {flavor} from {readable(resource, before)} to {readable(resource, after)}"
        )
        path = quota_path(judge.model, queue, flavor, resource, key)
        changes.append(Change(path, quantity(resource, before), quantity(resource, after)))
        size += (after - before) / max(1, sum(pods.requests.get(resource, 0) for pods in workload.pod_sets))

    def tried() -> Verdict:
        for what, quota in raised.items():
            pool.node.requote(what, quota)
        try:
            return judge.alone(workload)
        finally:
            for what, quota in had.items():
                pool.node.requote(what, quota)

    return _Candidate(size, f"in cluster queue {queue}, {' and '.join(texts)}", tuple(changes), tried)


def _fewer_pods(judge: Judging, workload: Workload, short: list[Lack]) -> Iterator[_Candidate]:
    for index, pods in enumerate(workload.pod_sets):
        if pods.count < 2 or pods.name not in {each.pod_set for each in short}:
            continue
        low, high = 0, pods.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if judge.alone(_with_count(workload, index, middle)).fits:
                low = middle
            else:
                high = middle - 1
        if low:
            fewer = _with_count(workload, index, low)
            name = "" if pods.name == "main" else f"{pods.name} "
            text = f"run {low} {name}pod{'' if low == 1 else 's'} instead of {pods.count}"
            change = Change(pods.path, str(pods.count), str(low))
            size = (pods.count - low) / pods.count
            yield _Candidate(size, text, (change,), partial(judge.alone, fewer))


def _with_count(workload: Workload, index: int, count: int) -> Workload:
    pods = workload.pod_sets[index]
    return _with(workload, {index: replace(pods, count=count, requests=scaled(pods, count), least=None)})


def _with(workload: Workload, changed: dict[int, PodSet]) -> Workload:
    return replace(workload, pod_sets=tuple(changed.get(index, pods) for index, pods in enumerate(workload.pod_sets)))


def _smaller_pods(judge: Judging, workload: Workload, short: list[Lack]) -> Iterator[_Candidate]:
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
    yield _Candidate(size, f"ask for {' and '.join(texts)}", tuple(changes), partial(judge.alone, smaller))


def _covered(judge: Judging, workload: Workload, pool: Pool, uncovered: list[Lack]) -> Iterator[_Candidate]:
    queue, model = pool.said, judge.model
    names = sorted({each.resource for each in uncovered})
    totals = {name: sum(pods.requests.get(name, 0) for pods in workload.pod_sets) for name in names}
    if queue.groups:
        group = queue.groups[0]
        quotas = {(flavor, name): Quota(total) for flavor in group.flavors for name, total in totals.items()}
        wider = replace(
            queue,
            groups=(Group(group.covered | set(names), group.flavors), *queue.groups[1:]),
            quotas={**queue.quotas, **quotas},
        )
        amounts = " and ".join(f"{name} (at least {readable(name, total)})" for name, total in totals.items())
        path = f"{queue_path(model, queue.name)}.resourceGroups[0].coveredResources"
        change = Change(path, ", ".join(sorted(group.covered)), ", ".join(sorted(group.covered | set(names))))
        yield _Candidate(
            _ANOTHER_RESOURCE,
            f"cover {amounts} in cluster queue {queue.name}",
            (change,),
            lambda: judge.over(_with_queue(model, wider)).alone(workload),
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
    yield _Candidate(_ANOTHER_RESOURCE, text, changes, partial(judge.alone, without))


def _with_queue(model: Model, queue: ClusterQueue) -> Model:
    return replace(model, cluster_queues={**(model.cluster_queues or {}), queue.name: queue})


def _other_nodes(judge: Judging, workload: Workload, pool: Pool, found: Iterable[Lack]) -> Iterator[_Candidate]:
    """A run says once for all its pods what they tolerate and select; so all are tried with the change."""
    flavors = judge.model.flavors or {}
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
                partial(judge.alone, replace(workload, pod_sets=tuple(tolerant))),
            )
        elif each.cause == "affinity":
            labels = flavors[each.flavor].labels
            keys = next(group.keys for group in pool.group_of.values() if each.flavor in group.names)
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
                partial(judge.alone, replace(workload, pod_sets=tuple(others))),
            )


def _selected(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={wanted}" for key, wanted in sorted(labels.items()))


def _opened(judge: Judging, workload: Workload, pool: Pool) -> _Candidate:
    model, queue = judge.model, pool.said
    opened = _with_queue(model, replace(queue, namespaces=()))
    path = queue_path(model, queue.name, "namespaces")
    return _Candidate(
        _ANOTHER_QUEUE,
        f"add {workload.namespace} to the namespaces of cluster queue {queue.name}",
        (Change(path, "", workload.namespace),),
        lambda: judge.over(opened).alone(workload),
    )
