"""A workload as a TrainJob of Kubeflow Trainer (v2), with the TrainingRuntime that it refers to.

The TrainJob contains the program and its resources. The runtime contains the pods with their volumes, which cannot be
in the TrainJob's `podTemplateOverrides`: Kueue appends to that list, and an update replaces the list as a whole. A
workload with `runtime` refers to a ClusterTrainingRuntime of the cluster instead.

Source: https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from trainstack.objects.labels import Manifest, metadata
from trainstack.runs.errors import WorkloadError
from trainstack.runs.launch import Launch
from trainstack.runs.launch_object import launch_object
from trainstack.runs.manifests.jobset import jobset_pods
from trainstack.runs.manifests.kind import (
    COMPLETION_INDEX_LABEL,
    REPLICATED_JOB_LABEL,
    Body,
    LaunchedPods,
    Replicas,
    RunPodSet,
    WorkloadKind,
    count_jobs,
    explicit_fields,
    launch_label,
    role_pod_set,
)
from trainstack.runs.manifests.pod_template import launch_labels, pod_template
from trainstack.runs.names import GENERATED_SUFFIX, object_name
from trainstack.runs.rank_variables import rank_variables
from trainstack.runs.role_pods import NODE, role_pods
from trainstack.settings.sections.workloads import CLUSTER_RUNTIME, PodOverrides, Workload

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_RUNTIME_KINDS = ("TrainingRuntime", CLUSTER_RUNTIME)
_ANCESTOR_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of a Job in a runtime with the part of the TrainJob that Trainer applies to it: `trainer` for the nodes."""
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
"""The label of a JobSet's pods with its name, which is that of its TrainJob."""
_TRAINJOB_FIELDS = ("image", "command", "args", "env", "resources")
"""The fields of the container that the TrainJob sets; the runtime sets the others."""
_TORCHRUN_VARIABLES = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
"""The variables that Trainer sets for torchrun. It refuses a TrainJob that sets them."""

_EQUAL_FIELDS = (*PodOverrides.model_fields, "restart_policy")
"""The fields that must be equal in all roles."""


@dataclass(frozen=True)
class UnsupportedSetting:
    """A setting of a workload that a TrainJob does not support."""

    path: str
    """The setting's path relative to the workload, such as `roles.Worker.args`."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}; {self.remedy}"


def trainjob(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the TrainJob, without `suspend` and `podTemplateOverrides`, which Kueue sets. Raises WorkloadError."""
    # The main container is the first.
    container, *_ = _template(workload, launch)["spec"]["containers"]
    trainer = {key: container[key] for key in _TRAINJOB_FIELDS if key in container}
    if "resources" in trainer:
        trainer["resourcesPerNode"] = trainer.pop("resources")
    kind, name = (CLUSTER_RUNTIME, workload.runtime) if workload.runtime else ("TrainingRuntime", launch.name)
    # One process a node, as a PyTorchJob has one a pod. The runtime of the cluster has a number of its own.
    processes = {} if workload.runtime else {"numProcPerNode": 1}
    spec = {
        "runtimeRef": {"apiGroup": API_VERSION.partition("/")[0], "kind": kind, "name": name},
        "trainer": {"numNodes": _node_count(workload), **processes, **trainer},
    }
    return launch_object("TrainJob", API_VERSION, workload, stack, launch, spec)


def training_runtime(workload: Workload, stack: str, launch: Launch) -> Manifest | None:
    """Return the TrainingRuntime of this launch only, which has the launch's name; None if the cluster has the runtime.

    Raises WorkloadError.
    """
    if workload.runtime is not None:
        return None
    template = _template(workload, launch)
    container, *sidecars = template["spec"]["containers"]
    runtime_container = {key: value for key, value in container.items() if key not in _TRAINJOB_FIELDS}
    template["spec"]["containers"] = [runtime_container, *sidecars]
    job = {"template": template, **explicit_fields(workload, "backoff_limit", "active_deadline_seconds")}
    job_template = {"metadata": {"labels": {_ANCESTOR_LABEL: "trainer"}}, "spec": job}
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": metadata(launch.name, stack, namespace=workload.namespace, labels=launch_labels(workload, launch)),
        "spec": {
            # Trainer v2.2 removed numProcPerNode here; all releases read it from the TrainJob.
            "mlPolicy": {"numNodes": _node_count(workload), "torch": {}},
            "template": {"spec": {"replicatedJobs": [{"name": NODE, "template": job_template}]}},
        },
    }


def unsupported_settings(workload: Workload) -> Iterator[UnsupportedSetting]:
    """Yield the settings that prevent a workload with roles from running as a TrainJob."""
    first, *other_roles = role_pods(workload)
    for other_role in other_roles:
        for name in _EQUAL_FIELDS:
            if getattr(first, name) != getattr(other_role, name):
                yield UnsupportedSetting(
                    f"roles.{other_role.role}.{to_camel(name)}",
                    f"differs from {first.role}'s, but a TrainJob has one kind of node",
                    "use the same value in all roles, or set kind to PyTorchJob",
                )
    if first.restart_policy not in (None, "Never", "OnFailure"):
        yield UnsupportedSetting(
            f"roles.{first.role}.restartPolicy",
            f"is {first.restart_policy}, but the nodes of a TrainJob are pods of a Job",
            "set it to Never or OnFailure, or set kind to PyTorchJob",
        )
    for name in sorted({*_TORCHRUN_VARIABLES} & {*first.env, *workload.referenced_variables}):
        yield UnsupportedSetting("env", f"sets {name}, which is reserved for Trainer", "remove it")


def _template(workload: Workload, launch: Launch) -> Manifest:
    if faults := [f"workload {workload.name}: {unsupported}" for unsupported in unsupported_settings(workload)]:
        raise WorkloadError("\n".join(faults))
    name = object_name(workload, launch.name, launch.trial_number)
    return pod_template(
        workload,
        role_pods(workload)[0],
        launch,
        container=NODE,
        restart_policy=role_pods(workload)[0].restart_policy,
        # torchrun sets the ranks of the processes that it starts by a runtime of the cluster.
        kind_variables=() if workload.runtime else rank_variables(_node_count(workload), f"{name}-{NODE}-0-0.{name}"),
        operator_variables=_TORCHRUN_VARIABLES,
    )


def _node_count(workload: Workload) -> int:
    return sum(pod.replicas for pod in role_pods(workload))


def _derived_names(launch: Body, name: str) -> list[str]:
    nodes = (launch["spec"].get("trainer") or {}).get("numNodes") or 1
    return [f"{name}-{NODE}-0-{nodes - 1}{GENERATED_SUFFIX}"]


def _launched_pods(launch: Body, companions: tuple[Body, ...]) -> Iterator[LaunchedPods]:
    trainer = dict(launch["spec"].get("trainer") or {})
    own_nodes = trainer.pop("numNodes", None)
    trainer.pop("numProcPerNode", None)  # not a field of the container
    if "resourcesPerNode" in trainer:
        trainer["resources"] = trainer.pop("resourcesPerNode")
    runtimes = [companion for companion in companions if companion["kind"] in _RUNTIME_KINDS]
    if not runtimes:
        yield LaunchedPods(NODE, own_nodes or 1, {"spec": {"containers": [{"name": NODE, **trainer}]}})
    for runtime in runtimes:
        jobs = runtime_jobs(runtime)
        nodes = own_nodes or (runtime["spec"].get("mlPolicy") or {}).get("numNodes") or 1
        for job, pods in zip(jobs, jobset_pods({"spec": {"replicatedJobs": jobs}}), strict=True):
            yield _apply_trainer(pods, nodes, trainer) if runs_nodes(job) else pods


def runtime_jobs(runtime: Body) -> Sequence[Body]:
    """Return the `replicatedJobs` of a TrainingRuntime or ClusterTrainingRuntime."""
    template = runtime["spec"].get("template") or {}
    return (template.get("spec") or {}).get("replicatedJobs") or ()


def runs_nodes(replicated_job: Body) -> bool:
    """Return whether Trainer applies the `trainer` of a TrainJob to a Job of its runtime."""
    labels = (replicated_job["template"].get("metadata") or {}).get("labels") or {}
    return bool(labels.get(_ANCESTOR_LABEL) == "trainer")


def is_countable(runtime: Body) -> bool:
    """Return whether the nodes of a TrainJob are the pods of the Job to which Trainer applies its `trainer`.

    With MPI and Flux, Trainer calculates the numbers of launchers and nodes in another way.
    """
    return {"mpi", "flux"}.isdisjoint(runtime["spec"].get("mlPolicy") or {})


def _apply_trainer(pods: LaunchedPods, nodes: int, trainer: Body) -> LaunchedPods:
    """Return the pods of a runtime's Job with the fields that a TrainJob sets for them."""
    containers = [
        _apply_to_container(item, trainer) if item["name"] == NODE else item for item in pods.spec["containers"]
    ]
    return LaunchedPods(pods.name, nodes, {**pods.template, "spec": {**pods.spec, "containers": containers}})


def _apply_to_container(container: Body, trainer: Body) -> Body:
    variables = {
        variable["name"]: variable for variable in (*(container.get("env") or ()), *(trainer.get("env") or ()))
    }
    return {**container, **trainer, **({"env": [*variables.values()]} if variables else {})}


def _pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    # The nodes of all roles are one pod set of Kueue.
    name, role = min(run.roles.items())
    count = sum(role.replicas for role in run.roles.values())
    yield role_pod_set(f"{path}.roles.{name}", path, run, role, name, count, name=NODE)


def _replicas(body: Body) -> tuple[Replicas, ...]:
    return count_jobs({NODE: 1}, (body.get("status") or {}).get("jobsStatus"))


def _runtime_reference(body: Body) -> Body | None:
    """Return the apiVersion, kind and metadata of the launch's TrainingRuntime; None if it uses one of the cluster."""
    if uses_cluster_runtime(body):
        return None
    metadata = {"name": body["spec"]["runtimeRef"]["name"], "namespace": body["metadata"]["namespace"]}
    return {"apiVersion": body["apiVersion"], "kind": "TrainingRuntime", "metadata": metadata}


def uses_cluster_runtime(body: Body) -> bool:
    """Return whether a TrainJob refers to a runtime of the cluster, which is the API server's default kind."""
    return bool(body["spec"]["runtimeRef"].get("kind", CLUSTER_RUNTIME) == CLUSTER_RUNTIME)


def _pod_label(body: Body) -> tuple[str, str]:
    # Only the launch's own runtime, which has its name, gives the pods the label of the launch.
    is_own = not uses_cluster_runtime(body) and body["spec"]["runtimeRef"]["name"] == launch_label(body)[1]
    return launch_label(body) if is_own else (_JOBSET_LABEL, str(body["metadata"]["name"]))


TRAINJOB = WorkloadKind(
    build=trainjob,
    build_companion=training_runtime,
    derived_names=_derived_names,
    service_note="JobSet gives it a Service",
    launched_pods=_launched_pods,
    pod_sets=_pod_sets,
    api_version=API_VERSION,
    definition="trainjobs.trainer.kubeflow.org",
    operator="trainer",
    pod_label=_pod_label,
    role_label=REPLICATED_JOB_LABEL,
    # A runtime of the cluster may have further Jobs, such as initializers.
    first_roles=(NODE,),
    index_label=COMPLETION_INDEX_LABEL,
    framework="trainer.kubeflow.org/trainjob",
    replicas=_replicas,
    companion_reference=_runtime_reference,
)
