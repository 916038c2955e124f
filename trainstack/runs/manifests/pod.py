"""A workload as a bare Pod, which no controller replaces if its node fails."""

from collections.abc import Iterator

from trainstack.objects.labels import SKIP_AWAIT, Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.kind import (
    ONLY,
    ONLY_ROLE,
    Body,
    LaunchedPods,
    Replicas,
    WorkloadKind,
    count_replicas,
    only_pod_set,
    set_fields,
)
from trainstack.runs.manifests.pod_template import CONTAINER, pod_template
from trainstack.runs.metadata import launch_object
from trainstack.runs.pods import pods
from trainstack.settings.sections.workloads import Workload


def pod(workload: Workload, stack: str, launch: Launch) -> Manifest:
    (only,) = pods(workload)
    # An unmanaged Pod without a restart policy gets the default of Kubernetes, Always, and is restarted indefinitely.
    policy = workload.restart_policy if workload.has_field("restart_policy") else None
    template = pod_template(workload, only, launch, container=CONTAINER, restart_policy=policy)
    spec = {**template["spec"], **set_fields(workload, "active_deadline_seconds")}
    annotations = {**template["metadata"].get("annotations", {}), SKIP_AWAIT: "true"}
    body = launch_object("Pod", "v1", workload, stack, launch, spec, annotations)
    # A `podPatch` may have added labels.
    body["metadata"]["labels"] = {**template["metadata"]["labels"], **body["metadata"]["labels"]}
    return body


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    yield LaunchedPods(ONLY, 1, launch)


def _replicas(body: Body) -> tuple[Replicas, ...]:
    counts = {"Pending": "active", "Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    counted = counts.get((body.get("status") or {}).get("phase", ""))
    return (count_replicas(ONLY_ROLE, 1, {counted: 1} if counted else {}),)


POD = WorkloadKind(
    build=pod,
    derived_names=lambda _, name: [name],
    launched_pods=_launched_pods,
    pod_sets=only_pod_set,
    api_version="v1",
    framework="pod",
    replicas=_replicas,
)
