"""Section `trainstack:operators`: what is installed in the cluster, from which bytes."""

from typing import Literal

from pydantic import Field, model_validator

from trainstack.settings.base import FilePath, Section, Sha256, UniqueNames
from trainstack.settings.values.kubernetes import ImageReference, NonNegative, Positive
from trainstack.settings.values.quantities import Quantity


class Manifest(Section):
    """A release manifest: where it is and what its bytes must be. Nothing is written unless they match."""

    version: str = Field(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+$")
    path: FilePath | None = None
    """A file, relative to the project."""
    url: str | None = Field(None, pattern="^https://")
    sha256: Sha256

    @model_validator(mode="after")
    def _one_source(self) -> "Manifest":
        if (self.path is None) == (self.url is None):
            raise ValueError("a manifest has one source: give either path or url")
        return self


class ControllerResources(Section):
    """What the controller's container asks for; None keeps the release's own figure."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class Install(Section):
    """The install of an operator."""

    manifest: Manifest
    image: ImageReference | None = None
    """Another place, or a digest, for the controller's image; None keeps the release's."""
    image_pull_secrets: UniqueNames = ()
    """Secrets of the operator's namespace with the credentials of registries."""
    requests: ControllerResources = ControllerResources()


class WaitForPodsReady(Section):
    """Kueue's all-or-nothing: a workload whose pods are not all ready in time is evicted and tried again."""

    timeout_seconds: Positive = 300
    recovery_timeout_seconds: Positive | None = None
    """None: a replaced pod may take as long as it takes."""


class KueueConfiguration(Section):
    """Kueue's own Configuration, as far as training depends on it.

    Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/
    """

    frameworks: tuple[str, ...] = ("batch/job", "kubeflow.org/pytorchjob")
    """The kinds that Kueue manages; a kind that is not listed starts at once, past every quota."""
    manage_jobs_without_queue_name: bool = False
    wait_for_pods_ready: WaitForPodsReady | None = None
    retain_finished_seconds: NonNegative | None = None
    """How long finished Workloads stay; None: for ever, which is Kueue's own default."""


class Kueue(Install):
    """The install of Kueue."""

    configuration: KueueConfiguration = KueueConfiguration()


class TrainingOperator(Install):
    """The install of the Kubeflow training operator (v1)."""

    schemes: tuple[Literal["pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob"], ...] = ("pytorchjob",)
    """The kinds that are installed and watched. Each CRD is 200 KB, most of what a preview costs: list those in use."""
    init_container_image: ImageReference
    """The image, with `sh` and `nslookup`, that makes a worker wait for its master's name. Pin it by digest."""


class Operators(Section):
    """The installs; None: the cluster's owner has seen to it."""

    kueue: Kueue | None = None
    training_operator: TrainingOperator | None = None
    jobset: Install | None = None
    trainer: Install | None = None
    """Kubeflow Trainer (v2), whose TrainJobs are JobSets."""

    @property
    def installs(self) -> dict[str, Install]:
        """The declared ones by the name of their release, in the order of their installation."""
        every = {
            "kueue": self.kueue,
            "training-operator": self.training_operator,
            "jobset": self.jobset,
            "trainer": self.trainer,
        }
        return {name: install for name, install in every.items() if install is not None}
