"""Rules about pod patches: fields on which Trainstack or Kueue depends, and pods that the API server refuses."""

from collections.abc import Iterator

from trainstack.preflight.examples import hello
from trainstack.preflight.pod_validation import find_pod_faults
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, built_pod_sets
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.runs.manifests.pod_patch import PodPatchError
from trainstack.runs.manifests.registry import WORKLOAD_KINDS
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.workloads import Workload


@Rule(
    id="patch-refused",
    summary="The `podPatch` of a run changes what the wrapper, the run's identity, its queue or a guard depends on.",
    details=(
        "It may not change the program, its variables, mounts and user; volumes of the settings; claims; accounts, "
        "tokens and priority; node names and host names; or labels and annotations of Trainstack and Kueue "
        "([all paths](decisions/0014-isolated-pods.md#pod-patches))."
    ),
    change=hello("podPatch: {spec: {serviceAccountName: deployer}}"),
    remedy="Remove it from the patch, and use the setting that the message names.",
    silenceable=False,
)
def patch_refused(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        patch_paths = {pods.settings.role: pods.setting_path("pod_patch") for pods in _patched_pod_sets(path, run)}
        if not patch_paths:
            continue
        try:
            context.stack_objects.queued_objects(run)
        except PodPatchError as error:
            for fault in error.faults:
                yield Violation(f"{patch_paths[error.role]}.{fault.path}", fault.problem, fault.remedy)
        except WorkloadError:
            continue  # Other rules report it.


@Rule(
    id="patch-invalid",
    summary="The API server would refuse the pods of a run with its `podPatch`.",
    details=(
        "For example, a container mounts a volume that the pod lacks, or has no image; a volume has two sources, a "
        "probe no action, or a field an unknown word. The volumes of `scratch` are mounted by the names that the run "
        "gives them. Kueue would reserve the quota, but the pods would never be created."
    ),
    change=hello("podPatch: {spec: {containers: [{name: node, volumeMounts: [{name: cache, mountPath: /cache}]}]}}"),
    remedy="Correct the patch as the message describes.",
    silenceable=False,
)
def patch_invalid(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if not _patched_pod_sets(path, run):
            continue
        try:
            launch, _ = context.stack_objects.queued_objects(run)
        except WorkloadError:
            continue  # Other rules report it.
        operator_volumes = WORKLOAD_KINDS[run.kind].operator_volumes(launch)
        # Pod sets with the same patch have the same faults.
        violations = dict.fromkeys(
            Violation(f"{pods.setting_path('pod_patch')}.{fault.path}", fault.problem, fault.remedy)
            for pods, launched in built_pod_sets(context, path, run)
            if pods.settings.pod_patch is not None
            for fault in find_pod_faults(launched.template, operator_volumes)
        )
        yield from violations


def _patched_pod_sets(path: str, run: Workload) -> list[RunPodSet]:
    """Return the pod sets with a `podPatch`; `manifest-invalid` reports the pods of a manifest."""
    return [pods for pods in pod_sets(path, run) if pods.settings.pod_patch is not None and run.manifest is None]
