"""Pods as the API server creates them, with its defaults and those of LimitRanges, and the pods that it refuses.

Source: SetDefaults_Pod in pkg/apis/core/v1 and plugin/pkg/admission/limitranger of k8s.io/kubernetes v1.34.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from trainstack.kueue.model import LimitRange
from trainstack.kueue.pod_requests import Exact, amounts_together, container_requests, is_of_whole_pods
from trainstack.kueue.quantities import exactly

Body = Mapping[str, Any]


def created_requests(spec: Body, limits: Sequence[LimitRange]) -> Exact:
    """Return the requests of a pod without its overhead. `limits`: of its namespace."""
    total = amounts_together(spec, lambda container: _created(container, limits)[0])
    return {**total, **_of_whole_pod(spec)[0]}


def refusals(spec: Body, limits: Sequence[LimitRange]) -> Iterator[str]:
    """Yield why LimitRanges of the namespace refuse a pod; Kueue compares only a part of it."""
    for bounds in limits:
        if bounds.kind == "Container":
            for kind, field in (("init container", "initContainers"), ("container", "containers")):
                for container in spec.get(field) or ():
                    yield from _outside(f"{kind} {container['name']}", *_created(container, limits), bounds)
        else:
            most = amounts_together(spec, lambda container: _created(container, limits)[1])
            yield from _outside("a pod", created_requests(spec, limits), {**most, **_of_whole_pod(spec)[1]}, bounds)


def _created(container: Body, limits: Sequence[LimitRange]) -> tuple[Exact, Exact]:
    """Return a container's requests and limits. Its own limit is a request before the default of a LimitRange is."""
    resources = container.get("resources") or {}
    most = exactly(resources.get("limits"))
    requested = {**most, **exactly(resources.get("requests"))}
    for bounds in limits:
        if bounds.kind == "Container":
            most = {**bounds.default_limits, **most}
            requested = {**bounds.default_requests, **requested}
    return requested, most


def _of_whole_pod(spec: Body) -> tuple[Exact, Exact]:
    """Return the requests and limits of the whole pod. With a limit, requests have defaults."""
    own = spec.get("resources") or {}
    requested, most = (
        {name: number for name, number in exactly(own.get(kind)).items() if is_of_whole_pods(name)}
        for kind in ("requests", "limits")
    )
    if most:
        of_containers = {name: number for name, number in container_requests(spec).items() if name in ("cpu", "memory")}
        requested = {**most, **of_containers, **requested}
    return requested, most


def _outside(name: str, requested: Exact, most: Exact, bounds: LimitRange) -> Iterator[str]:
    """Source: minConstraint, maxConstraint and limitRequestRatioConstraint."""
    for resource, least in sorted(bounds.minimum.items()):
        if resource not in requested:
            yield f"{name} requests no {resource}, of which the namespace's LimitRange has a minimum"
        elif min(requested[resource], most.get(resource, requested[resource])) < least:
            yield f"{name} has less {resource} than the namespace's LimitRange allows"
    for resource, highest in sorted(bounds.maximum.items()):
        if resource not in most:
            yield f"{name} has no limit of {resource}, of which the namespace's LimitRange has a maximum"
        elif max(most[resource], requested.get(resource, 0)) > highest:
            yield f"{name} has more {resource} than the namespace's LimitRange allows"
    for resource, ratio in sorted(bounds.ratios.items()):
        if not requested.get(resource) or not most.get(resource):
            lacks = "limit of" if requested.get(resource) else "request of"
            yield f"{name} has no {lacks} {resource}, whose ratio the namespace's LimitRange bounds"
        elif (times := Fraction(most[resource], requested[resource])) > ratio:
            yield (
                f"{name} has a limit of {resource} of {float(times):g} times its request, and the namespace's "
                f"LimitRange allows {float(ratio):g} times"
            )
