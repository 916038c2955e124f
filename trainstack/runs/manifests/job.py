"""A workload as a Kubernetes Job. Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/"""

from collections.abc import Iterator

from trainstack.objects.labels import MIN_PARALLELISM, SKIP_AWAIT, Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    COMPLETION_INDEX_LABEL,
    DEFAULT_POD_SET,
    DEFAULT_REPLICA_ROLE,
    TIME_LIMITS,
    Body,
    LaunchedPods,
    Replicas,
    WorkloadKind,
    count_replicas,
    explicit_fields,
    single_pod_set,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.names import GENERATED_SUFFIX, is_indexed
from trainstack.runs.role_pods import role_pods
from trainstack.settings.sections.workloads import Workload


def job(workload: Workload, stack: str, launch: Launch, *, container: str = TRAINING_CONTAINER) -> Manifest:
    """Return the Job, without `suspend`, which Kueue sets."""
    (pod,) = role_pods(workload)
    spec = explicit_fields(workload, "backoff_limit", "completions", "parallelism", *TIME_LIMITS)
    spec["template"] = pod_template(workload, pod, launch, container=container, restart_policy=workload.restart_policy)
    if is_indexed(workload) or workload.completion_mode is not None:
        spec["completionMode"] = workload.completion_mode or "Indexed"
    annotations = {SKIP_AWAIT: "true"}
    if workload.min_parallelism is not None:
        annotations[MIN_PARALLELISM] = str(workload.min_parallelism)
    return launch_object("Job", "batch/v1", workload, stack, launch, spec, annotations)


def name_of_pod(name: str, spec: Body) -> str:
    """Return the longest name of the pods of a Job with this name and `spec`."""
    is_indexed_job = spec.get("completionMode") == "Indexed"
    return f"{name}-{_pod_counts(spec)[1] - 1}{GENERATED_SUFFIX}" if is_indexed_job else f"{name}{GENERATED_SUFFIX}"


def job_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    """Yield the pods of a Job or of a Job in a JobSet."""
    spec = launch["spec"]
    at_once, to_succeed = _pod_counts(spec)
    fields = ("parallelism", "completions") if at_once == to_succeed else ("parallelism",)
    counts = {f"spec.{name}": spec[name] for name in fields if spec.get(name) is not None}
    yield LaunchedPods(DEFAULT_POD_SET, min(at_once, to_succeed), spec["template"], "spec.template", counts)


def _pod_counts(spec: Body) -> tuple[int, int]:
    """Return how many pods of a Job run at once, and how many must succeed."""
    at_once, to_succeed = spec.get("parallelism"), spec.get("completions")
    # The API server sets both fields to 1 if both are unset. With `completions` alone, the pods run one after another.
    # With `parallelism` alone, the Job is a work queue, of which Kueue counts `parallelism` pods.
    at_once = 1 if at_once is None else at_once
    return at_once, at_once if to_succeed is None else to_succeed


def _replicas(body: Body) -> tuple[Replicas, ...]:
    return (count_replicas(DEFAULT_REPLICA_ROLE, _pod_counts(body["spec"])[1], body.get("status") or {}),)


JOB = WorkloadKind(
    build=job,
    derived_names=lambda launch, name: [name_of_pod(name, launch["spec"])],
    launched_pods=job_pods,
    pod_sets=single_pod_set,
    api_version="batch/v1",
    index_label=COMPLETION_INDEX_LABEL,
    framework="batch/job",
    replicas=_replicas,
    managed_by=("spec", "managedBy"),
)
