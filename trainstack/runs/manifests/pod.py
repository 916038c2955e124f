"""A workload as a bare Pod, which no controller replaces if its node fails."""

from collections.abc import Iterator

from trainstack.objects.labels import SKIP_AWAIT, Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    DEFAULT_POD_SET,
    DEFAULT_REPLICA_ROLE,
    Body,
    LaunchedPods,
    Replicas,
    WorkloadKind,
    count_replicas,
    explicit_fields,
    single_pod_set,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.role_pods import role_pods
from trainstack.settings.sections.workloads import Workload


def bare_pod(workload: Workload, stack: str, launch: Launch) -> Manifest:
    (single_role,) = role_pods(workload)
    # An unmanaged Pod without a restart policy gets the default of Kubernetes, Always, and is restarted indefinitely.
    policy = workload.restart_policy if workload.has_field("restart_policy") else None
    template = pod_template(workload, single_role, launch, container=TRAINING_CONTAINER, restart_policy=policy)
    spec = {**template["spec"], **explicit_fields(workload, "active_deadline_seconds")}
    annotations = {**template["metadata"].get("annotations", {}), SKIP_AWAIT: "true"}
    body = launch_object("Pod", "v1", workload, stack, launch, spec, annotations)
    # A `podPatch` may have added labels.
    body["metadata"]["labels"] = {**template["metadata"]["labels"], **body["metadata"]["labels"]}
    return body


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    yield LaunchedPods(DEFAULT_POD_SET, 1, launch, path="")


def _replicas(body: Body) -> tuple[Replicas, ...]:
    states_by_phase = {"Pending": "active", "Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    state = states_by_phase.get((body.get("status") or {}).get("phase", ""))
    return (count_replicas(DEFAULT_REPLICA_ROLE, 1, {state: 1} if state else {}),)


POD = WorkloadKind(
    build=bare_pod,
    derived_names=lambda _, name: [name],
    launched_pods=_launched_pods,
    pod_sets=single_pod_set,
    api_version="v1",
    framework="pod",
    replicas=_replicas,
)
