"""Section `trainstack:workloads`, and `workloads/<name>/workload.yaml`: what is trained, and how."""

from typing import Literal

from pydantic import Field, model_validator

from settings.base import DnsLabel, DnsName, Labels, Section, Toleration
from settings.code import Code
from settings.quantities import Quantity

RoleName = Literal["Master", "Worker"]


class Image(Section):
    """The image of a workload: built from this repository, or somebody's by name."""

    build: str | None = None
    """A folder of this repository with a Dockerfile; its content names the image's tag."""
    name: str | None = None
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
    mount_path: str = Field(pattern="^/")
    read_only: bool = False


class Resources(Section):
    """What a container asks for, and the most it gets; a limit alone counts as the request."""

    requests: dict[str, Quantity] = Field(default_factory=dict)
    limits: dict[str, Quantity] = Field(default_factory=dict)


class Data(Section):
    """The files a run reads: named by the digest of their manifest, so other data is another run."""

    manifest: str
    """A file of this repository: the manifest.json of the prepared folder, as committed."""
    volume: DnsLabel
    path: str = Field(pattern=r"^[^/]")
    """The folder on the volume."""
    prepare: str | None = None
    """A Python module of this repository that writes the files into the folder given as its argument: `trainstack up`
    runs it on the person's machine where the volume lacks them. None: somebody brings them (`trainstack upload`)."""


class Record(Section):
    """Where the runs of a managed workload are recorded: `<path>/<run-id>/` on the volume."""

    volume: DnsLabel
    path: str = Field("runs", pattern=r"^[^/]")


class PodOverrides(Section):
    """What a role may say differently from the workload. None takes the workload's."""

    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    volumes: tuple[Mount, ...] | None = None
    resources: Resources | None = None
    annotations: Labels | None = None


class Role(PodOverrides):
    """One role of a distributed job."""

    replicas: int = Field(1, ge=1)
    restart_policy: Literal["Never", "OnFailure", "Always", "ExitCode"] = "OnFailure"


class Workload(Section):
    """A training workload. Several runs may come of it, one for each thing that would change its result."""

    name: DnsLabel = Field(max_length=40)
    """Names the folder `workloads/<name>/` too. Short: pods are named after it."""
    kind: Literal["Job", "PyTorchJob", "DataLoader"]
    """`DataLoader` is a Job that only waits, so that files can be copied through it."""
    namespace: DnsLabel
    queue: DnsLabel | None = None
    """The LocalQueue; None: Kueue does not hold it."""
    priority: DnsName | None = None
    """A WorkloadPriorityClass."""
    managed: bool = True
    """Run by our wrapper: recorded, resumed, published once. False runs the image verbatim."""
    image: Image
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    command: tuple[str, ...] = ()
    """The program; empty: the image's own, which only an unmanaged workload may use."""
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    seed: int | None = None
    """Part of the run's identity; the program gets it as TRAINSTACK_SEED."""
    attempt: int = Field(1, ge=1)
    """Raise it to train again what has run already."""
    depends_on: tuple[DnsLabel, ...] = ()
    """Workloads of the same namespace whose runs must have ended well before this one is launched: a run that fills a
    volume, a data loader. Ended well means succeeded, or removed after its launch."""
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
    annotations: Labels = Field(default_factory=dict)
    """Annotations of the pods."""
    run_as_user: int | None = Field(None, ge=1)
    """The user id of the pods; None: the image's own, which a `restricted` namespace accepts only if not root."""
    security: Literal["restricted", "baseline"] = "restricted"
    """The Pod Security level that the pods are built for."""
    active_deadline_seconds: int | None = Field(None, ge=1)
    ttl_seconds_after_finished: int | None = Field(None, ge=0)
    """None: the finished object stays. Removed or not, a run is launched once."""
    backoff_limit: int = Field(0, ge=0)
    completions: int = Field(1, ge=1)
    """Of a Job: pods until this many have succeeded."""
    parallelism: int = Field(1, ge=1)
    """Of a Job: pods at once."""
    job_restart_policy: Literal["Never", "OnFailure"] = "Never"
    roles: dict[RoleName, Role] = Field(default_factory=dict)
    """Of a PyTorchJob."""
    clean_pod_policy: Literal["None", "Running", "All"] = "Running"
    """The operator's own default is None, which leaves workers running after the master's success, past all quota."""

    @model_validator(mode="after")
    def _consistent(self) -> "Workload":
        faults = []
        if self.kind == "PyTorchJob" and "Master" not in self.roles:
            faults.append("a PyTorchJob needs roles.Master")
        if self.kind != "PyTorchJob" and self.roles:
            faults.append(f"a {self.kind} has no roles")
        if self.managed and self.kind == "DataLoader":
            faults.append("a DataLoader only waits: set managed to false")
        if self.managed and self.kind != "DataLoader" and not self.command:
            faults.append("a managed workload needs a command: the wrapper cannot know the image's own")
        if self.managed and self.kind != "DataLoader" and self.record is None:
            faults.append("a managed workload needs a record: the volume on which its runs are kept")
        if faults:
            raise ValueError("; ".join(faults))
        return self


class Workloads(Section):
    """The runs an environment declares."""

    runs: tuple[Workload, ...] = ()
    stop: tuple[str, ...] = ()
    """Run ids that this change may stop although they are queued or running."""
