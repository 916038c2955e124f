"""Section `trainstack:workloads`, and `workloads/<name>/workload.yaml`: the workloads to train."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails

from trainstack.settings.base import ApiFields, FilePath, Section, Toleration, UniqueNames, raise_faults
from trainstack.settings.errors import suggest_name
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.elastic import Elastic
from trainstack.settings.sections.jobsets import DependsOn, FailurePolicy, Network, SuccessPolicy
from trainstack.settings.sections.kueue_object import KueueObject
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.ray import RayParameter, RayVersion, RuntimeEnv
from trainstack.settings.sections.secrets import EnvSource, SecretValue
from trainstack.settings.sections.topology import FIELDS_BY_ANNOTATION, TopologyRequest, faults_of_pod_sets
from trainstack.settings.sections.workload_manifest import check_pods, faults_of_manifest, without_empty_status
from trainstack.settings.values.kubernetes import (
    AbsolutePath,
    Annotations,
    ContainerResource,
    DnsLabel,
    DnsName,
    EnvName,
    ImageReference,
    Int64,
    Labels,
    MountPath,
    NonNegative,
    Parallelism,
    PodField,
    Positive,
    VolumePath,
)
from trainstack.settings.values.pod_patch import PodPatch
from trainstack.settings.values.quantities import Quantity

RoleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$", max_length=63)]

ManifestFields = Annotated[
    ApiFields,
    AfterValidator(without_empty_status),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object", "required": ["apiVersion", "kind"]}]}),
]
"""An object. In files it may be the name of another file, which the loader reads."""


CLUSTER_RUNTIME = "ClusterTrainingRuntime"
"""The kind of the runtimes of a cluster, which is the API's default."""


@dataclass(frozen=True)
class RuntimeReference:
    """A runtime that defines the pods of a TrainJob."""

    kind: str
    """ClusterTrainingRuntime, or TrainingRuntime of the run's namespace."""
    name: str
    path: str
    """The path of the name relative to the workload."""


class Image(Section):
    """The image of a workload: built from a folder of this repository, or referred to by name."""

    build: FilePath | None = None
    """A folder of this repository with a Dockerfile; the image's tag is a hash of its content."""
    name: ImageReference | None = None
    """A reference such as `pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel` or `repository@sha256:…`."""

    @classmethod
    def of_manifest(cls) -> "Image":
        """Return the image of a workload with a manifest, which has the images of its containers."""
        return cls.model_construct()

    @model_validator(mode="after")
    def _check_source(self) -> "Image":
        if (self.build is None) == (self.name is None):
            raise ValueError("an image needs exactly one source: set either build or name")
        return self


class Mount(Section):
    """A volume claim in a pod."""

    volume: DnsLabel
    """The claim's name, in the run's namespace."""
    mount_path: MountPath
    sub_path: VolumePath | None = None
    """The folder or file of the volume to mount; None: the whole volume, which a `record` and `data` require."""
    read_only: bool = False


class Resources(Section):
    """A container's requests and limits; a limit without a request is also the request."""

    requests: dict[ContainerResource, Quantity] = Field(default_factory=dict)
    limits: dict[ContainerResource, Quantity] = Field(default_factory=dict)


class Data(Section):
    """The files that a run reads. The digest of their manifest is part of the run's identity."""

    manifest: FilePath
    """A committed copy of the prepared folder's manifest.json, in this repository."""
    volume: DnsLabel
    path: str = Field(pattern=r"^[^/]")
    """The folder on the volume."""
    prepare: FilePath | None = None
    """A Python module of this repository that writes the files into the folder given as its argument. `trainstack up`
    runs it locally if the volume lacks the files. None: upload the files yourself (`trainstack upload`)."""


class Record(Section):
    """The place of a managed workload's records: `<path>/<run-id>/` on the volume."""

    volume: DnsLabel
    path: str = Field("runs", pattern=r"^[^/]")


class PodOverrides(Section):
    """Overrides of the workload's fields for some of its pods. None: the workload's value.

    A list or map replaces the workload's; an empty one removes it.
    """

    args: tuple[str, ...] | None = None
    env: dict[EnvName, str] | None = None
    volumes: tuple[Mount, ...] | None = None
    shared_memory: Quantity | None = None
    scratch: tuple[Scratch, ...] | None = None
    resources: Resources | None = None
    node_selector: Labels | None = None
    tolerations: tuple[Toleration, ...] | None = None
    affinity: Affinity | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    topology_request: TopologyRequest | None = None
    run_as_user: Positive | None = None
    run_as_group: NonNegative | None = None
    fs_group: NonNegative | None = None
    security: Literal["restricted", "baseline"] | None = None
    capabilities: Capabilities | None = None
    pod_patch: PodPatch | None = None


class Role(PodOverrides):
    """One role of a distributed job."""

    replicas: Positive = 1
    command: tuple[str, ...] | None = None
    """Of an MPIJob's workers; None: its operator starts an SSH server."""
    restart_policy: Literal["Never", "OnFailure", "Always", "ExitCode"] = "OnFailure"
    min_replicas: NonNegative | None = None
    """Of a RayJob's workers, for an autoscaler; None: `replicas`."""
    max_replicas: Positive | None = None
    """Of a RayJob's workers, for an autoscaler; None: `replicas`."""
    ray_start_params: dict[RayParameter, str] = Field(default_factory=dict)
    """Of a RayJob's head and workers: parameters of `ray start`, such as `num-cpus: "0"`."""


class ReplicatedJob(PodOverrides):
    """Identical Jobs of a JobSet."""

    name: DnsLabel
    replicas: Positive = 1
    """The number of Jobs."""
    parallelism: Parallelism = 1
    """Concurrent pods of each Job."""
    completions: Positive | None = None
    """Pods of each Job that must succeed; None: `parallelism`."""
    command: tuple[str, ...] | None = None
    backoff_limit: NonNegative | None = None
    restart_policy: Literal["Never", "OnFailure"] = "OnFailure"
    depends_on: tuple[DependsOn, ...] = Field((), max_length=5)

    @property
    def pods_to_succeed(self) -> int:
        """The number of pods of each Job that must succeed."""
        return self.completions or self.parallelism

    @property
    def pods_at_once(self) -> int:
        """The number of concurrent pods of all Jobs together."""
        return self.replicas * min(self.parallelism, self.pods_to_succeed)


class Workload(Section):
    """A training workload. Each change that may affect its result makes a new run."""

    name: DnsLabel
    """Also the name of the folder `workloads/<name>/`. With `naming: derived` and for sweeps it has at most 45
    characters, since a label value contains it with two hashes, and fewer for kinds whose pods' names contain them."""
    kind: Literal["Pod", "Job", "PyTorchJob", "DataLoader", "TrainJob", "JobSet", "MPIJob", "RayJob", "Object"]
    """`DataLoader` is a Job whose idle pod is used to copy files. `Object` is any other kind that Kueue queues."""
    naming: Literal["derived", "fixed", "generated"] = "derived"
    """The object's name. `derived`: `<name>-<run>-<launch>`, with hashes of its content, so that each launch is a new
    object. `fixed`: `<name>`, or the name in a manifest, and `<name>-<number>` for a sweep's trial; a new launch
    replaces the object. `generated`: `<name>-`, or the prefix in a manifest, and five characters that the API server
    chooses, for clusters that require it."""
    namespace: DnsLabel
    queue: DnsLabel | None = None
    """The LocalQueue; None: Kueue does not queue the workload."""
    priority: DnsName | None = None
    """A WorkloadPriorityClass: the priority in the queue."""
    priority_class_name: DnsName | None = None
    """A PriorityClass of Kubernetes, by which the scheduler orders and preempts pods. Without `priority`, Kueue also
    orders the queue by it, and verdicts that depend on it are `unknown`."""
    managed: bool = True
    """The wrapper runs the program: it records and resumes runs, and publishes their results once. False: the image
    runs unchanged."""
    container: DnsLabel | None = None
    """The name of the main container; None: `training`, of a DataLoader `data-loader`, of a PyTorchJob `pytorch`, which
    its operator requires."""
    image: Image = Field(default_factory=Image.of_manifest)
    """Required, unless the workload is a manifest."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: UniqueNames = ()
    """Secrets of the run's namespace with the credentials of registries."""
    command: tuple[str, ...] = ()
    """The program; empty: the image's entrypoint, which only an unmanaged workload may use."""
    args: tuple[str, ...] = ()
    working_dir: AbsolutePath | None = None
    env: dict[EnvName, str] = Field(default_factory=dict)
    secret_env: dict[EnvName, SecretValue] = Field(default_factory=dict)
    """Variables with values from Secrets, to which those of `env` may refer as `$(NAME)`. The references, but not the
    values, are part of the run's identity."""
    field_env: dict[EnvName, PodField] = Field(default_factory=dict)
    """Variables with fields of the pod, such as `metadata.name` or `spec.nodeName`, to which those of `env` may refer
    as `$(NAME)`."""
    env_from: tuple[EnvSource, ...] = ()
    """Secrets and ConfigMaps whose keys become variables; variables of the same name take precedence. The references,
    but not the contents, are part of the run's identity."""
    seed: Int64 | None = None
    """Part of the run's identity; passed to the program as TRAINSTACK_SEED."""
    attempt: Positive = 1
    """Raise it to repeat a run."""
    adopt: bool = False
    """The run was launched without Trainstack. `up` records it as launched, and neither launches it nor changes its
    object. To launch it again, leave `adopt` out and raise `attempt`."""
    depends_on: tuple[DnsLabel, ...] = ()
    """Workloads of the same namespace whose runs must succeed before this one is launched, such as a run that fills a
    volume. A data loader has succeeded when it is removed after its launch."""
    code: Code | None = None
    """A git checkout for the pods; None: the image contains the program."""
    data: Data | None = None
    record: Record | None = None
    """Required for a managed workload."""
    volumes: tuple[Mount, ...] = ()
    shared_memory: Quantity | None = None
    """The size of /dev/shm, which data loader processes use; None: the container runtime's 64 MiB."""
    scratch: tuple[Scratch, ...] = ()
    resources: Resources = Resources()
    node_selector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    """Annotations of the pods."""
    object_annotations: Annotations = Field(default_factory=dict)
    """Annotations of the object itself, such as `sagemaker.amazonaws.com/enable-job-auto-resume: "true"`."""
    topology_request: TopologyRequest | None = None
    """Where Kueue places the pods in the Topology of their flavor; None: no request, and Kueue uses flavors without a
    Topology, unless all flavors of the cluster queue have one."""
    run_as_user: Positive | None = None
    """The user id of the pods, and of a managed run or a DataLoader also the group of their volumes, unless `fsGroup`
    is set. None: the image's user, which a `restricted` namespace accepts only if it is not root."""
    run_as_group: NonNegative | None = None
    """The primary group id of the pods; None: the group of the image's user."""
    fs_group: NonNegative | None = None
    """The group that owns the pods' volumes, where their driver supports it. None: see `runAsUser`."""
    security: Literal["restricted", "baseline"] = "restricted"
    """The Pod Security level that the pods comply with, unless `capabilities`, `hostNetwork`, `hostIPC` or `podPatch`
    need a lower one."""
    capabilities: Capabilities | None = None
    """Security `restricted` drops all capabilities before it adds these."""
    host_network: bool = False
    """Use the node's network, where the namespace enforces Pod Security `privileged`. NetworkPolicies do not apply to
    such pods."""
    host_ipc: Annotated[bool, Field(alias="hostIPC")] = False
    """Share the node's IPC namespace, and so its /dev/shm, where the namespace enforces Pod Security `privileged`."""
    service_account: DnsName | None = None
    """The ServiceAccount of the pods, whose token is then mounted; None: no token is mounted. An unmanaged workload
    with security `baseline` leaves the field out, and the cluster mounts the default ServiceAccount's token."""
    pod_patch: PodPatch | None = None
    """A strategic merge patch of the pod template (`metadata`, `spec`), as `kubectl patch` applies it, for what no
    other field sets. To remove something, use `$patch: delete`: a `null` is removed when files are merged."""
    active_deadline_seconds: Positive | None = None
    expected_duration_seconds: Positive | None = None
    """The expected time from admission to the end of the run; only `trainstack forecast` uses it. None: the time of
    earlier runs, else the deadline."""
    ttl_seconds_after_finished: NonNegative | None = None
    """None: the finished object is kept. A run is launched once, even if its object is deleted."""
    backoff_limit: NonNegative = 0
    completions: Positive = 1
    """Job: how many pods must succeed. An unmanaged Job that leaves it out runs as many pods as its `parallelism`, and
    Kubernetes starts no further one once any has succeeded."""
    parallelism: Parallelism = 1
    """Job: concurrent pods."""
    completion_mode: Literal["NonIndexed", "Indexed"] | None = None
    """Job that is not managed: `Indexed` numbers the pods, by JOB_COMPLETION_INDEX, and requires `completions`. A
    managed Job with several completions is indexed. None: `NonIndexed`."""
    subdomain: DnsLabel | None = None
    """Job and Pod that are not managed: the Service without a cluster IP by which pods find each other, those of an
    indexed Job as `<job>-<index>.<subdomain>`."""
    min_parallelism: Parallelism | None = None
    """Job in a queue: the least number of concurrent pods to admit if the quota does not suffice for `parallelism`; the
    Job then keeps the admitted number. None: the Job waits until all pods fit.

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission
    """
    restart_policy: Literal["Never", "OnFailure", "Always"] = "Never"
    """Pod, Job and DataLoader. Only an unmanaged Pod may have `Always`, which is its default: the manifest then leaves
    the field out, and the cluster's default applies."""
    roles: dict[RoleName, Role] = Field(default_factory=dict)
    """PyTorchJob and TrainJob: `Master` and `Worker`. MPIJob: `Launcher`, which runs the program, and `Worker`.
    RayJob: `head`, which runs the program, worker groups by their names, and `submitter`, a pod that submits the
    program and whose log is the program's; without it, KubeRay submits the program over HTTP. Object: the names in
    `object.pods`."""
    elastic: Elastic | None = None
    """PyTorchJob, which then needs no Master."""
    nproc_per_node: str | None = Field(None, pattern="^(auto|cpu|gpu|[1-9][0-9]*)$")
    """PyTorchJob: processes that torchrun starts in each pod; None: torchrun's default."""
    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """PyTorchJob and MPIJob. The operators' default, `None`, lets workers run after the master's or launcher's success,
    outside the quota."""
    slots_per_worker: Positive | None = None
    """MPIJob: the processes that MPI starts in each worker; None: 1."""
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH"] | None = None
    """MPIJob: the implementation of MPI; None: OpenMPI."""
    ssh_auth_mount_path: AbsolutePath | None = None
    """MPIJob: the folder with the SSH keys, `.ssh` in the home of the image's user; None: `/root/.ssh`."""
    runtime: DnsName | None = None
    """TrainJob that is not managed: a ClusterTrainingRuntime of the cluster, such as `torch-distributed`, which defines
    the pods. The TrainJob sets the program, the number of nodes and their resources, and `labels` are its own. None:
    each launch has a TrainingRuntime of its own."""
    object: KueueObject | None = None
    """Object: its kind, its `spec`, and where it has its pods."""
    manifest: ManifestFields | None = None
    """The object itself as kubectl takes it, or the file with it, relative to the file of this setting. All of its
    fields reach the cluster. Its kind, namespace, queue and priority need no setting of their own, and `managed` is
    false by default; images, programs, resources and everything else about pods are in the manifest only. A file
    `workload.yaml` with `apiVersion` and `kind` is itself the manifest."""
    ray_version: RayVersion | None = None
    """RayJob: the version of Ray in the image, which KubeRay considers; None: it is not declared."""
    runtime_env_yaml: Annotated[RuntimeEnv | None, Field(alias="runtimeEnvYAML")] = None
    """RayJob: Ray's runtime environment, such as packages and variables, as a YAML text."""
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    """JobSet."""
    success_policy: SuccessPolicy | None = None
    """JobSet; None: all Jobs must succeed."""
    failure_policy: FailurePolicy | None = None
    """JobSet; None: the JobSet fails when any Job fails."""
    network: Network | None = None
    """JobSet; None: each pod has the DNS name `<launch>-<job>-<replica>-<index>.<launch>`."""

    @model_validator(mode="after")
    def _check_consistency(self) -> "Workload":
        if self.adopt and self.attempt > 1:
            raise_faults([f"attempt {self.attempt} was not launched elsewhere: leave out adopt, or attempt"])
        if self.manifest is not None:
            raise_faults(self._faults_of_manifest(self.manifest))
            check_pods(self.manifest)
            return self
        if "image" not in self.model_fields_set:
            missing_image = InitErrorDetails(type="missing", loc=("image",), input=None)
            raise ValidationError.from_exception_data("Workload", [missing_image])
        faults = [*_faults_of_kind(self), *(_faults_of_managed(self) if self.managed else ())]
        faults += [*_faults_of_variables(self), *_faults_of_object_annotations(self)]
        faults += _faults_of_topology_requests(self)
        raise_faults([*faults, *_faults_of_pods(self)])
        return self

    def _faults_of_manifest(self, manifest: Mapping[str, Any]) -> Iterator[str]:
        pods = self.object.pods if self.object else None
        yield from faults_of_manifest(manifest, self.kind, self.model_fields_set, pods, API_VERSIONS)
        if self.managed and self.kind not in _MANAGED_MANIFESTS:
            kinds = ", ".join(_MANAGED_MANIFESTS)
            yield f"the wrapper starts the programs of manifests of {kinds} only: set managed to false"
        if self.managed and self.record is None:
            yield "a managed workload needs a record: set the volume that its runs are recorded on"
        for field in ("record", "data", "seed") if not self.managed else ():
            if getattr(self, field) is not None:
                yield f"{field} is for managed workloads: set managed to true, or leave out {field}"

    def runs_program(self, role: str) -> bool:
        """Return whether the arguments of a role are the program's; workers of an MPIJob start an SSH server."""
        return (self.kind, role) != ("MPIJob", "Worker")

    def has_field(self, field: str) -> bool:
        """Return whether the manifest has the field.

        An unmanaged workload's manifest has only the fields that are set; the cluster's defaults apply to the others.
        """
        return self.managed or field in self.model_fields_set

    @property
    def referenced_variables(self) -> frozenset[str]:
        """The names of variables whose values the settings do not contain."""
        return frozenset({*self.secret_env, *self.field_env})

    @property
    def pods_to_succeed(self) -> int:
        """The number of a Job's pods that must succeed."""
        return self.completions if self.has_field("completions") else self.parallelism

    @property
    def pods_at_once(self) -> int:
        """The number of a Job's concurrent pods, as Kueue counts them."""
        return min(self.parallelism, self.pods_to_succeed)

    @property
    def runtime_reference(self) -> RuntimeReference | None:
        """The runtime that defines the pods of a TrainJob; None if it is built from the settings."""
        if self.runtime is not None:
            return RuntimeReference(CLUSTER_RUNTIME, self.runtime, "runtime")
        if self.manifest is None or self.kind != "TrainJob":
            return None
        reference = self.manifest["spec"].get("runtimeRef") or {}
        kind, name = reference.get("kind", CLUSTER_RUNTIME), reference.get("name", "")
        return RuntimeReference(str(kind), str(name), "manifest.spec.runtimeRef.name")

    @property
    def deadline_seconds(self) -> int | None:
        """The seconds after which the cluster ends the run; None if it does not."""
        if self.manifest is None:
            return self.active_deadline_seconds
        spec = self.manifest["spec"]
        deadline = spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
        return deadline if isinstance(deadline, int) else None

    @property
    def restarts_always(self) -> bool:
        """Whether the workload is a Pod that is always restarted, and so never succeeds."""
        if self.kind != "Pod":
            return False
        if self.manifest is not None:
            return bool(self.manifest["spec"].get("restartPolicy", "Always") == "Always")
        return not self.has_field("restart_policy") or self.restart_policy == "Always"


API_VERSIONS: dict[str, str] = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "MPIJob": "kubeflow.org/v2beta1",
    "Pod": "v1",
    "PyTorchJob": "kubeflow.org/v1",
    "RayJob": "ray.io/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
}
"""The API versions of the kinds whose manifests need no `object`, because Trainstack reads their pods."""
_MANAGED_MANIFESTS = ("Job", "Pod", "PyTorchJob")
"""The kinds of the manifests whose program the wrapper can start."""
_GROUP_NAME = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def with_article(kind: str) -> str:
    """Return the kind with its article, for messages: `an MPIJob`."""
    return f"an {kind}" if kind.startswith(("A", "E", "I", "MPI", "O")) else f"a {kind}"


_KINDS_BY_FIELD: dict[str, tuple[str, ...]] = {
    "roles": ("PyTorchJob", "TrainJob", "MPIJob", "RayJob", "Object"),
    "object": ("Object",),
    "elastic": ("PyTorchJob",),
    "nproc_per_node": ("PyTorchJob",),
    "clean_pod_policy": ("PyTorchJob", "MPIJob"),
    "slots_per_worker": ("MPIJob",),
    "mpi_implementation": ("MPIJob",),
    "ssh_auth_mount_path": ("MPIJob",),
    "restart_policy": ("Pod", "Job", "DataLoader"),
    "completions": ("Job", "DataLoader"),
    "parallelism": ("Job", "DataLoader"),
    "min_parallelism": ("Job",),
    "completion_mode": ("Job",),
    "subdomain": ("Job", "Pod"),
    "ray_version": ("RayJob",),
    "runtime_env_yaml": ("RayJob",),
    "backoff_limit": ("Job", "PyTorchJob", "DataLoader", "TrainJob", "JobSet", "MPIJob", "RayJob"),
    # Trainer would recreate the JobSet of a finished TrainJob, and train again.
    "ttl_seconds_after_finished": ("Job", "PyTorchJob", "DataLoader", "JobSet", "MPIJob"),
    "runtime": ("TrainJob",),
    "replicated_jobs": ("JobSet",),
    "success_policy": ("JobSet",),
    "failure_policy": ("JobSet",),
    "network": ("JobSet",),
}
"""The fields that only some kinds have, with those kinds."""
_RAY_FIELDS = ("min_replicas", "max_replicas", "ray_start_params")
"""The fields of the roles of a RayJob."""
_ROLES_BY_KIND: dict[str, tuple[str, ...]] = {
    "PyTorchJob": ("Master", "Worker"),
    "TrainJob": ("Master", "Worker"),
    "MPIJob": ("Launcher", "Worker"),
}
"""The roles of kinds whose roles have fixed names."""
_FIELDS_WITH_RUNTIME = frozenset(
    {
        *("name", "kind", "naming", "namespace", "queue", "priority", "managed", "labels", "attempt", "depends_on"),
        "object_annotations",
        *("image", "command", "args", "env", "secret_env", "seed", "resources", "roles", "runtime"),
        "expected_duration_seconds",
    }
)
"""The fields of a workload whose `runtime` defines the pods."""
_UNMANAGED_REASONS: dict[str, str] = {
    "DataLoader": "runs no program",
    "MPIJob": "starts its processes over SSH, outside the wrapper",
    "RayJob": "starts its program through Ray, outside the wrapper",
    "Object": "may start its processes outside the wrapper",
}
"""The kinds that the wrapper does not support, and so must be unmanaged, with the reason."""


def _faults_of_kind(workload: Workload) -> Iterator[str]:
    kind, kind_phrase = workload.kind, with_article(workload.kind)
    # A field that is set to its default has no effect, so it is accepted.
    for field, kinds in _KINDS_BY_FIELD.items():
        if field in workload.model_fields_set and _has_effect(workload, field) and kind not in kinds:
            yield f"{kind_phrase} has no {to_camel(field)}: leave it out (kinds that have it: {', '.join(kinds)})"
    valid_roles = _ROLES_BY_KIND.get(kind, tuple(workload.roles))
    for name in sorted(workload.roles.keys() - {*valid_roles}):
        yield f"{kind_phrase} has no role {name}: {suggest_name(name, valid_roles)}"
    for name, role in workload.roles.items():
        if role.command is not None and workload.runs_program(name):
            yield f"{name} has no command of its own: remove roles.{name}.command (only workers of an MPIJob have one)"
        for field in _RAY_FIELDS if kind != "RayJob" else ():
            if _has_effect(role, field):
                yield f"{kind_phrase} has no roles.{name}.{to_camel(field)}: leave it out (only a RayJob has it)"
    if workload.restart_policy == "Always" and (kind in ("Job", "DataLoader") or (kind == "Pod" and workload.managed)):
        yield (
            "restartPolicy Always restarts a program that has succeeded, so only an unmanaged Pod may have it: "
            "set Never or OnFailure"
        )
    rules = {
        "Job": _faults_of_job,
        "JobSet": _faults_of_jobset,
        "TrainJob": _faults_of_trainjob,
        "PyTorchJob": _faults_of_pytorchjob,
        "MPIJob": _faults_of_mpijob,
        "RayJob": _faults_of_rayjob,
        "Object": _faults_of_object,
    }
    if kind in rules:
        yield from rules[kind](workload)


def _faults_of_jobset(workload: Workload) -> Iterator[str]:
    jobs, success, failure = workload.replicated_jobs, workload.success_policy, workload.failure_policy
    if not jobs:
        yield "a JobSet needs replicatedJobs: add them"
    references = {
        "successPolicy": success.target_replicated_jobs if success else (),
        "failurePolicy": [name for rule in (failure.rules if failure else ()) for name in rule.target_replicated_jobs],
        "dependsOn": [dependency.name for job in jobs for dependency in job.depends_on],
    }
    names = [job.name for job in jobs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"replicatedJobs has several entries named {name}: use unique names"
    for index, job in enumerate(jobs):
        dependencies = {dependency.name for dependency in job.depends_on}
        # Source: validateCreate of JobSet's webhook.
        for name in sorted(dependencies & {*names} - {*names[:index]}):
            yield f"{job.name} depends on {name}, which is not listed before it: list {name} first"
        if len(dependencies) < len(job.depends_on):
            yield f"{job.name} lists an entry of dependsOn more than once: list it once"
    for field, referenced in references.items():
        for name in referenced:
            if name not in names:
                yield f"{field} refers to {name}, which is not in replicatedJobs: correct the name"


def _faults_of_pytorchjob(workload: Workload) -> Iterator[str]:
    roles = workload.roles
    if workload.container not in (None, "pytorch"):
        yield f"the container of a PyTorchJob must be named pytorch (got {workload.container}): leave out container"
    if workload.elastic is None and "Master" not in roles:
        yield "a PyTorchJob needs roles.Master, unless it is elastic: add it"
    if workload.elastic is not None and "Worker" not in roles:
        yield "an elastic PyTorchJob needs roles.Worker: add it"
    if "Master" in roles and roles["Master"].replicas != 1:
        yield "a PyTorchJob has one Master: leave out its replicas"


def _faults_of_mpijob(workload: Workload) -> Iterator[str]:
    """Source: pkg/apis/kubeflow/validation of the MPI operator."""
    roles = workload.roles
    if "Launcher" not in roles:
        yield "an MPIJob needs roles.Launcher, which runs the program: add it"
    elif roles["Launcher"].replicas != 1:
        yield "an MPIJob has one Launcher: leave out its replicas"
    for name, role in sorted(roles.items()):
        if role.restart_policy not in ("Never", "OnFailure"):
            yield f"the MPI operator refuses restartPolicy {role.restart_policy} of {name}: set Never or OnFailure"
    if workload.ssh_auth_mount_path is None and any(
        (role.security or workload.security) == "restricted" or (role.run_as_user or workload.run_as_user) is not None
        for role in roles.values()
    ):
        yield (
            "its pods do not run as root, whose folder /root/.ssh gets the SSH keys: set sshAuthMountPath to .ssh in "
            "the home of the image's user, or security to baseline"
        )


def _faults_of_rayjob(workload: Workload) -> Iterator[str]:
    """Source: ValidateRayJobSpec of KubeRay, and Kueue's webhook of RayJobs."""
    roles = workload.roles
    if not workload.command:
        yield "a RayJob needs a command, its entrypoint: add it"
    if "head" not in roles:
        yield "a RayJob needs roles.head, which runs the program: add it"
    for name, role in sorted(roles.items()):
        if not _GROUP_NAME.fullmatch(name):
            yield f"worker group {name} is not a DNS label: use lower-case letters, digits and '-'"
        if name in ("head", "submitter") and role.replicas != 1:
            yield f"a RayJob has one {name}: leave out its replicas"
        yield from _faults_of_ray_start(name, role)
        if role.args is not None:
            yield f"the program of a RayJob has one list of arguments: move roles.{name}.args to args"
        if role.restart_policy in (("Always", "ExitCode") if name == "submitter" else ("ExitCode",)):
            yield f"pods of {name} cannot have restartPolicy {role.restart_policy}: leave it out"


def _faults_of_ray_start(name: str, role: Role) -> Iterator[str]:
    scales = role.min_replicas is not None or role.max_replicas is not None
    if scales and name in ("head", "submitter"):
        yield f"only workers are scaled: leave out minReplicas and maxReplicas of {name}"
    elif not (role.min_replicas or 0) <= role.replicas <= (role.max_replicas or role.replicas):
        yield f"replicas of {name} ({role.replicas}) are not between minReplicas and maxReplicas: correct them"
    if role.ray_start_params and name == "submitter":
        yield "the submitter does not start Ray: leave out its rayStartParams"


def _faults_of_object(workload: Workload) -> Iterator[str]:
    if workload.object is None:
        yield "an Object needs object, with its apiVersion, kind, framework and pods: add it"
        return
    supported_kinds = get_args(Workload.model_fields["kind"].annotation)
    if workload.object.kind in supported_kinds:
        yield f"{workload.object.kind} is a kind of its own: set kind to it, and leave out object"
    if workload.active_deadline_seconds is not None:
        yield "activeDeadlineSeconds has no known place in an Object: set the kind's own field in object.spec"
    roles, pods_by_role = workload.roles, {pods.name: pods for pods in workload.object.pods}
    for name in sorted(pods_by_role.keys() - roles.keys()):
        yield f"object.pods has the role {name}, which roles lacks: add roles.{name}"
    for name in sorted(roles.keys() - pods_by_role.keys()):
        yield f"roles has {name}, which object.pods lacks: {suggest_name(name, pods_by_role)}"
    for name in sorted(name for name, role in roles.items() if role.restart_policy == "ExitCode"):
        yield f"pods of {name} cannot have restartPolicy ExitCode: set the kind's own field in object.spec"
    for name in sorted(roles.keys() & pods_by_role.keys()):
        if pods_by_role[name].replicas is None and roles[name].replicas != 1:
            yield f"{name} has {roles[name].replicas} replicas: set the path of their number, replicas, in object.pods"


def _faults_of_job(workload: Workload) -> Iterator[str]:
    if workload.completion_mode is not None and workload.managed:
        yield "a managed Job is indexed if it has several completions: leave out completionMode"
    elif workload.completion_mode == "Indexed" and not workload.has_field("completions"):
        yield "an indexed Job needs completions: add them"
    min_parallelism, at_once = workload.min_parallelism, workload.pods_at_once
    if min_parallelism is not None and min_parallelism >= at_once:
        yield (
            f"minParallelism is {min_parallelism}, but must be less than {at_once} (the smaller of parallelism and "
            "completions): lower it, or leave it out"
        )


def _faults_of_trainjob(workload: Workload) -> Iterator[str]:
    if workload.container not in (None, "node"):
        yield f"the container of a TrainJob must be named node (got {workload.container}): leave out container"
    if "Master" not in workload.roles:
        yield "a TrainJob needs roles.Master: add it"
    if workload.naming == "generated":
        yield "the nodes of a TrainJob resolve the first node's name: set naming to derived or fixed"
    if workload.runtime is not None:
        yield from _faults_of_runtime(workload)


def _faults_of_runtime(workload: Workload) -> Iterator[str]:
    """Yield the settings that no field of a TrainJob has, because its runtime defines the pods."""
    if workload.managed:
        yield "the pods of a runtime do not contain the wrapper: set managed to false, or leave out runtime"
    fields = [field for field in workload.model_fields_set - _FIELDS_WITH_RUNTIME if _has_effect(workload, field)]
    if fields:
        names = ", ".join(sorted(map(to_camel, fields)))
        yield f"runtime {workload.runtime} defines the pods: leave out {names}, or leave out runtime"
    for name, role in sorted(workload.roles.items()):
        for field in sorted(role.model_fields_set - {"replicas"}):
            yield f"runtime {workload.runtime} defines the pods: leave out roles.{name}.{to_camel(field)}"


def _has_effect(section: Section, field: str) -> bool:
    """Return whether a field differs from its default."""
    default = type(section).model_fields[field].get_default(call_default_factory=True)
    return bool(getattr(section, field) != default)


def _faults_of_managed(workload: Workload) -> Iterator[str]:
    if reason := _UNMANAGED_REASONS.get(workload.kind):
        yield f"{with_article(workload.kind)} {reason}: set managed to false"
        return
    if not workload.command:
        yield "a managed workload needs a command: set it, since the wrapper cannot read the image's entrypoint"
    if workload.record is None:
        yield "a managed workload needs a record: set the volume that its runs are recorded on"
    if workload.subdomain is not None:
        yield "the pods of a managed Job or Pod do not find each other: leave out subdomain, or set managed to false"
    jobs = workload.replicated_jobs
    if len(jobs) > 1 or any(job.replicas > 1 for job in jobs):
        yield (
            "the ranks of a managed JobSet are the pods of one Job, but this JobSet has several: keep one entry of "
            "replicatedJobs with replicas 1, or set managed to false"
        )
    if jobs and workload.naming == "generated":
        yield "the pods of a managed JobSet resolve the first pod's name: set naming to derived or fixed"
    if workload.elastic is not None and "Master" not in workload.roles:
        yield "a managed workload needs a rank 0, which writes the record: add roles.Master, or set managed to false"


def _faults_of_object_annotations(workload: Workload) -> Iterator[str]:
    for key in sorted(workload.object_annotations):
        if key == "kueue.x-k8s.io/job-min-parallelism":
            yield f"objectAnnotations set {key}: set minParallelism instead"
        elif key.startswith(("trainstack.dev/", "pulumi.com/")):
            yield f"objectAnnotations set {key}, which Trainstack or the engine reads: leave it out"


def _faults_of_variables(workload: Workload) -> Iterator[str]:
    variables: dict[str, Mapping[str, Any]] = {
        "env": workload.env,
        "secretEnv": workload.secret_env,
        "fieldEnv": workload.field_env,
    }
    for (field, names), (other_field, other_names) in combinations(variables.items(), 2):
        if duplicates := sorted(names.keys() & other_names.keys()):
            yield f"{field} and {other_field} both set {', '.join(duplicates)}: leave them out of one"


def _faults_of_pods(workload: Workload) -> Iterator[str]:
    """Yield the faults of settings that a role may have, too."""
    parts: list[tuple[str, Workload | PodOverrides]] = [
        ("", workload),
        *((f"roles.{name}.", role) for name, role in sorted(workload.roles.items())),
        *((f"{job.name}: ", job) for job in workload.replicated_jobs),
    ]
    for prefix, part in parts:
        security, capabilities = part.security or workload.security, part.capabilities or workload.capabilities
        sets_either = prefix == "" or part.security is not None or part.capabilities is not None
        if sets_either and security == "restricted" and capabilities is not None and capabilities.drop:
            yield f"{prefix}security restricted drops all capabilities: leave out capabilities.drop"
        names = [volume.name for volume in part.scratch or ()]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{prefix}scratch has several entries named {name}: use unique names"


def _faults_of_topology_requests(workload: Workload) -> Iterator[str]:
    parts: list[tuple[str, int, PodOverrides]] = [
        *((name, role.replicas, role) for name, role in sorted(workload.roles.items())),
        *((job.name, job.pods_at_once, job) for job in workload.replicated_jobs),
    ]
    if workload.kind == "TrainJob" and parts:
        # Kueue has one pod set for all nodes of a TrainJob, whatever their roles.
        parts = [(workload.kind, sum(count for _, count, _ in parts), parts[0][2])]
    sole_part = (workload.kind, workload.pods_at_once, PodOverrides())
    pod_sets = [
        (name, count, overrides.topology_request or workload.topology_request)
        for name, count, overrides in parts or [sole_part]
    ]
    yield from faults_of_pod_sets(pod_sets)
    if any(request for _, _, request in pod_sets):
        annotations = {
            **workload.annotations,
            **{key: "" for _, _, overrides in parts for key in overrides.annotations or ()},
        }
        for key in sorted(annotations.keys() & FIELDS_BY_ANNOTATION.keys()):
            yield f"annotations set {key}, which topologyRequest sets: leave it out"


class Workloads(Section):
    """The runs that an environment declares."""

    runs: tuple[Workload, ...] = ()
    exclude: UniqueNames = ()
    """Names of `runs` to ignore, also as dependencies, such as a variant for GPUs on a cluster without GPUs."""
    stop: tuple[str, ...] = ()
    """Ids of queued or running runs that this change may stop."""
    receives: UniqueNames = ()
    """Namespaces with runs that MultiKueue dispatches to this cluster; they get the wrapper of managed runs."""

    @model_validator(mode="after")
    def _check_exclude(self) -> "Workloads":
        names = [run.name for run in self.runs]
        unknown = [name for name in self.exclude if name not in names]
        raise_faults(f"exclude lists {name}, which is not a run: {suggest_name(name, names)}" for name in unknown)
        return self
