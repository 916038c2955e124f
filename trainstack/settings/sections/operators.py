"""Section `trainstack:operators`: the operators to install, and their release manifests."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, model_validator
from semver import Version

from trainstack.settings.base import FilePath, Section, Sha256, Text, UniqueNames
from trainstack.settings.values.kubernetes import ImageReference, NonNegative, Positive, ResourceName
from trainstack.settings.values.quantities import Quantity
from trainstack.versions import parse_release

FeatureGate = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$")]
Weight = Annotated[float, Field(ge=0)]
Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
_STRATEGIES: tuple[Strategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


_MIN_KUEUE_WITHOUT_RECOVERY = Version(0, 16)


class Manifest(Section):
    """A release manifest. It is not used unless its sha256 matches."""

    version: str = Field(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+$")
    path: FilePath | None = None
    """A file, relative to the project."""
    url: str | None = Field(None, pattern=r"^(https://[^/]|http://(127\.0\.0\.1|localhost)[:/])")
    """A file that is downloaded once into the user's cache; `http` is for loopback addresses only."""
    sha256: Sha256

    @model_validator(mode="after")
    def _check_source(self) -> "Manifest":
        if self.path is None and self.url is None:
            raise ValueError("a manifest needs a source: set either path or url")
        if self.path is not None and self.url is not None:
            raise ValueError("a manifest has one source: keep url and set `path: null`, or remove url")
        return self


class ControllerResources(Section):
    """Requests of the controller's container; None: the release's."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class Install(Section):
    """The install of an operator."""

    manifest: Manifest
    image: ImageReference | None = None
    """The controller's image, for another registry or a digest; None: the release's."""
    image_pull_secrets: UniqueNames = ()
    """Secrets of the operator's namespace with the credentials of registries."""
    requests: ControllerResources = ControllerResources()


class WaitForPodsReady(Section):
    """Kueue's all-or-nothing scheduling: a workload whose pods are not all ready in time is evicted and requeued."""

    timeout_seconds: Positive = 300
    recovery_timeout_seconds: NonNegative | None = None
    """The timeout for the replacement of a pod that failed. 0: no limit. None: the release's: `timeoutSeconds` since
    Kueue v0.19, no limit before."""


class KueueFairSharing(Section):
    """Kueue's fair sharing: cohorts divide unused quota by the weights of their queues, by preemption if necessary."""

    preemption_strategies: tuple[Strategy, ...] = _STRATEGIES
    """The rules under which another queue is preempted, in order."""

    @model_validator(mode="after")
    def _check_strategies(self) -> "KueueFairSharing":
        """Source: validateFairSharing in Kueue's pkg/config/validation.go; with other lists Kueue does not start."""
        if self.preemption_strategies not in (_STRATEGIES, *((strategy,) for strategy in _STRATEGIES)):
            raise ValueError(f"Kueue does not support this list of strategies: list {', '.join(_STRATEGIES)}, or one")
        return self


class AdmissionFairSharing(Section):
    """How Kueue counts the past usage of LocalQueues, for ClusterQueues with an `admissionScope`."""

    usage_half_life_time_seconds: NonNegative = 604800
    """The time after which a usage counts half; 0: only the current usage counts."""
    usage_sampling_interval_seconds: Positive = 300
    resource_weights: dict[ResourceName, Weight] = Field(default_factory=dict)
    """By resource; 1 for others."""


class Transformation(Section):
    """Other resources that Kueue counts for a resource that pods request."""

    input: ResourceName
    strategy: Literal["Retain", "Replace"] = "Retain"
    outputs: dict[ResourceName, Quantity] = Field(default_factory=dict)
    """The amount of each resource for one unit of the input; without outputs, `Replace` stops counting it."""


class ClientConnection(Section):
    """The limits of the requests that Kueue's controller sends to the API server.

    Kueue sends about seven for each run, so these limits bound how many runs start in a second.
    """

    qps: Positive
    """Requests in a second, on average."""
    burst: Positive
    """Requests at once, after a pause."""


class KueueConfiguration(Section):
    """The fields of Kueue's Configuration that training depends on.

    Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/
    """

    frameworks: tuple[str, ...] = ("batch/job", "kubeflow.org/pytorchjob")
    """The kinds that Kueue manages; other kinds start at once, regardless of quota."""
    manage_jobs_without_queue_name: bool = False
    wait_for_pods_ready: WaitForPodsReady | None = None
    """None: the release's: 30 minutes since Kueue v0.19, no limit before."""
    retain_finished_seconds: NonNegative | None = None
    """How long finished Workloads are kept; None: they are never deleted, Kueue's default."""
    client_connection: ClientConnection | None = None
    """None: the release's: in v0.19, 300 requests a second and 500 at once."""
    fair_sharing: KueueFairSharing | None = None
    """None: cohorts lend by nominal quota, without regard to shares."""
    admission_fair_sharing: AdmissionFairSharing | None = None
    exclude_resource_prefixes: tuple[Text, ...] = ()
    """Resources whose names begin so are not counted."""
    transformations: tuple[Transformation, ...] = ()
    feature_gates: dict[FeatureGate, bool] = Field(default_factory=dict)
    """Kueue's own defaults for gates that are not listed."""

    @model_validator(mode="after")
    def _check_transformations(self) -> "KueueConfiguration":
        inputs = [item.input for item in self.transformations]
        if duplicates := sorted({name for name in inputs if inputs.count(name) > 1}):
            raise ValueError(f"transformations of {', '.join(duplicates)} are listed more than once: merge them")
        return self


class Kueue(Install):
    """The install of Kueue."""

    configuration: KueueConfiguration = KueueConfiguration()

    @model_validator(mode="after")
    def _check_recovery_timeout(self) -> "Kueue":
        """Source: waitForPodsReady in Kueue's pkg/controller/core/core.go, which ignores 0 since v0.16."""
        ready, release = self.configuration.wait_for_pods_ready, parse_release(self.manifest.version)
        if ready and ready.recovery_timeout_seconds == 0 and release and release < _MIN_KUEUE_WITHOUT_RECOVERY:
            raise ValueError(
                f"waitForPodsReady.recoveryTimeoutSeconds is 0, and Kueue v{release} would evict a run as soon as one "
                "of its pods fails: remove recoveryTimeoutSeconds, which means no limit there"
            )
        return self


class TrainingOperator(Install):
    """The install of the Kubeflow training operator (v1)."""

    schemes: tuple[Literal["pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob"], ...] = ("pytorchjob",)
    """The kinds to install and watch. List only the kinds in use."""
    init_container_image: ImageReference = "alpine:3.10"
    """The image, with `sh` and `nslookup`, in which a worker waits for its master's name. Pin it by digest.

    Source of the default: PyTorchInitContainerImageDefault in pkg/config/config.go of the operator.
    """


class Operators(Section):
    """The operators to install; None: the cluster has the operator already, or does not need it."""

    kueue: Kueue | None = None
    training_operator: TrainingOperator | None = None
    jobset: Install | None = None
    trainer: Install | None = None
    """Kubeflow Trainer (v2), whose TrainJobs are JobSets."""

    def without(self, names: Iterable[str]) -> "Operators":
        """Return the operators without those in `names`, which are names of releases, such as `training-operator`."""
        return self.model_copy(update=dict.fromkeys((name.replace("-", "_") for name in names), None))

    @property
    def installs(self) -> dict[str, Install]:
        """The operators to install by the names of their releases, in the order of installation."""
        installs = ((name.replace("_", "-"), getattr(self, name)) for name in Operators.model_fields)
        return {name: install for name, install in installs if install is not None}
