"""The differences between the kinds of launches, for code that reads their state: one entry per kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.pods import NODE
from trainstack.settings.sections.workloads import Workload

Body = Mapping[str, Any]
"""A live object as the API server gives it."""


@dataclass(frozen=True)
class Replicas:
    """The pods of one role as counted by the launch's controller; for a JobSet and a TrainJob, the Jobs."""

    role: str
    of: int
    """The desired number: the role's replicas, or a Job's completions."""
    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class LaunchKind:
    """How to read the state of a kind, and the role and index of its pods."""

    api_version: str
    definition: str | None
    """The CustomResourceDefinition; None for a built-in kind."""
    operator: str | None
    """The operator's key in `preflight.live_context.OPERATORS`; None for a built-in kind."""
    role_label: str | None
    """The pods' label with their role in lower case; None if there is only one role."""
    index_label: str | None
    """The pods' label with their index within the role, from 0; None if there is one pod."""
    framework: str
    """The name of Kueue's integration for the kind."""
    replicas: Callable[[Body], tuple[Replicas, ...]]
    companion: Callable[[Body], Body | None] = lambda _: None
    """The identity of the object that the launch refers to."""


ONLY_ROLE = "pod"
"""The role of pods without roles."""


def _counted(role: str, of: int, status: Body) -> Replicas:
    """Kubernetes leaves counts of zero out."""
    return Replicas(role, of, **{each: status.get(each) or 0 for each in ("active", "succeeded", "failed")})


def _job_replicas(body: Body) -> tuple[Replicas, ...]:
    spec = body["spec"]
    return (_counted(ONLY_ROLE, spec.get("completions") or spec.get("parallelism") or 1, body.get("status") or {}),)


def _pod_replicas(body: Body) -> tuple[Replicas, ...]:
    counts = {"Pending": "active", "Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    counted = counts.get((body.get("status") or {}).get("phase", ""))
    return (_counted(ONLY_ROLE, 1, {counted: 1} if counted else {}),)


def _pytorchjob_replicas(body: Body) -> tuple[Replicas, ...]:
    counted = (body.get("status") or {}).get("replicaStatuses") or {}
    return tuple(
        _counted(role.lower(), spec.get("replicas") or 1, counted.get(role) or {})
        for role, spec in sorted(body["spec"]["pytorchReplicaSpecs"].items())
    )


def _jobs(declared: Mapping[str, int], counted: Sequence[Body] | None) -> tuple[Replicas, ...]:
    """The Jobs of a JobSet, by their declared names."""
    status = {each["name"]: each for each in counted or ()}
    return tuple(_counted(name, of, status.get(name, {})) for name, of in declared.items())


def _jobset_replicas(body: Body) -> tuple[Replicas, ...]:
    declared = {each["name"]: each.get("replicas") or 1 for each in body["spec"]["replicatedJobs"]}
    return _jobs(declared, (body.get("status") or {}).get("replicatedJobsStatus"))


def _trainjob_replicas(body: Body) -> tuple[Replicas, ...]:
    return _jobs({NODE: 1}, (body.get("status") or {}).get("jobsStatus"))


def _runtime(body: Body) -> Body:
    """The identity of the TrainingRuntime of a TrainJob, which has the pods' volumes."""
    metadata = {"name": body["spec"]["runtimeRef"]["name"], "namespace": body["metadata"]["namespace"]}
    return {"apiVersion": body["apiVersion"], "kind": "TrainingRuntime", "metadata": metadata}


_JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX = "batch.kubernetes.io/job-completion-index"

KINDS: Mapping[str, LaunchKind] = MappingProxyType(
    {
        "Job": LaunchKind(
            api_version="batch/v1",
            definition=None,
            operator=None,
            role_label=None,
            index_label=_INDEX,
            framework="batch/job",
            replicas=_job_replicas,
        ),
        "JobSet": LaunchKind(
            api_version="jobset.x-k8s.io/v1alpha2",
            definition="jobsets.jobset.x-k8s.io",
            operator="jobset",
            role_label=_JOB_NAME,
            index_label=_INDEX,
            framework="jobset.x-k8s.io/jobset",
            replicas=_jobset_replicas,
        ),
        "Pod": LaunchKind(
            api_version="v1",
            definition=None,
            operator=None,
            role_label=None,
            index_label=None,
            framework="pod",
            replicas=_pod_replicas,
        ),
        "PyTorchJob": LaunchKind(
            api_version="kubeflow.org/v1",
            definition="pytorchjobs.kubeflow.org",
            operator="training-operator",
            role_label="training.kubeflow.org/replica-type",
            index_label="training.kubeflow.org/replica-index",
            framework="kubeflow.org/pytorchjob",
            replicas=_pytorchjob_replicas,
        ),
        "TrainJob": LaunchKind(
            api_version="trainer.kubeflow.org/v1alpha1",
            definition="trainjobs.trainer.kubeflow.org",
            operator="trainer",
            role_label=_JOB_NAME,
            index_label=_INDEX,
            framework="trainer.kubeflow.org/trainjob",
            replicas=_trainjob_replicas,
            companion=_runtime,
        ),
    }
)
"""By the kind of the launch's object."""

_LAUNCHED_AS: Mapping[str, str] = MappingProxyType({"DataLoader": "Job"})
"""Kinds of workloads that are launched as an object of another kind."""


def launched_as(run: Workload) -> str:
    """The kind of the object that executes a run."""
    return _LAUNCHED_AS.get(run.kind, run.kind)


def framework_of(run: Workload) -> str:
    """Kueue's name of the integration that a run needs."""
    return KINDS[launched_as(run)].framework


def claims(body: Body, companions: Iterable[Body] = ()) -> tuple[str, ...]:
    """The PersistentVolumeClaims that a launch's pods mount; for a TrainJob they are in its runtime."""
    volumes = (
        volume
        for pods in launched_pods(body, companions)
        for volume in pods.spec.get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
    return tuple(sorted({str(volume["persistentVolumeClaim"]["claimName"]) for volume in volumes}))
