"""What differs between the kinds of workloads: each kind's module has one `WorkloadKind`, and `registry` lists them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from trainstack.objects.labels import Manifest
from trainstack.runs.launch import Launch
from trainstack.settings.sections.workloads import Mount, PodOverrides, Resources, Workload

Body = Mapping[str, Any]
"""A manifest, or a live object."""

ONLY_ROLE = "pod"
"""The role of pods that have none."""
ONLY = "main"
"""Kueue's name of the pod set of a kind that has one."""
JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "batch.kubernetes.io/job-completion-index"
SUCCEEDED, FAILED = frozenset({"Complete", "Completed", "Succeeded"}), frozenset({"Failed"})
"""The conditions by which a launch has ended."""
LIMITS = ("active_deadline_seconds", "ttl_seconds_after_finished")


@dataclass(frozen=True)
class Replicas:
    """The pods of one role, counted by the launch's controller; of a JobSet and of a TrainJob the Jobs."""

    role: str
    of: int
    """How many there are to be: the role's replicas, or the pods of a Job that must succeed."""
    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class LaunchedPods:
    name: str
    """The role in lower case, or the Job of a JobSet; `main` where there is only one. Kueue uses the same names."""
    count: int
    """How many run at once."""
    template: Body
    """The template of each. A TrainJob without its runtime has only the fields that it sets for the one container."""

    @property
    def spec(self) -> Body:
        spec: Body = self.template["spec"]
        return spec


@dataclass(frozen=True)
class Controller:
    """How the controller of an operator is recognized, wherever it is installed."""

    title: str
    names: tuple[str, ...]
    """Of its Deployment, in its releases and charts; a container may have the same name."""
    labels: Mapping[str, str]
    """Of its Deployment, and usually of its pods."""
    images: tuple[str, ...]
    """The last part of its image's repository."""


@dataclass(frozen=True)
class PodSet:
    """Pods of a run with one template."""

    path: str
    name: str
    """The role, or the kind of a run without roles."""
    count: int
    """How many run at once."""
    resources: Resources
    resources_path: str
    mounts: tuple[Mount, ...]
    mounts_path: str


def status_conditions(launch: Body) -> Sequence[Body]:
    return (launch.get("status") or {}).get("conditions") or ()


@dataclass(frozen=True, kw_only=True)
class WorkloadKind:
    """A kind: how a launch of it is built, named, read back and followed on a cluster."""

    api_version: str
    framework: str
    """Kueue's name of the integration that manages it."""
    build: Callable[[Workload, str, Launch], Manifest]
    """The launch's object, for a stack. Raises WorkloadError."""
    companion: Callable[[Workload, str, Launch], Manifest] | None = None
    """The object that the launch refers to, of a kind that needs a second one. Raises WorkloadError."""
    companion_of: Callable[[Body], Body | None] = lambda _: None
    """What is needed to read the companion of a launch: its identity, as far as the launch names it."""
    derived_names: Callable[[Workload, str], list[str]]
    """The longest names that its controller derives from the name of the launch's object."""
    service: str = ""
    """Who creates a Service of the object's name, which must begin with a letter then; empty: no controller does."""
    launched_pods: Callable[[Body, tuple[Body, ...]], Iterator[LaunchedPods]]
    """The pods of a launch, read back from its object and its companions."""
    pod_sets: Callable[[str, Workload], Iterator[PodSet]]
    """The pod sets of a run at a path of the settings, the leading one (of rank 0) first."""
    replicas: Callable[[Body], tuple[Replicas, ...]]
    """The state of a live launch by role."""
    conditions: Callable[[Body], Sequence[Body]] = status_conditions
    """The conditions of a live launch. With `Complete`, `Completed` or `Succeeded` it has succeeded, with `Failed` it
    has failed. A kind whose status has no conditions derives them from other fields."""
    definition: str | None = None
    """The CustomResourceDefinition; None for a kind that every cluster has."""
    operator: str | None = None
    """The controller, by the key of `preflight.operator_facts.OPERATORS`; None for the cluster itself."""
    controller: Controller | None = None
    """The controller, if environments cannot install its operator."""
    connects_to_pods: bool = False
    """Whether the controller connects to the pods, which an isolated namespace does not allow."""
    role_label: str | None = None
    """The pods' label with their role in lower case; None if all pods have one role."""
    first_roles: tuple[str, ...] = ("master",)
    """The roles whose pods are listed first, in this order; the others are in alphabetical order. The log of the first
    pod is the launch's."""
    owners_of_pods: tuple[str, ...] = ()
    """The definitions of objects that the launch owns and that own pods, besides Jobs and JobSets."""
    managed_by: tuple[str, ...] | None = None
    """The path of the field `managedBy`, which leaves the launch to MultiKueue; None: it is not dispatched."""
    index_label: str | None = None
    """The pods' label with their index within the role, from 0; None for a single pod."""


def set_fields(workload: Workload, *fields: str) -> Manifest:
    """Return the fields that the workload sets, by their names in the API."""
    values = {to_camel(field): getattr(workload, field) for field in fields if workload.has_field(field)}
    return {key: value for key, value in values.items() if value is not None}


def count_replicas(role: str, of: int, status: Body) -> Replicas:
    """The pods of a role by a part of a live object's status, which leaves out counts of zero."""
    return Replicas(role, of, **{state: status.get(state) or 0 for state in ("active", "succeeded", "failed")})


def count_jobs(declared: Mapping[str, int], counted: Sequence[Body] | None) -> tuple[Replicas, ...]:
    """The Jobs of a JobSet, by the name that they are declared under."""
    status = {job["name"]: job for job in counted or ()}
    return tuple(count_replicas(name, of, status.get(name, {})) for name, of in declared.items())


def only_pod_set(path: str, run: Workload) -> Iterator[PodSet]:
    yield PodSet(path, run.kind, run.pods_at_once, run.resources, f"{path}.resources", run.volumes, f"{path}.volumes")


def role_pod_sets(path: str, run: Workload, names: Iterable[str] | None = None) -> Iterator[PodSet]:
    """The pods of a kind for which each role is a pod set of Kueue; `names`: their order, by default the alphabet."""
    for name in sorted(run.roles) if names is None else names:
        role = run.roles[name]
        yield overridden(f"{path}.roles.{name}", path, run, role, name, role.replicas)


def replica_spec_pods(specs: Mapping[str, Body]) -> Iterator[LaunchedPods]:
    """The pods of a Kubeflow job by its replica specs, in Kueue's order: the master or launcher first."""
    for name, role in sorted(specs.items()):
        yield LaunchedPods(name.lower(), role.get("replicas", 1), role["template"])


def count_replica_specs(specs: Mapping[str, Body], status: Body | None) -> tuple[Replicas, ...]:
    """The state of a Kubeflow job's replica specs by its status."""
    counted = (status or {}).get("replicaStatuses") or {}
    return tuple(
        count_replicas(role.lower(), spec.get("replicas") or 1, counted.get(role) or {})
        for role, spec in sorted(specs.items())
    )


def overridden(own_path: str, path: str, run: Workload, own: PodOverrides, name: str, count: int) -> PodSet:
    """The pods of a role, at `own_path`, which overrides some settings of its run, at `path`."""
    return PodSet(
        path=own_path,
        name=name,
        count=count,
        resources=own.resources or run.resources,
        resources_path=f"{own_path if own.resources else path}.resources",
        mounts=run.volumes if own.volumes is None else own.volumes,
        mounts_path=f"{path if own.volumes is None else own_path}.volumes",
    )
