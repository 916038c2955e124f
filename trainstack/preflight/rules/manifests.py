"""Rules about workloads that are manifests."""

from collections.abc import Iterator

from pydantic import ValidationError

from trainstack.preflight.pod_validation import find_pod_faults
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, built_pod_sets
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import LaunchedPods
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.settings.values.paths import child_path
from trainstack.settings.values.pod_patch import check_fields


@Rule(
    id="manifest-invalid",
    summary="The API server would refuse the manifest of a run.",
    details=(
        "The object lacks its pods, or a container has no image or mounts a volume that the pod lacks. Kueue may "
        "reserve the quota of such a run, but its pods would never be created."
    ),
    example="A container that mounts a volume which `volumes` of its pod does not list.",
    remedy="Correct the manifest as the message describes.",
    silenceable=False,
)
def manifest_invalid(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.manifest is None:
            continue
        try:
            launch, _ = context.stack_objects.queued_objects(run)
        except WorkloadError as error:
            yield Violation(f"{path}.manifest", error.message, error.remedy)
            continue
        for pods in launched_pods(launch):
            if pods.path is None:
                continue
            operator_volumes = WORKLOAD_KINDS[run.kind].operator_volumes(launch)
            for fault in find_pod_faults(pods.template, operator_volumes, "volumes of the pod"):
                yield Violation(f"{_template_path(path, pods)}.{fault.path}", fault.problem, fault.remedy)


@Rule(
    id="manifest-field-unknown",
    severity="warning",
    summary="The manifest of a run has a field of pods that Kubernetes does not have.",
    details=(
        "The table of fields is that of the Kubernetes release that the local cluster runs. A cluster drops a field "
        "that it does not know, or refuses the object."
    ),
    example="`runtimeClass: kata` in the pods of a manifest, for `runtimeClassName`.",
    remedy="Correct the name; silence the finding if the cluster is newer and has the field.",
)
def manifest_field_unknown(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.manifest is None:
            continue
        for pod_set, pods in built_pod_sets(context, path, run):
            if pod_set.template_path is not None:
                yield from _unknown_fields(pod_set.template_path, pods)


def _unknown_fields(path: str, pods: LaunchedPods) -> Iterator[Violation]:
    try:
        check_fields("PodSpec", pods.spec)
    except ValidationError as error:
        # The settings have no other faults.
        for detail in error.errors(include_url=False):
            fault_path = f"{path}.spec"
            for step in detail["loc"]:
                fault_path = f"{fault_path}[{step}]" if isinstance(step, int) else child_path(fault_path, step)
            yield Violation(fault_path, detail["ctx"]["problem"], detail["ctx"]["remedy"])


def _template_path(path: str, pods: LaunchedPods) -> str:
    """Return the path of the template of pods in the manifest of the run at a path of the settings."""
    return ".".join(filter(None, (path, "manifest", pods.path)))
