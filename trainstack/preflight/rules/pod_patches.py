"""The rule about pod patches that change fields on which Trainstack or Kueue depends."""

from collections.abc import Iterator

from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.pod_patch import PodPatchError


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
        if run.pod_patch is None:
            continue
        try:
            context.stack_objects.queued_objects(run)
        except PodPatchError as error:
            for fault in error.faults:
                yield Violation(f"{path}.podPatch.{fault.path}", fault.problem, fault.remedy)
        except WorkloadError:
            continue  # Other rules report it.
