"""Pods as the API server creates them, with its defaults and those of LimitRanges, and the pods that it refuses.

Source: SetDefaults_Pod in pkg/apis/core/v1 and plugin/pkg/admission/limitranger of k8s.io/kubernetes v1.34.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from trainstack.kueue.model import LimitRange
from trainstack.kueue.pod_requests import Billionths, container_requests, pod_level_amounts, total_amounts
from trainstack.kueue.quantities import resources_to_billionths

Body = Mapping[str, Any]


def requests_at_creation(spec: Body, limits: Sequence[LimitRange]) -> Billionths:
    """Return the requests of a pod without its overhead. `limits`: of its namespace."""
    total = total_amounts(spec, lambda container: container_amounts_at_creation(container, limits)[0])
    return {**total, **whole_pod_amounts(spec)[0]}


def amounts_at_creation(spec: Body, limits: Sequence[LimitRange]) -> tuple[Billionths, Billionths]:
    """Return the requests and limits of a pod without its overhead. `limits`: of its namespace."""
    total_limits = total_amounts(spec, lambda container: container_amounts_at_creation(container, limits)[1])
    return requests_at_creation(spec, limits), {**total_limits, **whole_pod_amounts(spec)[1]}


def refusals(spec: Body, limits: Sequence[LimitRange]) -> Iterator[str]:
    """Yield why LimitRanges of the namespace refuse a pod; Kueue compares only a part of it."""
    for bounds in limits:
        if bounds.kind == "Container":
            for container_kind, field in (("init container", "initContainers"), ("container", "containers")):
                for container in spec.get(field) or ():
                    yield from _violations(
                        f"{container_kind} {container['name']}",
                        *container_amounts_at_creation(container, limits),
                        bounds,
                    )
        elif bounds.kind == "Pod":
            yield from _violations("a pod", *amounts_at_creation(spec, limits), bounds)


def container_amounts_at_creation(container: Body, limits: Sequence[LimitRange]) -> tuple[Billionths, Billionths]:
    """Return a container's requests and limits. Its limit is the default of its request, before a LimitRange's."""
    resources = container.get("resources") or {}
    own_limits = resources_to_billionths(resources.get("limits"))
    own_requests = {**own_limits, **resources_to_billionths(resources.get("requests"))}
    for bounds in limits:
        if bounds.kind == "Container":
            own_limits = {**bounds.default_limits, **own_limits}
            own_requests = {**bounds.default_requests, **own_requests}
    return own_requests, own_limits


def whole_pod_amounts(spec: Body) -> tuple[Billionths, Billionths]:
    """Return the requests and limits of the whole pod. With a limit, requests have defaults."""
    requests, limits = pod_level_amounts(spec)
    if limits:
        container_amounts = {
            name: number for name, number in container_requests(spec).items() if name in ("cpu", "memory")
        }
        requests = {**limits, **container_amounts, **requests}
    return requests, limits


def _violations(name: str, requests: Billionths, limits: Billionths, bounds: LimitRange) -> Iterator[str]:
    """Yield the bounds that the amounts violate.

    Source: minConstraint, maxConstraint and limitRequestRatioConstraint.
    """
    for resource, minimum in sorted(bounds.minimum.items()):
        if resource not in requests:
            yield f"{name} requests no {resource}, of which the namespace's LimitRange has a minimum"
        elif min(requests[resource], limits.get(resource, requests[resource])) < minimum:
            yield f"{name} has less {resource} than the namespace's LimitRange allows"
    for resource, maximum in sorted(bounds.maximum.items()):
        if resource not in limits:
            yield f"{name} has no limit of {resource}, of which the namespace's LimitRange has a maximum"
        elif max(limits[resource], requests.get(resource, 0)) > maximum:
            yield f"{name} has more {resource} than the namespace's LimitRange allows"
    for resource, ratio in sorted(bounds.ratios.items()):
        if not requests.get(resource) or not limits.get(resource):
            missing_amount = "limit of" if requests.get(resource) else "request of"
            yield f"{name} has no {missing_amount} {resource}, whose ratio the namespace's LimitRange bounds"
        elif (factor := Fraction(limits[resource], requests[resource])) > ratio:
            yield (
                f"{name} has a limit of {resource} of {float(factor):g} times its request, and the namespace's "
                f"LimitRange allows {float(ratio):g} times"
            )
