"""The rule about the pods of runs and the cluster's RuntimeClasses."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainstack.kueue.quantities import resources_to_billionths
from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.pod_resources import launched_specs
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.errors import suggest_name


@Rule(
    id="runtime-class-refused",
    summary="The runtime class of a run's pods does not exist, or has another overhead.",
    details="The API server refuses the pods. Kueue does not notice, so the run would hold its quota.",
    example="`podPatch: {spec: {runtimeClassName: kata}}` on a cluster without the RuntimeClass `kata`.",
    remedy="Name a class that `kubectl get runtimeclass` prints, and leave out `overhead`.",
)
def runtime_class_refused(context: LiveContext) -> Iterator[Violation]:
    overheads = context.snapshot.model.overheads
    for path, run in context.runs():
        is_dispatched = context.settings.queues.is_dispatched(run.namespace, run.queue)
        if overheads is None or is_dispatched or all(pods.settings.pod_patch is None for pods in pod_sets(path, run)):
            continue
        # A patch is the same for all pods to which it applies, so the first spec of each suffices.
        specs = dict[str, Mapping[str, Any]]()
        for pods, spec in launched_specs(context, path, run):
            specs.setdefault(pods.setting_path("pod_patch"), spec)
        for patch, spec in specs.items():
            name = spec.get("runtimeClassName") or ""
            if name and name not in overheads:
                message = f"the cluster does not have RuntimeClass {name!r}"
                remedy = f"{suggest_name(name, overheads)} (or ask the cluster's owner to create it)"
                yield Violation(f"{patch}.spec.runtimeClassName", message, remedy)
            elif (
                name
                and spec.get("overhead")
                and resources_to_billionths(spec["overhead"]) != resources_to_billionths(overheads[name])
            ):
                message = f"RuntimeClass {name} has another overhead ({_format_overhead(overheads[name])})"
                yield Violation(f"{patch}.spec.overhead", message, "leave it out: the API server sets it")


def _format_overhead(overhead: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in sorted(overhead.items())) or "none"
