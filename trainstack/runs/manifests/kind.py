"""The differences between kinds of workloads. Each kind's module has one `WorkloadKind`; `registry` lists them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel

from trainstack.objects.labels import LAUNCH, Manifest
from trainstack.runs.launch import Launch
from trainstack.runs.role_pods import RolePods, apply_overrides, role_pods
from trainstack.settings.sections.workloads import Mount, PodOverrides, Resources, Workload

Body = Mapping[str, Any]
"""A manifest, or a live object."""

DEFAULT_REPLICA_ROLE = "pod"
"""The role in the views of pods that have no role."""
DEFAULT_POD_SET = "main"
"""Kueue's name of the only pod set of a kind without roles."""
REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
COMPLETION_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
SUCCEEDED_CONDITIONS, FAILED_CONDITIONS = frozenset({"Complete", "Completed", "Succeeded"}), frozenset({"Failed"})
"""The types of the conditions of a launch that has ended."""
TIME_LIMITS = ("active_deadline_seconds", "ttl_seconds_after_finished")


@dataclass(frozen=True)
class Replicas:
    """The pods of one role as counted by the launch's controller; for a JobSet and a TrainJob, the Jobs."""

    role: str
    of: int
    """The expected number: the role's replicas, or the pods of a Job that must succeed."""
    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class LaunchedPods:
    """The pods of one role in a launch's object."""

    name: str
    """The role in lower case, or the Job of a JobSet; `main` if there is only one. Kueue uses the same names."""
    count: int
    """The number of pods that run at once."""
    template: Body
    """The pod template. Without its runtime, a TrainJob has only the fields that it sets for the one container."""
    path: str | None = None
    """The path of the template in the object, in the notation of `settings.values.paths`; empty for a Pod, which is its
    own template. None if the object does not contain it: that of a TrainJob is in its runtime."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The fields of the object with the number of pods, by path, which are changed together; empty if it has none."""

    @property
    def spec(self) -> Body:
        spec: Body = self.template["spec"]
        return spec


@dataclass(frozen=True)
class OperatorController:
    """The features by which an operator's controller is recognized, wherever it is installed."""

    title: str
    names: tuple[str, ...]
    """The names of its Deployment in releases and charts; a container may have the same name."""
    labels: Mapping[str, str]
    """The labels of its Deployment, and usually of its pods."""
    images: tuple[str, ...]
    """The last parts of its images' repositories."""


@dataclass(frozen=True)
class RunPodSet:
    """The pods of a run that share one template, with the paths of their settings."""

    path: str
    name: str
    """The role, or the kind of a run without roles."""
    count: int
    """The number of pods that run at once."""
    resources: Resources
    resources_path: str
    mounts: tuple[Mount, ...]
    mounts_path: str
    settings: RolePods
    """The settings of the pods. Those of a TrainJob's roles are equal, and so these are the first role's."""
    run_path: str
    overrides: frozenset[str] = frozenset()
    """The names of the settings that the role overrides."""
    template_path: str | None = None
    """The path of the template in a manifest, which is the `pod_patch` of the settings; None without a manifest."""
    claim_paths: tuple[str, ...] = ()
    """The paths of the volumes of a manifest that `mounts` mount; empty without a manifest."""

    def mount_path(self, index: int, field: str) -> str:
        """Return the path of a field of a mount, or of the same field of its claim in the manifest."""
        if not self.claim_paths:
            return f"{self.mounts_path}[{index}].{field}"
        claim_field = {"volume": "claimName", "readOnly": "readOnly"}.get(field)
        path = self.claim_paths[index]
        return path if claim_field is None else f"{path}.persistentVolumeClaim.{claim_field}"

    def setting_path(self, field: str) -> str:
        """Return the path of the setting that applies to the pods, of the role, of the run or in the manifest."""
        if self.template_path is not None:
            return self.template_path if field == "pod_patch" else f"{self.template_path}.spec.{to_camel(field)}"
        return f"{self.path if field in self.overrides else self.run_path}.{to_camel(field)}"

    def relative_path(self, path: str) -> str:
        """Return a path of a setting relative to the run."""
        return path.removeprefix(f"{self.run_path}.")


def launch_label(launch: Body) -> tuple[str, str]:
    """Return the label of Trainstack's own pods for the launch of an object."""
    return LAUNCH, str(launch["metadata"]["labels"][LAUNCH])


def status_conditions(launch: Body) -> Sequence[Body]:
    return (launch.get("status") or {}).get("conditions") or ()


@dataclass(frozen=True, kw_only=True)
class WorkloadKind:
    """A kind of workloads: how its launches are built, named, read back and followed on a cluster."""

    api_version: str
    framework: str
    """Kueue's name of the integration that manages the kind."""
    build: Callable[[Workload, str, Launch], Manifest]
    """A function that builds the launch's object for a stack. It raises WorkloadError."""
    build_companion: Callable[[Workload, str, Launch], Manifest | None] = lambda *_: None
    """A function that builds the second object, to which the launch refers; it returns None if there is none. It raises
    WorkloadError."""
    companion_reference: Callable[[Body], Body | None] = lambda _: None
    """A function that returns the apiVersion, kind and metadata of the companion of a launch's object."""
    derived_names: Callable[[Body, str], list[str]]
    """A function that returns the longest names that the controller derives from the name of a launch's object, given
    the object and the name."""
    service_note: str = ""
    """Why the object's name must start with a letter, such as `JobSet gives it a Service`; empty if it need not."""
    launched_pods: Callable[[Body, tuple[Body, ...]], Iterator[LaunchedPods]]
    """A function that reads the pods of a launch back from its object and its companions."""
    pod_sets: Callable[[str, Workload], Iterator[RunPodSet]]
    """A function that yields the pod sets of a run at a path of the settings, that of rank 0 first."""
    replicas: Callable[[Body], tuple[Replicas, ...]]
    """A function that returns the replicas of a live launch by role."""
    conditions: Callable[[Body], Sequence[Body]] = status_conditions
    """A function that returns the conditions of a live launch. `Complete`, `Completed` and `Succeeded` mean success,
    `Failed` failure. A kind whose status has no conditions derives them from other fields."""
    definition: str | None = None
    """The name of the CustomResourceDefinition; None for a kind that every cluster has."""
    operator: str | None = None
    """The key of the controller in `preflight.operator_facts.OPERATORS`; None for a kind of Kubernetes itself."""
    controller: OperatorController | None = None
    """The controller, if environments cannot install its operator."""
    connects_to_pods: bool = False
    """Whether the controller connects to the pods, which the network policy of an isolated namespace denies."""
    pod_label: Callable[[Body], tuple[str, str]] = launch_label
    """A function that returns a label, with its value, that all pods of a live launch have and no other pod."""
    role_label: str | None = None
    """The label of pods with their role in lower case; None if all pods have one role."""
    first_roles: tuple[str, ...] = ("master",)
    """The roles whose pods are listed first, in this order; the others follow in alphabetical order. The log of the
    first pod is the log of the launch."""
    owners_of_pods: tuple[str, ...] = ()
    """The CustomResourceDefinitions of the owners between a launch and its pods, besides Jobs and JobSets."""
    operator_volumes: Callable[[Body], Collection[str]] = lambda _: ()
    """A function that returns the volumes that the operator adds to the pods of a launch, for their containers."""
    managed_by: tuple[str, ...] | None = None
    """The path of the field `managedBy`, by which MultiKueue manages the launch; None if the kind is not dispatched."""
    index_label: str | None = None
    """The label of pods with their index within the role, from 0; None for a single pod."""


def explicit_fields(workload: Workload, *fields: str) -> Manifest:
    """Return the values of those fields that the workload sets, by their names in the API."""
    values = {to_camel(field): getattr(workload, field) for field in fields if workload.has_field(field)}
    return {key: value for key, value in values.items() if value is not None}


def count_replicas(role: str, expected: int, status: Body) -> Replicas:
    """Return the replicas of a role from a part of a live object's status, which omits counts of zero."""
    return Replicas(role, expected, **{state: status.get(state) or 0 for state in ("active", "succeeded", "failed")})


def count_jobs(expected_by_job: Mapping[str, int], job_statuses: Sequence[Body] | None) -> tuple[Replicas, ...]:
    """Return the replicas of a JobSet's Jobs. `expected_by_job`: the declared number of each Job by its name."""
    status_by_job = {job["name"]: job for job in job_statuses or ()}
    return tuple(
        count_replicas(name, expected, status_by_job.get(name, {})) for name, expected in expected_by_job.items()
    )


def single_pod_set(path: str, run: Workload) -> Iterator[RunPodSet]:
    (settings,) = role_pods(run)
    yield RunPodSet(
        path=path,
        name=run.kind,
        count=run.pods_at_once,
        resources=run.resources,
        resources_path=f"{path}.resources",
        mounts=run.volumes,
        mounts_path=f"{path}.volumes",
        settings=settings,
        run_path=path,
    )


def role_pod_sets(path: str, run: Workload, names: Iterable[str] | None = None) -> Iterator[RunPodSet]:
    """Yield the pod sets of a kind whose roles are pod sets of Kueue. `names`: their order, by default alphabetical."""
    for name in sorted(run.roles) if names is None else names:
        role = run.roles[name]
        yield role_pod_set(f"{path}.roles.{name}", path, run, role, name, role.replicas)


def replica_spec_pods(launch: Body, specs_field: str) -> Iterator[LaunchedPods]:
    """Yield the pods of a Kubeflow job by the field with its replica specs, in Kueue's order: the master first."""
    for name, role in sorted(launch["spec"][specs_field].items()):
        path = f"spec.{specs_field}.{name}"
        count = role.get("replicas")
        counts = {} if count is None else {f"{path}.replicas": count}
        yield LaunchedPods(name.lower(), 1 if count is None else count, role["template"], f"{path}.template", counts)


def count_replica_specs(specs: Mapping[str, Body], status: Body | None) -> tuple[Replicas, ...]:
    """Return the replicas of a Kubeflow job by its replica specs and its status."""
    replica_statuses = (status or {}).get("replicaStatuses") or {}
    return tuple(
        count_replicas(role.lower(), spec.get("replicas") or 1, replica_statuses.get(role) or {})
        for role, spec in sorted(specs.items())
    )


def role_pod_set(
    role_path: str, path: str, run: Workload, overrides: PodOverrides, role: str, count: int, *, name: str = ""
) -> RunPodSet:
    """Return the pod set of a role whose overrides are at `role_path`; the settings of its run are at `path`.

    `name`: of the pod set; by default the role's.
    """
    return RunPodSet(
        path=role_path,
        name=name or role,
        count=count,
        resources=overrides.resources or run.resources,
        resources_path=f"{role_path if overrides.resources else path}.resources",
        mounts=run.volumes if overrides.volumes is None else overrides.volumes,
        mounts_path=f"{path if overrides.volumes is None else role_path}.volumes",
        settings=apply_overrides(run, overrides, role, count),
        run_path=path,
        overrides=frozenset(field for field in PodOverrides.model_fields if getattr(overrides, field) is not None),
    )
