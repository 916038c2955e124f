"""A workload as a PyTorchJob of the Kubeflow training operator (v1).

Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/
"""

from collections.abc import Iterator

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    TIME_LIMITS,
    Body,
    LaunchedPods,
    WorkloadKind,
    count_replica_specs,
    explicit_fields,
    replica_spec_pods,
    role_pod_sets,
)
from trainstack.runs.manifests.pod_template import pod_template
from trainstack.runs.role_pods import role_pods
from trainstack.settings.sections.workloads import Workload

API_VERSION = "kubeflow.org/v1"
PYTORCH_CONTAINER = "pytorch"
"""The name of the container, which the operator's webhook requires."""
CONTAINER_PORT = {"containerPort": 23456, "name": "pytorchjob-port", "protocol": "TCP"}
"""The port of rank 0. The operator adds it if it is missing, so declaring it avoids drift."""


def pytorchjob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the PyTorchJob, without `runPolicy.suspend`, which Kueue sets."""
    # Without backoffLimit the job restarts its containers indefinitely, which an unmanaged job may rely on.
    policy = explicit_fields(workload, "clean_pod_policy", "backoff_limit", *TIME_LIMITS)
    replicas = {}
    for pod in role_pods(workload):
        role: Manifest = {"replicas": pod.replicas}
        if pod.restart_policy is not None:
            role["restartPolicy"] = pod.restart_policy
        port = CONTAINER_PORT if workload.managed else None
        role["template"] = pod_template(workload, pod, launch, container=PYTORCH_CONTAINER, port=port)
        replicas[pod.role] = role
    spec: Manifest = {"pytorchReplicaSpecs": replicas, **explicit_fields(workload, "nproc_per_node")}
    if policy:
        spec["runPolicy"] = policy
    if workload.elastic is not None:
        spec["elasticPolicy"] = workload.elastic.model_dump(by_alias=True, exclude_none=True)
    return launch_object("PyTorchJob", API_VERSION, workload, stack, launch, spec)


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    return replica_spec_pods(launch, "pytorchReplicaSpecs")


PYTORCHJOB = WorkloadKind(
    build=pytorchjob,
    derived_names=lambda launch, name: [f"{name}-{pods.name}-{pods.count - 1}" for pods in _launched_pods(launch)],
    service_note="the training operator creates a Service for each pod",
    launched_pods=_launched_pods,
    pod_sets=role_pod_sets,
    api_version=API_VERSION,
    definition="pytorchjobs.kubeflow.org",
    operator="training-operator",
    role_label="training.kubeflow.org/replica-type",
    index_label="training.kubeflow.org/replica-index",
    framework="kubeflow.org/pytorchjob",
    replicas=lambda body: count_replica_specs(body["spec"]["pytorchReplicaSpecs"], body.get("status")),
    managed_by=("spec", "runPolicy", "managedBy"),
)
