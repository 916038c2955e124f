"""Kueue's objects as plain data, in the integers that Kueue calculates with.

Amounts are integers as in Kueue's `resources.ResourceValue`: `cpu` in millicores, all other resources in their own
unit (bytes, pieces), rounded up. Source: pkg/resources/requests.go of Kueue v0.15.2.

None means that a field could not be read; unread values are never guessed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from trainstack.kueue.differences import V15, DisputedFeature, KueueRelease
from trainstack.kueue.feature_gates import DEFAULT_GATES, FeatureGates
from trainstack.settings.sections.workloads import RuntimeReference

FlavorResource = tuple[str, str]
"""Flavor and resource, the key of a quota."""
Amounts = Mapping[str, int]
"""By resource."""
Usage = Mapping[FlavorResource, int]

Policy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]
Preference = Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"]
"""Of a flavor, as Kueue v0.15 understands the names: in `differences.py`."""
FairStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod or of a flavor; an empty field matches any value."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """An expression of a label selector or of a node affinity."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flavor:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: int
    borrowing_limit: int | None = None
    """None: no limit."""
    lending_limit: int | None = None
    """None: no limit."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    covered_resources: frozenset[str]
    flavors: tuple[str, ...]
    """In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Which workloads a workload of the cluster queue may preempt."""

    within_cluster_queue: Policy = "Never"
    reclaim_within_cohort: Policy = "Never"
    borrow_within_cohort: bool = False
    """Whether a workload may preempt in other queues while it borrows."""
    borrow_threshold: int | None = None
    """The highest priority that may be preempted while borrowing; None: any priority below the workload's own."""


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    when_can_borrow: FungibilityPolicy = "MayStopSearch"
    when_can_preempt: FungibilityPolicy = "TryNextFlavor"
    preference: Preference | None = None
    no_candidates_last: bool = False
    """Whether a flavor on which nothing may be preempted is worse than others, whatever the preference."""


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    name: str
    groups: tuple[ResourceGroup, ...]
    quotas: Mapping[FlavorResource, Quota]
    cohort: str | None = None
    namespace_selector: tuple[Requirement, ...] | None = ()
    """The namespaceSelector; (): every namespace matches. None: no namespace matches."""
    is_strict_fifo: bool = False
    """StrictFIFO: an inadmissible head blocks all workloads behind it."""
    preemption: Preemption = Preemption()
    fungibility: FlavorFungibility = FlavorFungibility()
    stop_policy: str = "None"
    checks: tuple[str, ...] = ()
    """Admission checks that a workload must pass after its quota is reserved."""
    check_flavors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The flavors of each check that applies to some flavors only."""
    inactive_message: str = ""
    """Kueue's message why the queue is inactive, if the other fields do not explain it."""
    weight: float = 1.0
    """Divides the queue's share in fair sharing."""
    usage_based: bool = False
    """Whether admission fair sharing orders the queue's workloads by the past usage of their local queues, if Kueue's
    Configuration enables it."""

    def checks_on(self, flavors: Collection[str]) -> tuple[str, ...]:
        """Return the checks of a workload on these flavors. Source: AdmissionChecksForWorkload, workload.go."""
        limited = self.check_flavors
        return tuple(
            name for name in self.checks if not limited or not limited.get(name, frozenset(flavors)).isdisjoint(flavors)
        )


@dataclass(frozen=True, slots=True)
class Cohort:
    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    """The cohort's own quota, which all queues below it may borrow."""
    weight: float = 1.0
    """Divides the cohort's share in fair sharing."""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    namespace: str
    name: str
    cluster_queue: str
    stop_policy: str = "None"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class LimitRange:
    """The limits of all LimitRanges of a namespace for one kind, with the tightest bounds and the first defaults.

    Amounts are in billionths of the unit (`quantities.exact`): containers are added up before anything is rounded.
    """

    kind: Literal["Container", "Pod", "PersistentVolumeClaim"]
    minimum: Amounts = field(default_factory=dict)
    maximum: Amounts = field(default_factory=dict)
    default_limits: Amounts = field(default_factory=dict)
    default_requests: Amounts = field(default_factory=dict)
    ratios: Mapping[str, Fraction] = field(default_factory=dict)
    """The most that a limit may be of its request."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A resource transformation of Kueue's configuration."""

    outputs: Mapping[str, int]
    """Amounts of other resources for each whole unit of the input, in billionths."""
    replaces: bool
    """Whether the input itself is not counted."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """Everything that admission depends on, except the workload and the usage of others."""

    flavors: Mapping[str, Flavor] | None
    cluster_queues: Mapping[str, ClusterQueue] | None
    """None: not readable, or declared by another stack."""
    local_queues: Mapping[tuple[str, str], LocalQueue] | None
    """By namespace and name."""
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    """Declared cohorts; a queue may name a cohort that has no object."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by namespace; for other namespaces only the name is known."""
    priorities: Mapping[str, int] | None = field(default_factory=dict)
    """Values of the WorkloadPriorityClasses."""
    active_checks: Mapping[str, bool] | None = field(default_factory=dict)
    """Whether an admission check is active."""
    multikueue_checks: frozenset[str] = frozenset()
    """The admission checks of MultiKueue: a worker cluster, with quota and topologies of its own, runs the workload."""
    provisioning_checks: frozenset[str] = frozenset()
    """The admission checks of ProvisioningRequests."""
    topologies: Mapping[str, tuple[str, ...]] | None = None
    """The levels of each Topology, the widest first; None: unknown."""
    limit_ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    """By namespace."""
    overheads: Mapping[str, Mapping[str, str]] | None = field(default_factory=dict)
    """The pod overhead of each RuntimeClass, {} of one without; None: unknown."""
    excluded_prefixes: tuple[str, ...] = ()
    """Prefixes of the resources that Kueue does not count."""
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    """By the resource that pods request."""
    ignores_undeclared: bool = False
    """Whether requests need no quota if no resource group of the cluster queue covers the resource."""
    maps_device_classes: bool = False
    """Whether quota of device classes has names of its own."""
    fair_sharing: tuple[FairStrategy, ...] = ()
    """The strategies by which fair sharing selects preemption targets; (): fair sharing is off."""
    admission_fair_sharing: bool = False
    requeues_by_creation: bool = False
    """Whether a workload that is evicted because its pods are not ready stays at its position in the queue."""
    release: KueueRelease = V15
    """Of Kueue."""
    gates: FeatureGates = DEFAULT_GATES
    assumes_defaults: bool = False
    """Whether the Configuration of the running Kueue could not be read, so that its defaults are assumed."""
    unmodeled_fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """By kind and name (`<namespace>/<name>`, of the Configuration empty): fields that are set and not calculated."""
    nodes: tuple[ClusterNode, ...] | None = None
    """None: unknown; then pods are not compared with nodes."""
    has_autoscaler: bool = False
    """Whether an autoscaler adds nodes, so that no largest node is known."""
    frameworks: frozenset[str] | None = None
    """The kinds of jobs that Kueue manages; None: unknown."""
    managed_namespaces: tuple[Requirement, ...] = ()
    """The managedJobsNamespaceSelector: in other namespaces Kueue suspends queued jobs and never admits them."""
    blocks_admission: bool = False
    """Whether Kueue admits nothing while the pods of an admitted workload are not ready."""
    default_priority: int = 0
    """Of workloads without a priority class: the value of the PriorityClass with `globalDefault`."""
    is_declared: bool = True
    """Whether it is read from an environment's files, whose paths the verdicts name, or from a live cluster."""

    def dispatches(self, queue: ClusterQueue) -> bool:
        """Whether MultiKueue runs the queue's workloads in worker clusters."""
        return not self.multikueue_checks.isdisjoint(queue.checks)


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str
    """As in Kueue's Workload: `main`, the role in lower case, or the Job of a JobSet."""
    count: int
    """Without the reclaimed pods."""
    requests: Amounts
    """Of all pods together: one pod's requests, rounded up, times `count`."""
    min_count: int | None = None
    """The fewest pods that may be admitted (partial admission); None: all."""
    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Terms of the required node affinity; a node must match all expressions of at least one term."""
    tolerations: tuple[Toleration, ...] = ()
    requests_topology: bool = False
    """Whether the pods request a topology."""
    levels: tuple[str, ...] = ()
    """The levels that they request, as labels of nodes."""
    own_resources: frozenset[str] = frozenset()
    """Resources that the pods request themselves, even if transformations replace them."""
    group: str = ""
    """Pod sets of one group have the same flavors; empty: a group of its own."""
    reclaimed_count: int = 0
    """Pods that have ended and need no quota any more."""
    ambiguous_resources: tuple[str, ...] = ()
    """Resources that the pods request and transformations output: Kueue counts both, or the request alone."""
    disputed_requests: frozenset[DisputedFeature] = frozenset()
    """The features by which releases count other requests of the pods."""
    resource_claims: tuple[str, ...] = ()
    """Claims of devices."""
    runtime_class: str = ""
    """A RuntimeClass of unknown overhead, which is not in the requests; empty if the overhead is known."""
    faults: tuple[str, ...] = ()
    """Why Kueue rejects the pods whatever the quota: requests above limits, or outside a LimitRange."""
    pod_refusals: tuple[str, ...] = ()
    """Requests above the limits of a LimitRange's defaults: the API server refuses the pods, but Kueue sees the
    defaults at its first attempts only, and reserves the quota later."""
    first_refusals: tuple[str, ...] = ()
    """A LimitRange's default requests above the pods' own limits: Kueue refuses its first attempts, and the API server
    does not."""
    path: str = ""
    """The setting that declares the pods; empty for a workload that the environment does not declare."""
    resources_path: str = ""

    @property
    def per_pod(self) -> dict[str, int]:
        return {name: total // self.count for name, total in self.requests.items()} if self.count else {}


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    namespace: str
    queue: str
    """The LocalQueue."""
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    created: float = 0.0
    """Creation time in seconds from any epoch, or the time of an eviction that moves the workload to the end of its
    priority; orders workloads of equal priority."""
    path: str = ""
    """The run's path in the settings."""
    uid: str = ""
    """Orders preemption candidates that are equal otherwise; empty for a workload that is not submitted yet."""
    requeue_at: float | None = None
    """The end of its backoff in seconds since 1970, before which Kueue does not queue it."""
    failed_checks: Mapping[str, Literal["Retry", "Rejected"]] = field(default_factory=dict)
    """Its admission checks in these states; Kueue does not admit it with one."""
    unmodeled_fields: tuple[str, ...] = ()
    """Fields that are set in its object and not calculated."""
    unread_runtime: RuntimeReference | None = None
    """The runtime that defines its pods, if it was not read; the pods then lack what it sets."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AdmittedWorkload:
    """A workload with reserved quota."""

    workload: Workload
    cluster_queue: str
    usage: Usage
    reserved_at: float = 0.0
    """When its quota was reserved; of equal priority, the latest is preempted first."""
    is_evicted: bool = False
    """Whether its eviction has begun."""
    preemptor_uid: str = ""
    """Of the Workload that preempts it; empty if it is evicted for another reason, or not at all."""
    is_ready: bool = True
    """Whether all its pods are running or have ended."""


@dataclass(frozen=True, kw_only=True)
class QueueState:
    """A model with its admitted and pending workloads."""

    model: Model
    admitted: tuple[AdmittedWorkload, ...] = ()
    pending: tuple[Workload, ...] = ()
    objects: tuple[Mapping[str, Any], ...] = ()
    """The objects from which they were read."""
    configuration: Mapping[str, Any] | None = None
    """Of the running Kueue; None: unknown."""
