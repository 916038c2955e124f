"""Pod sets from pod templates, with requests as Kueue counts them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainstack.kueue.differences import DisputedFeature, KueueRelease
from trainstack.kueue.model import LimitRange, Model, PodSet, Requirement, Toleration
from trainstack.kueue.node_affinity import COMPARISONS
from trainstack.kueue.quantities import WHOLE, from_billionths, resources_to_billionths
from trainstack.kueue.topology_requests import requested_levels, topology_request

Body = Mapping[str, Any]
Billionths = dict[str, int]
"""Amounts by resource, in billionths."""


def pod_set(
    name: str,
    count: int,
    template: Body,
    namespace: str,
    model: Model,
    *,
    min_count: int | None = None,
    path: str = "",
    resources_path: str = "",
) -> PodSet:
    """Return a pod set as Kueue counts it. Source: totalRequestsFromPodSets in Kueue's pkg/workload/workload.go."""
    spec: Body = template["spec"]
    limits = model.limit_ranges.get(namespace, ())
    release = model.release
    pod_amounts, faults = requests_and_faults(
        spec, limits, model.overheads or {}, defaults_pod_level_requests=release.defaults_pod_level_requests
    )
    # The API server copies the overhead of a RuntimeClass into the spec; only a spec without it depends on the class.
    class_name = "" if spec.get("overhead") else spec.get("runtimeClassName") or ""
    default_faults = list(_faults_of_defaults(spec, limits))
    if release.keeps_limit_range_defaults:
        faults, default_faults = (*faults, *(fault for fault, _ in default_faults)), []
    topology = topology_request(template)
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return PodSet(
        name=name,
        count=count,
        requests={
            key: from_billionths(key, number) * count
            for key, number in _transform_requests(pod_amounts, model, release).items()
        },
        min_count=min_count if model.gates.is_enabled("PartialAdmission") else None,
        selector=spec.get("nodeSelector") or {},
        affinity=tuple(requirements(term.get("matchExpressions")) for term in affinity.get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            toleration
            for toleration in tolerations(spec.get("tolerations") or ())
            if release.compares_tolerations or toleration.operator not in COMPARISONS
        ),
        requests_topology=model.gates.is_enabled("TopologyAwareScheduling") and bool(topology),
        levels=requested_levels(topology),
        own_resources=frozenset(pod_amounts),
        group=topology.get("podSetGroupName", ""),
        ambiguous_resources=() if release.adds_outputs else _ambiguous_resources(pod_amounts, model),
        disputed_requests=frozenset(_disputed_requests(spec, pod_amounts, model)),
        resource_claims=tuple(claim["name"] for claim in spec.get("resourceClaims") or ()),
        runtime_class=class_name if model.overheads is None else "",
        faults=faults,
        pod_refusals=tuple(fault for fault, is_own_request in default_faults if is_own_request),
        first_refusals=tuple(fault for fault, is_own_request in default_faults if not is_own_request),
        path=path,
        resources_path=resources_path or path,
    )


def requests_and_faults(
    spec: Body,
    limits: Sequence[LimitRange],
    overheads: Mapping[str, Mapping[str, str]],
    *,
    defaults_pod_level_requests: bool = False,
) -> tuple[Billionths, tuple[str, ...]]:
    """Return the requests of one pod, and why Kueue rejects it whatever the quota.

    A container's own values take precedence over the namespace's defaults, and those over its limits.
    `defaults_pod_level_requests`: whether limits of the whole pod are the default of its requests.

    Source: AdjustResources, ValidateResources and ValidateLimitRange in Kueue's pkg/workload/resources.go; PodRequests
    in k8s.io/component-helpers/resource.
    """
    init_containers, containers = spec.get("initContainers") or (), spec.get("containers") or ()
    container_ranges = [bounds for bounds in limits if bounds.kind == "Container"]
    init_amounts = [_requests_and_limits(container, container_ranges) for container in init_containers]
    main_amounts = [_requests_and_limits(container, container_ranges) for container in containers]
    total = total_amounts(spec, lambda container: _requests_and_limits(container, container_ranges)[0])
    pod_requests, pod_limits = pod_level_amounts(spec)
    for resource, number in ({**pod_limits, **pod_requests} if defaults_pod_level_requests else pod_requests).items():
        total[resource] = number
    total.update(resources_to_billionths(spec.get("overhead") or overheads.get(spec.get("runtimeClassName") or "", {})))
    faults = [
        *_faults("init container", init_containers, init_amounts, container_ranges),
        *_faults("container", containers, main_amounts, container_ranges),
    ]
    if defaults_pod_level_requests:
        faults += [
            f"the pod requests more {resource} than its limit"
            for resource, number in sorted(pod_requests.items())
            if number > pod_limits.get(resource, number)
        ]
    for bounds in limits:
        if bounds.kind == "Pod":
            faults += _range_violations("a pod", total, total, bounds)
    return total, tuple(faults)


def container_requests(spec: Body) -> Billionths:
    """Return what the containers of a pod request together, where a limit is the default of a request."""
    return total_amounts(spec, lambda container: _requests_and_limits(container, ())[0])


def pod_level_amounts(spec: Body) -> tuple[Billionths, Billionths]:
    """Return the requests and limits of a whole pod, without those of its containers."""
    resources = spec.get("resources") or {}
    requests, limits = (
        {
            name: number
            for name, number in resources_to_billionths(resources.get(kind)).items()
            if is_pod_level_resource(name)
        }
        for kind in ("requests", "limits")
    )
    return requests, limits


def is_pod_level_resource(resource: str) -> bool:
    """Whether a resource can be requested for a whole pod. Source: IsSupportedPodLevelResource."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def total_amounts(spec: Body, amounts_of: Callable[[Body], Billionths]) -> Counter[str]:
    """Return what the containers of a pod need together.

    Sidecars are added to all containers that start after them; of the init containers and the sum of the containers the
    maximum counts. Source: AggregateContainerRequests in k8s.io/component-helpers/resource.
    """
    total, sidecars = Counter[str](), Counter[str]()
    for container in spec.get("containers") or ():
        total.update(amounts_of(container))
    init_maximum: Billionths = {}
    for container in spec.get("initContainers") or ():
        amounts = amounts_of(container)
        if container.get("restartPolicy") == "Always":
            total.update(amounts)
            sidecars.update(amounts)
            running = sidecars
        else:
            running = Counter(amounts)
            running.update(sidecars)
        _raise_to(init_maximum, running)
    _raise_to(total, init_maximum)
    return total


def _transform_requests(pod_amounts: Billionths, model: Model, release: KueueRelease) -> Billionths:
    """Source: dropExcludedResources and applyResourceTransformations in Kueue's pkg/workload/workload.go."""
    # In billionths of billionths, so that products are exact.
    total = Counter[str]()
    for name, number in pod_amounts.items():
        if name.startswith(model.excluded_prefixes):
            continue
        transformation = model.transformations.get(name)
        if transformation is not None:
            factor = number if release.multiplies_exactly else -(-number // WHOLE) * WHOLE
            # An input that is counted too replaces an output of the same name.
            is_added = transformation.replaces or release.adds_outputs
            total.update(
                {output: n * factor for output, n in transformation.outputs.items() if is_added or output != name}
            )
        if transformation is None or not transformation.replaces:
            total[name] += number * WHOLE
    return {name: -(-number // WHOLE) for name, number in total.items()}


def _disputed_requests(spec: Body, pod_amounts: Billionths, model: Model) -> Iterator[DisputedFeature]:
    """Yield the features by which some releases count other requests than the model's, or read tolerations."""
    if any(toleration.operator in COMPARISONS for toleration in tolerations(spec.get("tolerations") or ())):
        yield "tolerations"
    pod_requests, pod_limits = pod_level_amounts(spec)
    if pod_limits.keys() - pod_requests.keys() or any(
        number > pod_limits.get(resource, number) for resource, number in pod_requests.items()
    ):
        yield "pod-level resources"
    if model.transformations.keys().isdisjoint(pod_amounts):
        return
    requests = [
        _transform_requests(pod_amounts, model, replace(model.release, multiplies_exactly=exact, adds_outputs=adds))
        for exact, adds in ((False, False), (True, False), (True, True))
    ]
    if requests[0] != requests[1] or requests[1] != requests[2] or _ambiguous_resources(pod_amounts, model):
        yield "transformations"


def _ambiguous_resources(pod_amounts: Billionths, model: Model) -> tuple[str, ...]:
    """Return the requested resources that are also outputs of transformations of others.

    Kueue reads the requests in random order; the request replaces an earlier output. Source:
    applyResourceTransformations in its pkg/workload/workload.go.
    """
    transformations = {
        name: model.transformations.get(name) for name in pod_amounts if not name.startswith(model.excluded_prefixes)
    }
    counted_requests = {
        name
        for name, transformation in transformations.items()
        if transformation is None or not transformation.replaces
    }
    outputs = {
        output
        for name, transformation in transformations.items()
        if transformation is not None
        for output in transformation.outputs
        if output != name
    }
    return tuple(sorted(counted_requests & outputs))


def tolerations(bodies: Iterable[Body]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=body.get("key") or "",
            operator=body.get("operator") or "Equal",
            value=body.get("value") or "",
            effect=body.get("effect") or "",
        )
        for body in bodies
    )


def label_selector(body: Body) -> tuple[Requirement, ...]:
    """Return a label selector."""
    labels = (Requirement(key, "In", (value,)) for key, value in (body.get("matchLabels") or {}).items())
    return (*labels, *requirements(body.get("matchExpressions")))


def requirements(bodies: Iterable[Body] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(body["key"], body["operator"], tuple(str(value) for value in body.get("values") or ()))
        for body in bodies or ()
    )


def _requests_and_limits(container: Body, limits: Sequence[LimitRange]) -> tuple[Billionths, Billionths]:
    """Return a container's requests and limits, with the namespace's defaults."""
    resources = container.get("resources") or {}
    own_limits, own_requests = (
        resources_to_billionths(resources.get("limits")),
        resources_to_billionths(resources.get("requests")),
    )
    for bounds in limits:
        own_limits = {**bounds.default_limits, **own_limits}
        own_requests = {**bounds.default_requests, **own_requests}
    return {**own_limits, **own_requests}, own_limits


def _faults(
    kind: str,
    containers: Sequence[Body],
    container_amounts: Sequence[tuple[Billionths, Billionths]],
    limits: Sequence[LimitRange],
) -> Iterator[str]:
    for container, (own_requests, own_limits) in zip(containers, container_amounts, strict=True):
        name = _container_name(kind, container)
        resources = container.get("resources") or {}
        for resource in sorted(own_requests):
            is_written = resource in (resources.get("requests") or {}) and resource in (resources.get("limits") or {})
            if is_written and own_requests[resource] > own_limits[resource]:
                yield f"{name} requests more {resource} than its limit"
        highest = {resource: max(number, own_limits.get(resource, 0)) for resource, number in own_requests.items()}
        lowest = {resource: min(number, own_limits.get(resource, number)) for resource, number in own_requests.items()}
        for bounds in limits:
            yield from _range_violations(name, lowest, highest, bounds)


def _faults_of_defaults(spec: Body, limits: Sequence[LimitRange]) -> Iterator[tuple[str, bool]]:
    """Yield where a LimitRange's default contradicts the pod, and whether the request is the pod's own."""
    container_ranges = [bounds for bounds in limits if bounds.kind == "Container"]
    for kind, containers in (("init container", spec.get("initContainers")), ("container", spec.get("containers"))):
        for container in containers or ():
            written_requests = (container.get("resources") or {}).get("requests") or {}
            own_requests, own_limits = _requests_and_limits(container, container_ranges)
            for resource in sorted(own_requests.keys() & own_limits.keys()):
                if own_requests[resource] <= own_limits[resource]:
                    continue
                name, written_limits = (
                    _container_name(kind, container),
                    (container.get("resources") or {}).get("limits") or {},
                )
                if resource in written_requests and resource not in written_limits:
                    yield f"{name} requests more {resource} than the default limit of the namespace's LimitRange", True
                elif resource not in written_requests:
                    yield f"{name} has a limit of {resource} below the default request of the LimitRange", False


def _container_name(kind: str, container: Body) -> str:
    return f"{kind} {container.get('name', '')}".strip()


def _range_violations(name: str, lowest: Billionths, highest: Billionths, bounds: LimitRange) -> Iterator[str]:
    for resource in sorted(highest):
        if highest[resource] > bounds.maximum.get(resource, highest[resource]):
            yield f"{name} has more {resource} than the namespace's LimitRange allows"
    for resource in sorted(lowest):
        if lowest[resource] < bounds.minimum.get(resource, 0):
            yield f"{name} has less {resource} than the namespace's LimitRange allows"


def _raise_to(total: Billionths, minimum: Mapping[str, int]) -> None:
    for resource, number in minimum.items():
        total[resource] = max(total.get(resource, number), number)
