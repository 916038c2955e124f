"""Pod sets from pod templates: what all pods of one request together, and where they may stand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainstack.kueue.model import LimitRange, Model, PodSet, Requirement, Toleration
from trainstack.kueue.quantities import WHOLE, counted, exactly

Body = Mapping[str, Any]
Exact = dict[str, int]
"""By resource, in billionths of its unit."""
_TOPOLOGY = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-size",
)
_OF_PODS = ("cpu", "memory")
"""What a pod may request as a whole, beside huge pages."""


def pod_set(
    name: str,
    count: int,
    template: Body,
    namespace: str,
    model: Model,
    *,
    least: int | None = None,
    path: str = "",
    resources_path: str = "",
) -> PodSet:
    """A pod set as Kueue counts it.

    Args:
        name: as Kueue calls it.
        count: its pods at once.
        template: their template, with `metadata` and `spec`.
        namespace: theirs; its limit ranges say what containers have that say nothing.
        model: limit ranges and overheads.
        least: the fewest pods that will do.
        path: the setting that says the pods.
        resources_path: the setting that says what they request.

    Source: totalRequestsFromPodSets in Kueue's pkg/workload/workload.go.

    """
    spec: Body = template["spec"]
    asked, faults = requests(spec, model.limit_ranges.get(namespace, ()), model.overheads)
    each = _as_counted(asked, model)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return PodSet(
        name=name,
        count=count,
        requests={resource: counted(resource, number) * count for resource, number in each.items()},
        least=least,
        selector=spec.get("nodeSelector") or {},
        affinity=_affinity(spec),
        tolerations=tolerations(spec.get("tolerations") or ()),
        topology=any(key in annotations for key in _TOPOLOGY),
        faults=faults,
        path=path,
        resources_path=resources_path or path,
    )


def requests(
    spec: Body, limits: Sequence[LimitRange], overheads: Mapping[str, Mapping[str, str]]
) -> tuple[Exact, tuple[str, ...]]:
    """What one pod requests, and why Kueue would refuse it whatever quota there is.

    A container's own figures come first, then the namespace's defaults, then its limits. Sidecars run beside
    everything after them; of the other init containers, and of all of them against the containers, the largest counts.

    Source: AdjustResources, ValidateResources and ValidateLimitRange in Kueue's pkg/workload/resources.go; PodRequests
    in k8s.io/component-helpers/resource.
    """
    first = [_completed(each, limits) for each in spec.get("initContainers") or ()]
    others = [_completed(each, limits) for each in spec.get("containers") or ()]
    total: Exact = {}
    for wants, _ in others:
        _add(total, wants)
    beside: Exact = {}
    highest: Exact = {}
    for container, (wants, _) in zip(spec.get("initContainers") or (), first, strict=True):
        if container.get("restartPolicy") == "Always":
            _add(total, wants)
            _add(beside, wants)
            at_once = beside
        else:
            at_once = dict(wants)
            _add(at_once, beside)
        _raise(highest, at_once)
    _raise(total, highest)
    for resource, number in exactly((spec.get("resources") or {}).get("requests")).items():
        if resource in _OF_PODS or resource.startswith("hugepages-"):
            total[resource] = number
    _add(total, exactly(spec.get("overhead") or overheads.get(spec.get("runtimeClassName") or "", {})))
    return total, (*_faults("init container", spec.get("initContainers") or (), first, limits),
                   *_faults("container", spec.get("containers") or (), others, limits),
                   *_pod_faults(total, limits))  # fmt: skip


def _as_counted(asked: Exact, model: Model) -> Exact:
    """Without what Kueue is told to pass over, and with what it is told to count instead or besides.

    Source: dropExcludedResources and applyResourceTransformations in Kueue's pkg/workload/workload.go.
    """
    kept = {name: number for name, number in asked.items() if not name.startswith(model.excluded)}
    total: Exact = {}
    for name, number in kept.items():
        change = model.transformations.get(name)
        if change is not None:
            _add(total, {other: each * -(-number // WHOLE) for other, each in change.outputs.items()})
        if change is None or not change.replaces:
            _add(total, {name: number})
    return total


def tolerations(bodies: Iterable[Body]) -> tuple[Toleration, ...]:
    """As the API writes them."""
    return tuple(
        Toleration(
            key=each.get("key") or "",
            operator=each.get("operator") or "Equal",
            value=each.get("value") or "",
            effect=each.get("effect") or "",
        )
        for each in bodies
    )


def requirements(bodies: Iterable[Body] | None) -> tuple[Requirement, ...]:
    """As the API writes expressions."""
    return tuple(
        Requirement(each["key"], each["operator"], tuple(str(value) for value in each.get("values") or ()))
        for each in bodies or ()
    )


def _affinity(spec: Body) -> tuple[tuple[Requirement, ...], ...]:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(requirements(term.get("matchExpressions")) for term in required.get("nodeSelectorTerms") or ())


def _completed(container: Body, limits: Sequence[LimitRange]) -> tuple[Exact, Exact]:
    """A container's requests and limits, with what is given to it where it says nothing."""
    said = container.get("resources") or {}
    most, wants = exactly(said.get("limits")), exactly(said.get("requests"))
    for each in limits:
        if each.kind == "Container":
            most = {**each.default_limits, **most}
            wants = {**each.default_requests, **wants}
    return {**most, **wants}, most


def _faults(
    what: str, containers: Sequence[Body], completed: Sequence[tuple[Exact, Exact]], limits: Sequence[LimitRange]
) -> tuple[str, ...]:
    found = []
    for container, (wants, most) in zip(containers, completed, strict=True):
        named = f"{what} {container.get('name', '')}".strip()
        found += [
            f"{named} requests more {resource} than its limit allows"
            for resource in sorted(wants)
            if resource in most and wants[resource] > most[resource]
        ]
        highest = {resource: max(number, most.get(resource, 0)) for resource, number in wants.items()}
        lowest = {resource: min(number, most.get(resource, number)) for resource, number in wants.items()}
        for each in limits:
            if each.kind == "Container":
                found += _outside(named, lowest, highest, each)
    return tuple(found)


def _pod_faults(total: Exact, limits: Sequence[LimitRange]) -> tuple[str, ...]:
    return tuple(fault for each in limits if each.kind == "Pod" for fault in _outside("a pod", total, total, each))


def _outside(named: str, lowest: Exact, highest: Exact, limits: LimitRange) -> list[str]:
    words = "the namespace's LimitRange allows"
    more = [each for each in sorted(highest) if highest[each] > limits.most.get(each, highest[each])]
    less = [each for each in sorted(lowest) if lowest[each] < limits.least.get(each, 0)]
    return [
        *(f"{named} has more {resource} than {words}" for resource in more),
        *(f"{named} has less {resource} than {words}" for resource in less),
    ]


def _add(total: Exact, more: Mapping[str, int]) -> None:
    for resource, number in more.items():
        total[resource] = total.get(resource, 0) + number


def _raise(total: Exact, least: Mapping[str, int]) -> None:
    for resource, number in least.items():
        total[resource] = max(total.get(resource, number), number)
