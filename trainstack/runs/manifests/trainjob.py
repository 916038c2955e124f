"""A workload as a TrainJob of Kubeflow Trainer (v2), with the TrainingRuntime that it refers to.

The TrainJob contains the program and its resources. The runtime contains the pods with their volumes, which cannot be
in the TrainJob's `podTemplateOverrides`: Kueue appends to that list, and an update replaces the list as a whole.

Source: https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/
"""

from collections.abc import Iterator
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
    role_pod_set,
)
from trainstack.runs.manifests.pod_template import launch_labels, pod_template
from trainstack.runs.names import GENERATED_SUFFIX, object_name
from trainstack.runs.rank_variables import rank_variables
from trainstack.runs.role_pods import NODE, role_pods
from trainstack.settings.sections.workloads import Workload

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_TRAINJOB_FIELDS = ("image", "command", "args", "env", "resources")
"""The fields of the container that the TrainJob sets; the runtime sets the others."""
_TORCHRUN_VARIABLES = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
"""The variables that Trainer sets for torchrun. It refuses a TrainJob that sets them."""

_EQUAL_FIELDS = ("args", "env", "volumes", "resources", "annotations", "topology_request", "restart_policy")
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
    spec = {
        "runtimeRef": {"apiGroup": API_VERSION.partition("/")[0], "kind": "TrainingRuntime", "name": launch.name},
        # One process a node, as a PyTorchJob has one a pod.
        "trainer": {"numNodes": _node_count(workload), "numProcPerNode": 1, **trainer},
    }
    return launch_object("TrainJob", API_VERSION, workload, stack, launch, spec)


def training_runtime(workload: Workload, stack: str, launch: Launch) -> Manifest:
    """Return the TrainingRuntime of this launch only, which has the launch's name. Raises WorkloadError."""
    template = _template(workload, launch)
    container, *sidecars = template["spec"]["containers"]
    runtime_container = {key: value for key, value in container.items() if key not in _TRAINJOB_FIELDS}
    template["spec"]["containers"] = [runtime_container, *sidecars]
    job = {"template": template, **explicit_fields(workload, "backoff_limit", "active_deadline_seconds")}
    # Trainer identifies the training Job by this label.
    job_template = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}, "spec": job}
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
    for name in sorted({*_TORCHRUN_VARIABLES} & {*first.env}):
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
        kind_variables=rank_variables(_node_count(workload), f"{name}-{NODE}-0-0.{name}"),
        operator_variables=_TORCHRUN_VARIABLES,
    )


def _node_count(workload: Workload) -> int:
    return sum(pod.replicas for pod in role_pods(workload))


def _derived_names(workload: Workload, name: str) -> list[str]:
    return [f"{name}-{NODE}-0-{_node_count(workload) - 1}{GENERATED_SUFFIX}"]


def _launched_pods(launch: Body, companions: tuple[Body, ...]) -> Iterator[LaunchedPods]:
    trainer = dict(launch["spec"]["trainer"])
    nodes = trainer.pop("numNodes")
    trainer.pop("numProcPerNode", None)  # not a field of the container
    if "resourcesPerNode" in trainer:
        trainer["resources"] = trainer.pop("resourcesPerNode")
    runtimes = [companion["spec"]["template"] for companion in companions if companion["kind"] == "TrainingRuntime"]
    templates = [pods_of_job.template for runtime in runtimes for pods_of_job in jobset_pods(runtime)]
    for template in templates or [{"spec": {"containers": [{"name": NODE}]}}]:
        containers = [{**item, **trainer} if item["name"] == NODE else item for item in template["spec"]["containers"]]
        yield LaunchedPods(NODE, nodes, {**template, "spec": {**template["spec"], "containers": containers}})


def _pod_sets(path: str, run: Workload) -> Iterator[RunPodSet]:
    # The nodes of all roles are one pod set of Kueue.
    name, role = min(run.roles.items())
    count = sum(role.replicas for role in run.roles.values())
    yield role_pod_set(f"{path}.roles.{name}", path, run, role, NODE, count)


def _replicas(body: Body) -> tuple[Replicas, ...]:
    return count_jobs({NODE: 1}, (body.get("status") or {}).get("jobsStatus"))


def _runtime_reference(body: Body) -> Body:
    """Return the apiVersion, kind and metadata of the TrainingRuntime that a TrainJob refers to."""
    metadata = {"name": body["spec"]["runtimeRef"]["name"], "namespace": body["metadata"]["namespace"]}
    return {"apiVersion": body["apiVersion"], "kind": "TrainingRuntime", "metadata": metadata}


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
    role_label=REPLICATED_JOB_LABEL,
    index_label=COMPLETION_INDEX_LABEL,
    framework="trainer.kubeflow.org/trainjob",
    replicas=_replicas,
    companion_reference=_runtime_reference,
)
