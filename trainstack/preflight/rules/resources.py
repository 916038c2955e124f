"""Rules about amounts of resources that the API server refuses, or whose unit is probably wrong.

Source: ValidateContainerResourceRequirements in k8s.io/kubernetes/pkg/apis/core/validation.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from trainstack.preflight.examples import hello
from trainstack.preflight.operator_facts import installs_with_paths
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.settings.sections.workloads import Resources
from trainstack.settings.values.kubernetes import HUGE_PAGES, is_extended_resource
from trainstack.settings.values.paths import child_path
from trainstack.settings.values.quantities import amount, format_amount

_BYTE_RESOURCES = ("memory", "ephemeral-storage", "storage")
_MIN_BYTES = 2**20
"""Smallest plausible amount (1Mi). A smaller one lacks its unit, or has `m` instead of `Mi`."""
_MAX_CORES = 1024
"""Largest plausible number of cores of a container; no node has more."""


@Rule(
    id="resources-refused",
    summary="The API server would refuse the requests and limits of a container.",
    details=(
        "A request exceeds its limit; a device or huge pages are fractional, or lack an equal limit; or huge pages "
        "lack cpu and memory."
    ),
    change=hello("resources: {requests: {cpu: 500m}, limits: {cpu: 250m}}"),
    remedy="Lower the request or raise the limit. Request whole devices, with equal requests and limits.",
    silenceable=False,
)
def resources_refused(context: RuleContext) -> Iterator[Violation]:
    for path, resources in _container_resources(context, of_manifests=False):
        yield from resource_faults(path, resources.requests, resources.limits)


def resource_faults(path: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[Violation]:
    """Yield violations for requests and limits of a container or a whole pod that the API server would refuse."""
    for name, quantity in requests.items():
        fault = _limit_fault(name, quantity, limits.get(name))
        if fault is not None:
            yield Violation(child_path(f"{path}.requests", name), *fault)
    names = {*requests, *limits}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        message = "huge pages require a request of cpu or memory"
        yield Violation(path, message, "add requests of cpu and memory")
    for amount_path, name, quantity in _requests_and_limits(path, requests, limits):
        if is_extended_resource(name) and amount(quantity).denominator != 1:
            yield _fractional_violation(amount_path, name, quantity)
        page_size = name.removeprefix(HUGE_PAGES)
        if page_size != name and amount(quantity) % amount(page_size) != 0:
            message = f"{quantity} of {name} is not a multiple of {page_size}"
            yield Violation(amount_path, message, f"write a multiple of {page_size}")


@Rule(
    id="scratch-over-limit",
    severity="warning",
    summary="The scratch volumes of a run are larger than the container's limit of the resource that they use.",
    details="The kubelet evicts the pod, or the kernel kills the program, before they are full.",
    change=hello("scratch: [{name: cache, mountPath: /cache, size: 4Gi, medium: Memory}]"),
    remedy="Lower `size`, or raise the limit of `memory` (for `medium: Memory`) or `ephemeral-storage`.",
)
def scratch_over_limit(context: RuleContext) -> Iterator[Violation]:
    for _, _, pods in context.pod_sets():
        scratch = pods.settings.scratch
        volumes = [volume for volume in scratch if volume.storage_class is None and volume.size is not None]
        for medium, resource in (("Memory", "memory"), (None, "ephemeral-storage")):
            total = sum(amount(volume.size or "0") for volume in volumes if volume.medium == medium)
            limit = pods.resources.limits.get(resource)
            if limit is not None and total > amount(limit):
                message = (
                    f"scratch volumes of {format_amount(Fraction(total))} exceed the limit of {limit} of {resource}"
                )
                yield Violation(pods.setting_path("scratch"), message)


@Rule(
    id="amount-odd",
    severity="warning",
    summary="An amount probably lacks its unit, or has the wrong one.",
    details=(
        "Memory or storage is below 1Mi, a container has more cores than a node, or a quota of devices is fractional."
    ),
    change=hello("sharedMemory: 256"),
    remedy="Add the unit: `512Mi` for memory, `10Gi` for storage, `500m` for half a core.",
)
def amount_odd(context: RuleContext) -> Iterator[Violation]:
    for path, name, quantity in _amounts(context):
        exact = amount(quantity)
        if name in _BYTE_RESOURCES and 0 < exact < _MIN_BYTES:
            message = f"{quantity} of {name} is less than 1Mi (without a unit, an amount is in bytes; m is thousandths)"
            yield Violation(path, message, "add a unit, such as 512Mi or 10Gi")
        elif is_extended_resource(name) and exact.denominator != 1:
            yield _fractional_violation(path, name, quantity)
    for path, resources in _container_resources(context):
        for amount_path, name, quantity in _requests_and_limits(path, resources.requests, resources.limits):
            if name == "cpu" and amount(quantity) > _MAX_CORES:
                message = f"{quantity} of cpu is more cores than a node has"
                yield Violation(amount_path, message, "use m for thousandths of a core, such as 500m")


def _fractional_violation(path: str, name: str, quantity: str) -> Violation:
    return Violation(path, f"{quantity} of {name} is not a whole number of devices", "write a whole number")


def _limit_fault(name: str, request: str, limit: str | None) -> tuple[str, str] | None:
    """Return the message and the remedy if the API server would refuse a request; None if it accepts the request."""
    requires_equal_limit = is_extended_resource(name) or name.startswith(HUGE_PAGES)
    if requires_equal_limit and limit is None:
        return f"{name} is requested without a limit, which must be equal to the request", f"add {name} to the limits"
    if limit is not None and amount(request) > amount(limit):
        return f"{request} of {name} is more than the limit of {limit}", "lower the request, or raise the limit"
    if requires_equal_limit and limit is not None and amount(request) != amount(limit):
        return f"{request} of {name} is not equal to the limit of {limit}", "use the same amount in both"
    return None


def _container_resources(context: RuleContext, *, of_manifests: bool = True) -> Iterator[tuple[str, Resources]]:
    """Yield the path and the resources of each pod set, and those of the data loader.

    `of_manifests`: also those of manifests, all of whose containers `pod-resources-refused` checks.
    """
    for _, run, pods in context.pod_sets():
        if of_manifests or run.manifest is None:
            yield pods.resources_path, pods.resources
    yield "cluster.loader.resources", context.settings.cluster.loader.resources


def _requests_and_limits(
    path: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the resource and the amount of each request and limit."""
    for kind, amounts in (("requests", requests), ("limits", limits)):
        for name, quantity in amounts.items():
            yield child_path(f"{path}.{kind}", name), name, quantity


def _amounts(context: RuleContext) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the resource and the amount of all settings, except devices of containers, which
    `resources-refused` checks."""
    for path, resources in _container_resources(context):
        yield from (
            container_amount
            for container_amount in _requests_and_limits(path, resources.requests, resources.limits)
            if not is_extended_resource(container_amount[1])
        )
    for path, _, pods in context.pods_by_setting("shared_memory"):
        if pods.settings.shared_memory is not None:
            yield path, "memory", pods.settings.shared_memory
    for path, _, pods in context.pods_by_setting("scratch"):
        yield from (
            (f"{scratch_path}.size", "storage", volume.size)
            for scratch_path, volume in with_paths(path, pods.settings.scratch)
            if volume.size is not None
        )
    for path, static in with_paths("storage.persistentVolumes", context.settings.storage.persistent_volumes):
        yield f"{path}.size", "storage", static.size
    for path, claim in context.volumes():
        yield f"{path}.size", "storage", claim.size
    for path, install in installs_with_paths(context.settings):
        if install.requests.memory is not None:
            yield f"{path}.requests.memory", "memory", install.requests.memory
    for path, _, _, quota in context.quotas():
        yield f"{path}.nominalQuota", quota.name, quota.nominal_quota
