"""Section `trainstack:workloads`, and `workloads/<name>/workload.yaml`: what is trained, and how."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from trainstack.settings.base import DnsLabel, DnsName, FilePath, Section, Toleration, UniqueNames
from trainstack.settings.errors import nearest
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.elastic import Elastic
from trainstack.settings.sections.jobsets import DependsOn, FailurePolicy, Network, SuccessPolicy, faults_of_jobs
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.values.kubernetes import (
    AbsolutePath,
    Annotations,
    ContainerResource,
    EnvName,
    ImageReference,
    Int64,
    Labels,
    MountPath,
    NonNegative,
    Parallelism,
    Positive,
)
from trainstack.settings.values.quantities import Quantity

RoleName = Literal["Master", "Worker"]


class Image(Section):
    """The image of a workload: built from this repository, or somebody's by name."""

    build: FilePath | None = None
    """A folder of this repository with a Dockerfile; its content names the image's tag."""
    name: ImageReference | None = None
    """A reference such as `pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel` or `repository@sha256:…`."""

    @model_validator(mode="after")
    def _one_source(self) -> "Image":
        if (self.build is None) == (self.name is None):
            raise ValueError("an image has one source: give either build or name")
        return self


class Mount(Section):
    """A volume claim in a pod."""

    volume: DnsLabel
    """The claim's name, in the run's namespace."""
    mount_path: MountPath
    read_only: bool = False


class Resources(Section):
    """What a container asks for, and the most it gets; a limit alone counts as the request."""

    requests: dict[ContainerResource, Quantity] = Field(default_factory=dict)
    limits: dict[ContainerResource, Quantity] = Field(default_factory=dict)


class Data(Section):
    """The files a run reads: named by the digest of their manifest, so other data is another run."""

    manifest: FilePath
    """A file of this repository: the manifest.json of the prepared folder, as committed."""
    volume: DnsLabel
    path: str = Field(pattern=r"^[^/]")
    """The folder on the volume."""
    prepare: FilePath | None = None
    """A Python module of this repository that writes the files into the folder given as its argument: `trainstack up`
    runs it on the person's machine where the volume lacks them. None: somebody brings them (`trainstack upload`)."""


class Record(Section):
    """Where the runs of a managed workload are recorded: `<path>/<run-id>/` on the volume."""

    volume: DnsLabel
    path: str = Field("runs", pattern=r"^[^/]")


class PodOverrides(Section):
    """What a role may say differently from the workload. None takes the workload's."""

    args: tuple[str, ...] | None = None
    env: dict[EnvName, str] | None = None
    volumes: tuple[Mount, ...] | None = None
    resources: Resources | None = None
    annotations: Annotations | None = None


class Role(PodOverrides):
    """One role of a distributed job."""

    replicas: Positive = 1
    restart_policy: Literal["Never", "OnFailure", "Always", "ExitCode"] = "OnFailure"


class ReplicatedJob(PodOverrides):
    """Jobs of a JobSet that are alike."""

    name: DnsLabel
    replicas: Positive = 1
    """How many Jobs."""
    parallelism: Parallelism = 1
    """Pods of each Job at once."""
    completions: Positive | None = None
    """Pods of each Job that must succeed; None: as many as stand at once."""
    command: tuple[str, ...] | None = None
    backoff_limit: NonNegative | None = None
    restart_policy: Literal["Never", "OnFailure"] = "OnFailure"
    depends_on: tuple[DependsOn, ...] = Field((), max_length=5)


class Workload(Section):
    """A training workload. Several runs may come of it, one for each thing that would change its result."""

    name: DnsLabel
    """Names the folder `workloads/<name>/` too. At most 45 characters, since a label holds it with two hashes, and
    fewer where pods are named after those."""
    kind: Literal["Pod", "Job", "PyTorchJob", "DataLoader", "TrainJob", "JobSet"]
    """`DataLoader` is a Job that only waits, so that files can be copied through it."""
    naming: Literal["derived", "fixed", "generated"] = "derived"
    """What the object is called. `derived`: `<name>-<run>-<launch>`, with hashes of what it says, so that another
    launch is another object. `fixed`: `<name>`, and `<name>-<number>` for a trial of a sweep; another launch replaces
    it. `generated`: `<name>-` and five characters of the API server's choice, for clusters that demand it."""
    namespace: DnsLabel
    queue: DnsLabel | None = None
    """The LocalQueue; None: Kueue does not hold it."""
    priority: DnsName | None = None
    """A WorkloadPriorityClass."""
    managed: bool = True
    """Run by our wrapper: recorded, resumed, published once. False runs the image verbatim."""
    container: DnsLabel | None = None
    """The name of the container that trains; None: `training`, of a DataLoader `data-loader`, of a PyTorchJob
    `pytorch`, which its operator prescribes."""
    image: Image
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: UniqueNames = ()
    """Secrets of the run's namespace with the credentials of registries."""
    command: tuple[str, ...] = ()
    """The program; empty: the image's own, which only an unmanaged workload may use."""
    args: tuple[str, ...] = ()
    working_dir: AbsolutePath | None = None
    env: dict[EnvName, str] = Field(default_factory=dict)
    secret_env: dict[EnvName, SecretValue] = Field(default_factory=dict)
    """Variables whose values are a Secret's. The run is named after where they stand, not after what they are."""
    seed: Int64 | None = None
    """Part of the run's identity; the program gets it as TRAINSTACK_SEED."""
    attempt: Positive = 1
    """Raise it to train again what has run already."""
    depends_on: tuple[DnsLabel, ...] = ()
    """Workloads of the same namespace whose runs must have ended well before this one is launched: a run that fills a
    volume, a data loader. Ended well means succeeded; of a data loader, removed after its launch."""
    code: Code | None = None
    """A git checkout for the pods; None: the image holds the program."""
    data: Data | None = None
    record: Record | None = None
    """Needed by a managed workload."""
    volumes: tuple[Mount, ...] = ()
    shared_memory: Quantity | None = None
    """The size of /dev/shm, which data loader processes share; None: the container runtime's 64 MiB."""
    resources: Resources = Resources()
    node_selector: Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    """Annotations of the pods."""
    run_as_user: Positive | None = None
    """The user id of the pods; None: the image's own, which a `restricted` namespace accepts only if not root."""
    security: Literal["restricted", "baseline"] = "restricted"
    """The Pod Security level that the pods are built for."""
    service_account: DnsName | None = None
    """The ServiceAccount that the pods act as, whose token they then have; None: they have no token. An unmanaged
    workload with security `baseline` says nothing of it, and its cluster gives it one."""
    active_deadline_seconds: Positive | None = None
    expected_duration_seconds: Positive | None = None
    """How long the run takes from its admission to its end, as far as one knows: `trainstack plan` reckons with it,
    and nothing else reads it. None: as long as earlier runs of it took, else its deadline."""
    ttl_seconds_after_finished: NonNegative | None = None
    """None: the finished object stays. Removed or not, a run is launched once."""
    backoff_limit: NonNegative = 0
    completions: Positive = 1
    """Of a Job: pods until this many have succeeded."""
    parallelism: Parallelism = 1
    """Of a Job: pods at once."""
    min_parallelism: Parallelism | None = None
    """Of a Job in a queue: with so few pods at once it may begin where the quota has no place for `parallelism`, and
    then keeps to what it was given. None: it waits for all.

    Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/#partial-admission
    """
    restart_policy: Literal["Never", "OnFailure", "Always"] = "Never"
    """Of the pods of a Pod, Job or DataLoader. Only an unmanaged Pod may have `Always`, and has it where this is left
    out: the manifest then has no such field, and the cluster's default applies."""
    roles: dict[RoleName, Role] = Field(default_factory=dict)
    """Of a PyTorchJob, and of a TrainJob, whose roles say the same."""
    elastic: Elastic | None = None
    """Of a PyTorchJob, which then needs no Master."""
    nproc_per_node: str | None = Field(None, pattern="^(auto|cpu|gpu|[1-9][0-9]*)$")
    """Of a PyTorchJob: processes that torchrun starts in each pod; None: torchrun's own default."""
    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """Of a PyTorchJob. Its operator's default is None: workers run on after the master's success, past all quota."""
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    """Of a JobSet."""
    success_policy: SuccessPolicy | None = None
    """Of a JobSet; None: all its Jobs must succeed."""
    failure_policy: FailurePolicy | None = None
    """Of a JobSet; None: it fails with the first of its Jobs."""
    network: Network | None = None
    """Of a JobSet; None: each pod has a name, `<launch>-<job>-<replica>-<index>.<launch>`."""

    @model_validator(mode="after")
    def _consistent(self) -> "Workload":
        faults = [*_faults_of_kind(self), *(_faults_of_managed(self) if self.managed else ())]
        if twice := sorted(self.secret_env.keys() & self.env.keys()):
            faults.append(f"env and secretEnv both set {', '.join(twice)}: leave them out of one")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def says(self, field: str) -> bool:
        """Whether the manifest has this field: an unmanaged workload is verbatim, so its defaults are the cluster's."""
        return self.managed or field in self.model_fields_set

    @property
    def restarts_always(self) -> bool:
        """Whether it is a Pod that its node restarts whenever it has ended, so that it never succeeds."""
        policy = self.restart_policy if self.says("restart_policy") else "Always"
        return self.kind == "Pod" and policy == "Always"


_FIELDS_OF: dict[str, tuple[str, ...]] = {
    "roles": ("PyTorchJob", "TrainJob"),
    "elastic": ("PyTorchJob",),
    "nproc_per_node": ("PyTorchJob",),
    "clean_pod_policy": ("PyTorchJob",),
    "restart_policy": ("Pod", "Job", "DataLoader"),
    "completions": ("Job", "DataLoader"),
    "parallelism": ("Job", "DataLoader"),
    "min_parallelism": ("Job",),
    "backoff_limit": ("Job", "PyTorchJob", "DataLoader", "TrainJob", "JobSet"),
    # Trainer would make the JobSet of a finished TrainJob anew, and train again.
    "ttl_seconds_after_finished": ("Job", "PyTorchJob", "DataLoader", "JobSet"),
    "replicated_jobs": ("JobSet",),
    "success_policy": ("JobSet",),
    "failure_policy": ("JobSet",),
    "network": ("JobSet",),
}
"""Fields that only some kinds have."""


def _faults_of_kind(workload: Workload) -> Iterator[str]:
    kind = workload.kind
    for field, kinds in _FIELDS_OF.items():
        default = Workload.model_fields[field].get_default(call_default_factory=True)
        if field in workload.model_fields_set and getattr(workload, field) != default and kind not in kinds:
            yield f"a {kind} has no {to_camel(field)}: leave it out (kinds that have it: {', '.join(kinds)})"
    if workload.restart_policy == "Always" and (kind in ("Job", "DataLoader") or (kind == "Pod" and workload.managed)):
        yield (
            "restartPolicy Always restarts a program that has succeeded, so only an unmanaged Pod may have it: "
            "set Never or OnFailure"
        )
    if kind == "Job":
        yield from _faults_of_job(workload)
    if kind == "JobSet":
        yield from faults_of_jobs(workload.replicated_jobs, workload.success_policy, workload.failure_policy)
    if kind == "TrainJob":
        yield from _faults_of_trainjob(workload)
    if kind == "PyTorchJob":
        yield from _faults_of_pytorchjob(workload)


def _faults_of_pytorchjob(workload: Workload) -> Iterator[str]:
    roles = workload.roles
    if workload.container not in (None, "pytorch"):
        yield f"the container of a PyTorchJob is called pytorch, not {workload.container}: leave out container"
    if workload.elastic is None and "Master" not in roles:
        yield "a PyTorchJob needs roles.Master, unless it is elastic: add it"
    if workload.elastic is not None and "Worker" not in roles:
        yield "an elastic PyTorchJob needs roles.Worker: add it"
    if "Master" in roles and roles["Master"].replicas != 1:
        yield "a PyTorchJob has one Master: leave out its replicas"


def _faults_of_job(workload: Workload) -> Iterator[str]:
    least, at_once = workload.min_parallelism, min(workload.parallelism, workload.completions)
    if least is not None and least >= at_once:
        yield (
            f"minParallelism is {least}, and no more than {at_once} pods stand at once (the smaller of parallelism and "
            "completions): take fewer, or leave it out"
        )


def _faults_of_trainjob(workload: Workload) -> Iterator[str]:
    if workload.container not in (None, "node"):
        yield f"the container of a TrainJob is called node, not {workload.container}: leave out container"
    if "Master" not in workload.roles:
        yield "a TrainJob needs roles.Master: add it"
    if workload.naming == "generated":
        yield "the nodes of a TrainJob find the first one by its name: let naming be derived or fixed"


def _faults_of_managed(workload: Workload) -> Iterator[str]:
    if workload.kind == "DataLoader":
        yield "a DataLoader only waits: set managed to false"
        return
    if not workload.command:
        yield "a managed workload needs a command: the wrapper cannot know the image's own"
    if workload.record is None:
        yield "a managed workload needs a record: the volume on which its runs are kept"
    jobs = workload.replicated_jobs
    if len(jobs) > 1 or any(job.replicas > 1 for job in jobs):
        yield (
            "the ranks of a managed JobSet are the pods of one Job, and this has several: leave one entry of "
            "replicatedJobs with replicas 1, or set managed to false"
        )
    if jobs and workload.naming == "generated":
        yield "the pods of a managed JobSet find the first one by its name: let naming be derived or fixed"
    if workload.elastic is not None and "Master" not in workload.roles:
        yield "a managed workload needs a rank 0 that records: add roles.Master, or set managed to false"


class Workloads(Section):
    """The runs an environment declares."""

    runs: tuple[Workload, ...] = ()
    exclude: UniqueNames = ()
    """Names of `runs` that are left out, as if they were not listed, and that no other run waits for: a variant for
    GPUs where there are none, a data loader where the data is there already."""
    stop: tuple[str, ...] = ()
    """Run ids that this change may stop although they are queued or running."""

    @model_validator(mode="after")
    def _excludes_runs(self) -> "Workloads":
        names = [run.name for run in self.runs]
        faults = [
            f"exclude names {name}, which is no run here: {nearest(name, names)}"
            for name in self.exclude
            if name not in names
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return self
