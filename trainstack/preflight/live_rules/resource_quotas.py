"""The rule about the pods of runs and volume claims, and the ResourceQuotas of their namespaces."""

from collections import Counter
from collections.abc import Iterator, Sequence

from trainstack.kueue.quantities import WHOLE, format_readable, from_billionths
from trainstack.objects.labels import WORKLOAD
from trainstack.preflight.live_context import LiveContext, unknown_violation
from trainstack.preflight.resource_quotas import (
    PodAtCreation,
    QuotaOfNamespace,
    claim_matches,
    claim_usage,
    pod_at_creation,
    read_quota,
)
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.pod_resources import launched_specs
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.settings.sections.workloads import Workload

_REMEDY = "request less, or have the quota raised"


@Rule(
    id="resource-quota-refused",
    may_be=("warning", "unknown"),
    summary="A ResourceQuota of the namespace refuses a run's pods, which Kueue does not notice, or a volume claim.",
    details=(
        "The run would hold its quota of Kueue, and have no pods. An error if a single pod or claim exceeds the quota, "
        "or does not set what the quota requires; a warning if the pods do not fit at once, or wait for what others "
        "use."
    ),
    example="A run whose pods request 8 cpu, and a ResourceQuota with `hard: {requests.cpu: 4}`.",
    remedy="Request less, or have the quota raised that `kubectl describe resourcequota` prints.",
)
def resource_quota_refused(context: LiveContext) -> Iterator[Violation]:
    unread_namespaces: set[str] = set()
    users = [(f"{path}.namespace", run.namespace) for path, run in context.runs()]
    users += [(f"{path}.namespace", volume.namespace) for path, volume in context.volumes()]
    for path, namespace in users:
        if context.live.lists.get(_key(namespace), ()) is None and namespace not in unread_namespaces:
            unread_namespaces.add(namespace)
            question = f"a ResourceQuota of namespace {namespace} refuses its pods and claims"
            yield unknown_violation(path, question, "ResourceQuota objects")
    yield from _claim_violations(context)
    for path, run in context.runs():
        if not context.settings.queues.is_dispatched(run.namespace, run.queue):
            for quota in _quotas(context, run.namespace):
                yield from dict.fromkeys(_run_violations(context, path, run, quota))


def _key(namespace: str) -> str:
    return f"ResourceQuota {namespace}"


def _quotas(context: LiveContext, namespace: str) -> list[QuotaOfNamespace]:
    return [read_quota(body) for body in context.live.lists.get(_key(namespace)) or ()]


def _run_violations(context: LiveContext, path: str, run: Workload, quota: QuotaOfNamespace) -> Iterator[Violation]:
    model, classes = context.snapshot.model, context.live.admission.get("PriorityClass")
    default_class = next((body["metadata"]["name"] for body in classes or () if body.get("globalDefault")), "")
    if quota.selects_priority_class and classes is None:
        question = f"ResourceQuota {quota.name}, which selects pods by their priority class, refuses its pods"
        yield unknown_violation(path, question, "PriorityClass objects")
        return
    pods_by_set = [
        (pods, pod)
        for pods, spec in launched_specs(context, path, run)
        for pod in [
            pod_at_creation(spec, model.limit_ranges.get(run.namespace, ()), model.overheads or {}, default_class)
        ]
        if pod.matches(quota)
    ]
    errors = [violation for pods, pod in pods_by_set for violation in _pod_violations(quota, pods, pod)]
    yield from errors
    if not errors:
        yield from _joint_violations(context, path, run, quota, pods_by_set)


def _pod_violations(quota: QuotaOfNamespace, pods: RunPodSet, pod: PodAtCreation) -> Iterator[Violation]:
    for name in sorted(pod.unset.keys() & quota.hard.keys()):
        message = (
            f"ResourceQuota {quota.name} requires {name} of each container, and {', '.join(pod.unset[name])} sets none"
        )
        yield Violation(pods.resources_path, message, "set it, or have a default added to a LimitRange")
    for name in quota.exceeded_resources(pod.usage):
        amounts = f"{_amount(name, quota.hard[name])} {name}, and each pod needs {_amount(name, pod.usage[name])}"
        yield Violation(pods.resources_path, f"ResourceQuota {quota.name} allows {amounts}", _REMEDY)


def _joint_violations(
    context: LiveContext,
    path: str,
    run: Workload,
    quota: QuotaOfNamespace,
    pods_by_set: Sequence[tuple[RunPodSet, PodAtCreation]],
) -> Iterator[Violation]:
    """Yield what the pods of a run exceed together, on their own or in addition to what is in use."""
    usage = Counter[str]()
    for pods, pod in pods_by_set:
        usage.update({name: number * pods.count for name, number in pod.usage.items()})
    exceeded_together = quota.exceeded_resources(usage)
    for name in exceeded_together:
        amounts = f"{_amount(name, quota.hard[name])} {name}, and its pods need {_amount(name, usage[name])} together"
        message = f"ResourceQuota {quota.name} allows {amounts}: not all of them can exist at once"
        yield Violation(path, message, _REMEDY, "warning")
    # The pods of a launched run are in use themselves.
    if _is_submitted(context, run):
        return
    for name in quota.exceeded_resources(usage, used=quota.used):
        if name not in exceeded_together:
            excess = quota.used.get(name, 0) + usage[name] - quota.hard[name]
            hard, used = _amount(name, quota.hard[name]), _amount(name, quota.used.get(name, 0))
            message = (
                f"ResourceQuota {quota.name} allows {hard} {name}, of which {used} are in use: its pods, which need "
                f"{_amount(name, usage[name])}, are refused until {_amount(name, excess)} are released"
            )
            yield Violation(path, message, "wait, request less, or have the quota raised", "warning")


def _is_submitted(context: LiveContext, run: Workload) -> bool:
    """Whether Kueue has a Workload of the run."""
    workloads = (
        body
        for body in context.live.admission.get("Workload") or ()
        if body["metadata"].get("namespace") == run.namespace
    )
    templates = (pods["template"] for body in workloads for pods in (body.get("spec") or {}).get("podSets") or ())
    return any(
        ((template.get("metadata") or {}).get("labels") or {}).get(WORKLOAD) == run.name for template in templates
    )


def _claim_violations(context: LiveContext) -> Iterator[Violation]:
    """Yield what the claims that do not exist yet exceed, alone or in addition to what is in use."""
    for path, volume in context.new_volumes():
        usage = claim_usage(volume.storage_class, volume.size)
        for quota in filter(claim_matches, _quotas(context, volume.namespace)):
            exceeded_alone = quota.exceeded_resources(usage)
            for name in quota.exceeded_resources(usage, used=quota.used):
                hard, number, used = (
                    _amount(name, amounts.get(name, 0)) for amounts in (quota.hard, usage, quota.used)
                )
                message = f"ResourceQuota {quota.name} allows {hard} {name}, and the claim needs {number}"
                if name in exceeded_alone:
                    yield Violation(f"{path}.size", message, _REMEDY)
                else:
                    yield Violation(f"{path}.size", f"{message} while {used} are in use", _REMEDY, "warning")


def _amount(name: str, billionths: int) -> str:
    resource = name.rpartition("/")[2] if "storageclass" in name else name
    resource = resource.removeprefix("requests.").removeprefix("limits.")
    if name.startswith("count/") or resource in ("pods", "persistentvolumeclaims"):
        return str(-(-billionths // WHOLE))
    return format_readable(resource, from_billionths(resource, billionths))
