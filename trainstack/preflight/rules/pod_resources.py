"""Rules about resources in a `podPatch`, of whole pods and of their containers.

Source: validatePodResources and validateResourceRequirements in k8s.io/kubernetes/pkg/apis/core/validation, and the
defaults of SetDefaults_Pod in k8s.io/kubernetes/pkg/apis/core/v1.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from trainstack.kueue.booking import amounts_booked_otherwise
from trainstack.kueue.model import Model
from trainstack.kueue.pod_requests import container_requests, is_pod_level_resource
from trainstack.kueue.quantities import WHOLE
from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import EnvironmentContext, RuleContext, built_pod_sets
from trainstack.preflight.rules.resources import resource_faults
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.workloads import Workload
from trainstack.settings.values.paths import child_path
from trainstack.settings.values.quantities import amount, format_amount

Body = Mapping[str, Any]


@Rule(
    id="pod-resources-refused",
    summary="The API server would refuse the resources in a run's `podPatch`, of the whole pod or of a container.",
    details=(
        "The request of a whole pod is less than its containers request together, or more than its limit; the limit of "
        "a container exceeds the pod's; a whole pod has other resources than cpu, memory and huge pages; it has an "
        "`overhead`, but no `runtimeClassName`; or a container of the patch has a fault of `resources-refused`. Kueue "
        "would reserve the quota, but the pods would never be created. Before v1.34, Kubernetes ignores resources of "
        "whole pods."
    ),
    change=hello("podPatch: {spec: {resources: {requests: {cpu: 50m}}}}"),
    remedy="Raise the pod's amount to the sum of its containers', or remove `spec.resources` from the patch.",
    silenceable=False,
)
def pod_resources_refused(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if not _has_patch(path, run):
            continue
        violations: dict[str, Violation] = {}
        for pods, spec in launched_specs(context, path, run):
            patch = pods.settings.pod_patch
            patch_path = f"{pods.setting_path('pod_patch')}.spec"
            for violation in () if patch is None else _pod_violations(patch_path, patch.get("spec") or {}, spec):
                violations.setdefault(violation.path, violation)
        yield from violations.values()


def _has_patch(path: str, run: Workload) -> bool:
    return any(pods.settings.pod_patch is not None for pods in pod_sets(path, run))


@Rule(
    id="booking-differs",
    severity="warning",
    summary="Kueue books another amount for a run's pods than they request, or than the run alone requests.",
    details=(
        "A limit of the whole pod is by default its request, which Kueue does not know. With `--cluster`, the defaults "
        "of LimitRanges count, which the verdict includes: Kueue lets a default request precede a container's own "
        "limit, and the API server does not. Before v0.17, Kueue forgets them after a failed attempt, and then books "
        "what the run alone requests."
    ),
    example="`podPatch: {spec: {resources: {limits: {cpu: 8}}}}`, where no container requests cpu.",
    remedy="Set the request of each container, and of the whole pod where it has a limit.",
)
def booking_differs(context: RuleContext) -> Iterator[Violation]:
    yield from find_booking_differences(context, context.model)


def find_booking_differences(context: EnvironmentContext, model: Model) -> Iterator[Violation]:
    """Yield the differences between what Kueue books for queued runs and what their pods request, once per path."""
    for path, run in context.runs():
        # Without a patch or a LimitRange, Kueue books what the pods request.
        if run.queue is not None and (_has_patch(path, run) or run.namespace in model.limit_ranges):
            violations = [
                Violation(pods.resources_path, message)
                for pods, spec in launched_specs(context, path, run)
                for message in amounts_booked_otherwise(spec, run.namespace, model)
            ]
            yield from dict.fromkeys(violations)


def launched_specs(context: EnvironmentContext, path: str, run: Workload) -> Iterator[tuple[RunPodSet, Body]]:
    """Yield the pod sets of a run with their specs; none if its manifest cannot be built."""
    for pods, launched in built_pod_sets(context, path, run):
        yield pods, launched.spec


def _pod_violations(path: str, patch: Body, spec: Body) -> Iterator[Violation]:
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        message = "only pods of a runtime class have an overhead, which is the overhead of the class"
        yield Violation(f"{path}.overhead", message, "remove it, or set runtimeClassName")
    yield from _whole_pod_violations(f"{path}.resources", spec)
    yield from _patched_container_violations(path, patch, spec)


def _whole_pod_violations(path: str, spec: Body) -> Iterator[Violation]:
    pod_resources = spec.get("resources") or {}
    if pod_resources.get("claims"):
        yield Violation(f"{path}.claims", "a whole pod has no claims", "remove it")
    for kind in ("limits", "requests"):
        for name in (pod_resources.get(kind) or {}).keys() - _supported(pod_resources, kind).keys():
            message = f"{name} cannot be set for a whole pod, only cpu, memory and huge pages"
            yield Violation(child_path(f"{path}.{kind}", name), message, "set it for a container")
    requests, limits = _supported(pod_resources, "requests"), _supported(pod_resources, "limits")
    yield from _container_total_violations(path, spec, requests, limits)
    yield from resource_faults(path, requests, limits)


def _supported(resources: Body, kind: str) -> dict[str, str]:
    amounts = (resources.get(kind) or {}).items()
    return {name: text for name, text in amounts if is_pod_level_resource(name)}


def _container_total_violations(
    path: str, spec: Body, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[Violation]:
    for name, billionths in sorted(container_requests(spec).items()):
        total = Fraction(billionths, WHOLE)
        request_path, remedy = (
            child_path(f"{path}.requests", name),
            f"set at least {format_amount(total)}, or leave it out",
        )
        if name in requests and total > amount(requests[name]):
            message = f"{requests[name]} of {name} is less than the {format_amount(total)} that the containers request"
            yield Violation(request_path, message, remedy)
        elif name in limits and name not in requests and total > amount(limits[name]):
            # The pod's request is then by default the sum of its containers' requests.
            message = (
                f"the limit of {limits[name]} of {name} is less than the {format_amount(total)} that the containers "
                "request"
            )
            yield Violation(child_path(f"{path}.limits", name), message, remedy)
    # A container's limit may not exceed the pod's. For huge pages, limits are also requests.
    for container in spec.get("containers") or ():
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and amount(limit) > amount(limits[name]):
                message = f"container {container['name']} has a limit of {limit} of {name}, the pod of {limits[name]}"
                yield Violation(child_path(f"{path}.limits", name), message, f"set at least {limit}, or leave it out")


def _patched_container_violations(path: str, patch: Body, spec: Body) -> Iterator[Violation]:
    """Yield the faults of containers whose resources the patch sets."""
    for field in ("containers", "initContainers"):
        patched = {container.get("name") for container in patch.get(field) or () if "resources" in container}
        for container in spec.get(field) or ():
            if container["name"] in patched:
                resources = container.get("resources") or {}
                resources_path = f"{path}.{field}[{container['name']}].resources"
                yield from resource_faults(
                    resources_path, resources.get("requests") or {}, resources.get("limits") or {}
                )
