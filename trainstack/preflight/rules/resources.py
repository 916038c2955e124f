"""Amounts of resources: those that the API server refuses, and those with an apparent mistake in the unit.

Source: ValidateContainerResourceRequirements in k8s.io/kubernetes/pkg/apis/core/validation.
"""

from collections.abc import Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each, quotas
from trainstack.preflight.rules.operators import SETTING_OF_INSTALL
from trainstack.runs.status.run_pods import pod_sets
from trainstack.settings.sections.workloads import Resources
from trainstack.settings.values.kubernetes import HUGE_PAGES, is_extended
from trainstack.settings.values.paths import child
from trainstack.settings.values.quantities import amount

_OF_BYTES = ("memory", "ephemeral-storage", "storage")
_LEAST_BYTES = 2**20
"""No program, volume or quota needs less than 1Mi: a smaller amount lacks its unit, or has `m` for `Mi`."""
_MOST_CORES = 1024
"""More than a node has."""


@Rule(
    id="resources-refused",
    severity="error",
    summary="The requests and limits of a container contradict each other.",
    details=(
        "A request exceeds its limit; a device (`nvidia.com/gpu`) or huge pages have a request without an equal "
        "limit, or a fractional amount; or huge pages have no cpu or memory with them. The API server refuses the "
        "pods."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, resources: {requests: {cpu: 500m}, limits: {cpu: 250m}}}
    """,
    remedy="Lower the request or raise the limit. Request whole devices, with equal requests and limits.",
    silenceable=False,
)
def resources_refused(scene: Scene) -> Iterator[Violation]:
    for path, resources in _resources(scene):
        for name, quantity in resources.requests.items():
            fault = _against_limit(name, quantity, resources.limits.get(name))
            if fault is not None:
                yield Violation(child(f"{path}.requests", name), *fault)
        names = {*resources.requests, *resources.limits}
        if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
            message = "huge pages require a request of cpu or memory"
            yield Violation(path, message, "add requests of cpu and memory")
        for path_of_amount, name, quantity in _listed(path, resources):
            if is_extended(name) and amount(quantity).denominator != 1:
                message = f"{quantity} of {name} is not a whole number of devices"
                yield Violation(path_of_amount, message, "write a whole number")
            page = name.removeprefix(HUGE_PAGES)
            if page != name and amount(quantity) % amount(page) != 0:
                message = f"{quantity} of {name} is not a multiple of {page}"
                yield Violation(path_of_amount, message, f"write a multiple of {page}")


@Rule(
    id="amount-odd",
    severity="warning",
    summary="An amount probably lacks its unit, or has the wrong one.",
    details=(
        "Memory or storage below 1Mi (a number without a unit is in bytes, and `m` is thousandths), more cores than "
        "a node has, or a quota of a fraction of a device."
    ),
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, sharedMemory: 256}
    """,
    remedy="Add the unit: `512Mi` for memory, `10Gi` for storage, `500m` for half a core.",
)
def amount_odd(scene: Scene) -> Iterator[Violation]:
    for path, name, quantity in _amounts(scene):
        exact = amount(quantity)
        if name in _OF_BYTES and 0 < exact < _LEAST_BYTES:
            message = f"{quantity} of {name} is less than 1Mi (without a unit, an amount is in bytes; m is thousandths)"
            yield Violation(path, message, "write a unit, such as 512Mi or 10Gi")
        elif is_extended(name) and exact.denominator != 1:
            message = f"{quantity} of {name} is not a whole number of devices"
            yield Violation(path, message, "write a whole number")
    for path, resources in _resources(scene):
        for path_of_amount, name, quantity in _listed(path, resources):
            if name == "cpu" and amount(quantity) > _MOST_CORES:
                message = f"{quantity} are more cores than a node has"
                yield Violation(path_of_amount, message, "write 500m for half a core")


def _against_limit(name: str, request: str, limit: str | None) -> tuple[str, str] | None:
    """Why the API server would refuse a request, and the remedy; None if it accepts it."""
    exact = is_extended(name) or name.startswith(HUGE_PAGES)
    if exact and limit is None:
        return f"{name} is requested without a limit, which must be equal to the request", f"add {name} to the limits"
    if limit is not None and amount(request) > amount(limit):
        return f"{request} of {name} is more than the limit of {limit}", "lower the request, or raise the limit"
    if exact and limit is not None and amount(request) != amount(limit):
        return f"{request} of {name} is not equal to the limit of {limit}", "write the same amount in both"
    return None


def _resources(scene: Scene) -> Iterator[tuple[str, Resources]]:
    """What each container requests, with its path."""
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            yield pods.resources_path, pods.resources
    yield "cluster.loader.resources", scene.settings.cluster.loader.resources


def _listed(path: str, resources: Resources) -> Iterator[tuple[str, str, str]]:
    """The path, the resource and the amount of each request and limit."""
    for kind, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in amounts.items():
            yield child(f"{path}.{kind}", name), name, quantity


def _amounts(scene: Scene) -> Iterator[tuple[str, str, str]]:
    """The same of everything that has an amount, but for devices of containers."""
    settings = scene.settings
    for path, resources in _resources(scene):
        yield from (one for one in _listed(path, resources) if not is_extended(one[1]))
    for path, run in scene.runs():
        if run.shared_memory is not None:
            yield f"{path}.sharedMemory", "memory", run.shared_memory
    for path, static in each("storage.persistentVolumes", settings.storage.persistent_volumes):
        yield f"{path}.size", "storage", static.size
    for path, claim in each("storage.volumes", settings.storage.volumes):
        yield f"{path}.size", "storage", claim.size
    for name, install in settings.operators.installs.items():
        if install.requests.memory is not None:
            path = f"operators.{SETTING_OF_INSTALL.get(name, name)}.requests.memory"
            yield path, "memory", install.requests.memory
    for path, queue in each("queues.clusterQueues", settings.queues.cluster_queues):
        for where, _, quota in quotas(path, queue):
            yield f"{where}.nominalQuota", quota.name, quota.nominal_quota


RULES: tuple[Check[Scene], ...] = (resources_refused, amount_odd)
