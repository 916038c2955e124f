"""The rule about TrainJobs and the runtimes of the cluster that they name."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainstack.objects.labels import MAX_LABEL_CHARACTERS
from trainstack.preflight.live_context import LiveContext, find_missing_object
from trainstack.preflight.rule import Rule, Violation
from trainstack.runs.manifests.jobset import jobset_pods
from trainstack.runs.manifests.trainjob import runs_nodes, runtime_jobs
from trainstack.runs.names import GENERATED_SUFFIX, LAUNCH_DIGITS, RUN_DIGITS, launch_name, object_name, run_id
from trainstack.runs.role_pods import NODE
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME, Workload

Body = Mapping[str, Any]


@Rule(
    id="runtime-unusable",
    may_be=("unknown",),
    summary="The ClusterTrainingRuntime of a TrainJob does not exist, or cannot run it.",
    details=(
        "A runtime needs a Job for the nodes, to which Trainer applies the settings of the run. JobSet refuses Jobs "
        "whose pods would have names of more than 63 characters."
    ),
    example="`runtime: torch-distribted`, and the cluster has `torch-distributed`.",
    remedy="Name a runtime that `kubectl get clustertrainingruntimes` prints.",
)
def runtime_unusable(context: LiveContext) -> Iterator[Violation]:
    runtimes = context.live.objects_by_name(CLUSTER_RUNTIME) or {}
    for path, run in context.runs():
        # kind_missing reports a cluster without Trainer.
        reference = run.runtime_reference
        if reference is None or reference.kind != CLUSTER_RUNTIME or CLUSTER_RUNTIME in context.live.unserved:
            continue
        runtime_path, name = f"{path}.{reference.path}", reference.name
        if name not in runtimes:
            yield from find_missing_object(context, runtime_path, CLUSTER_RUNTIME, name, is_declared=False)
        elif not any(map(_has_node, runtime_jobs(runtimes[name]))):
            message = f"{CLUSTER_RUNTIME} {name} has no Job for the nodes with a container {NODE}"
            yield Violation(runtime_path, message, "use another runtime, or leave it out")
        else:
            yield from _name_violations(runtime_path, run, runtimes[name])


def _has_node(replicated_job: Body) -> bool:
    containers = replicated_job["template"]["spec"]["template"]["spec"]["containers"]
    return runs_nodes(replicated_job) and any(container["name"] == NODE for container in containers)


def _name_violations(runtime_path: str, run: Workload, runtime: Body) -> Iterator[Violation]:
    """Yield a violation if a pod's name would be too long. The hashes in the launch's name have a fixed length."""
    launch = launch_name(run_id(run.name, "0" * RUN_DIGITS), "0" * LAUNCH_DIGITS)
    names = [
        f"{object_name(run, launch)}-{pods.name}-0-{pods.count - 1}{GENERATED_SUFFIX}"
        for pods in jobset_pods({"spec": {"replicatedJobs": runtime_jobs(runtime)}})
    ]
    longest_name = max(names, key=len)
    if (excess := len(longest_name) - MAX_LABEL_CHARACTERS) > 0:
        message = (
            f"a pod of {CLUSTER_RUNTIME} {runtime['metadata']['name']} would be named {longest_name} with "
            f"{len(longest_name)} characters, and Kubernetes allows {MAX_LABEL_CHARACTERS}"
        )
        yield Violation(runtime_path, message, f"shorten the workload's name by {excess}")
