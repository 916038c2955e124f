"""A workload as an MPIJob of the MPI operator (v2).

The launcher runs the program, such as `mpirun`, which starts its processes in the workers over SSH.

Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/
"""

from collections.abc import Iterator
from dataclasses import replace

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.kind import (
    TIME_LIMITS,
    Body,
    LaunchedPods,
    OperatorController,
    WorkloadKind,
    count_replica_specs,
    explicit_fields,
    replica_spec_pods,
    role_pod_sets,
)
from trainstack.runs.manifests.pod_template import TRAINING_CONTAINER, pod_template
from trainstack.runs.names import GENERATED_SUFFIX
from trainstack.runs.role_pods import RolePods, role_pods
from trainstack.settings.sections.workloads import Workload

API_VERSION = "kubeflow.org/v2beta1"
_WORKER = "Worker"


def mpijob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the MPIJob, without `runPolicy.suspend`, which Kueue sets."""
    replicas = {}
    for pod in role_pods(workload):
        role: Manifest = {"replicas": pod.replicas}
        if pod.restart_policy is not None:
            role["restartPolicy"] = pod.restart_policy
        role["template"] = pod_template(
            workload, _with_own_program(workload, pod), launch, container=TRAINING_CONTAINER
        )
        replicas[pod.role] = role
    spec: Manifest = {
        "mpiReplicaSpecs": replicas,
        # Under the operator's default, workers would serve SSH after the launcher has ended.
        "runPolicy": {
            "cleanPodPolicy": workload.clean_pod_policy,
            **explicit_fields(workload, "backoff_limit", *TIME_LIMITS),
        },
        **explicit_fields(workload, "slots_per_worker", "mpi_implementation", "ssh_auth_mount_path"),
    }
    return launch_object("MPIJob", API_VERSION, workload, stack, launch, spec)


def _with_own_program(workload: Workload, pod: RolePods) -> RolePods:
    """Return the pod with the program of its role only: the operator starts an SSH server in workers without one."""
    if workload.runs_program(pod.role):
        return pod
    worker = workload.roles[_WORKER]
    return replace(pod, command=worker.command or (), args=worker.args or ())


def _launched_pods(launch: Body, _: tuple[Body, ...] = ()) -> Iterator[LaunchedPods]:
    return replica_spec_pods(launch, "mpiReplicaSpecs")


def _derived_names(launch: Body, name: str) -> list[str]:
    counts = {pods.name: pods.count for pods in _launched_pods(launch)}
    workers = [f"{name}-worker-{counts['worker'] - 1}"] if "worker" in counts else []
    return [f"{name}-launcher{GENERATED_SUFFIX}", *workers]


MPIJOB = WorkloadKind(
    build=mpijob,
    derived_names=_derived_names,
    service_note="the MPI operator gives it a Service",
    launched_pods=_launched_pods,
    pod_sets=role_pod_sets,
    api_version=API_VERSION,
    definition="mpijobs.kubeflow.org",
    operator="mpi-operator",
    controller=OperatorController(
        title="the MPI operator",
        names=("mpi-operator",),
        labels={"app": "mpi-operator"},
        images=("mpi-operator",),
    ),
    role_label="training.kubeflow.org/job-role",
    first_roles=("launcher",),
    index_label="training.kubeflow.org/replica-index",
    operator_volumes=lambda _: ("mpi-job-config", "ssh-auth"),
    framework="kubeflow.org/mpijob",
    replicas=lambda body: count_replica_specs(body["spec"]["mpiReplicaSpecs"], body.get("status")),
)
