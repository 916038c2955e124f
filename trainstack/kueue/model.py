"""What a verdict is made from: Kueue's objects as plain data, in the integers that Kueue calculates with.

Amounts are integers, as Kueue's `resources.ResourceValue` makes them: `cpu` in thousandths of a core, everything else
in its own unit (bytes, pieces), rounded up. Source: pkg/resources/requests.go of Kueue v0.15.2.

What may not be read is None, and is never guessed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

FlavorResource = tuple[str, str]
"""A flavor and a resource: what quota is counted by."""
Amounts = Mapping[str, int]
"""By resource."""
Usage = Mapping[FlavorResource, int]
"""By flavor and resource."""

Policy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of nodes."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's, or a flavor's, permission to stand on tainted nodes. Empty: any."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """An expression of a selector: of a node affinity, or of labels."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Of one resource on one flavor."""

    nominal: int
    borrowing_limit: int | None = None
    """None: as much as the cohort lends."""
    lending_limit: int | None = None
    """None: all of it."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that get one flavor together, and the flavors in the order in which they are tried."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom a queue's workloads may evict."""

    within_cluster_queue: Policy = "Never"
    reclaim_within_cohort: Policy = "Never"
    borrow_within_cohort: bool = False
    """Whether a workload may evict in other queues and borrow besides."""
    borrow_threshold: int | None = None
    """The highest priority that may be evicted so; None: any below the workload's own."""


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    """When the next flavor is tried although this one would do."""

    when_can_borrow: FungibilityPolicy = "MayStopSearch"
    when_can_preempt: FungibilityPolicy = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A pool of quota."""

    name: str
    groups: tuple[ResourceGroup, ...]
    quotas: Mapping[FlavorResource, Quota]
    cohort: str | None = None
    namespaces: tuple[Requirement, ...] | None = ()
    """Requirements on the labels of a namespace that may use it; (): all may. None: none may."""
    strict: bool = False
    """StrictFIFO: what does not fit holds everything behind it."""
    preemption: Preemption = Preemption()
    fungibility: FlavorFungibility = FlavorFungibility()
    stop_policy: str = "None"
    checks: tuple[str, ...] = ()
    """Admission checks that a workload must still pass once its quota is reserved."""
    check_flavors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of a check that is for some flavors alone, which; a workload that is given none of them need not pass it."""
    inactive: str = ""
    """Why it admits nothing, in Kueue's words, where that is nothing that the rest of the model tells."""

    def checks_on(self, flavors: Collection[str]) -> tuple[str, ...]:
        """The checks of a workload on these flavors. Source: AdmissionChecksForWorkload, pkg/workload/workload.go."""
        limited = self.check_flavors
        return tuple(
            name for name in self.checks if not limited or not limited.get(name, frozenset(flavors)).isdisjoint(flavors)
        )


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queues, and further cohorts, that lend each other what they do not use."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    """Its own, which all below it may borrow."""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The queue that a namespace's workloads name."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: str = "None"


@dataclass(frozen=True, slots=True)
class Node:
    """A node, empty."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    closed: bool = False
    """Cordoned."""


@dataclass(frozen=True, slots=True)
class LimitRange:
    """What a namespace asks of each container, or of each pod, and gives to containers that say nothing.

    Of several of a kind the tightest bounds and the first defaults count: `kueue.from_objects` makes one of them.
    """

    kind: Literal["Container", "Pod"]
    least: Amounts = field(default_factory=dict)
    most: Amounts = field(default_factory=dict)
    default_limits: Amounts = field(default_factory=dict)
    default_requests: Amounts = field(default_factory=dict)
    """All in billionths of the unit, as `kueue.quantities.exact` gives them: containers are added up exactly
    before anything is rounded."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """What Kueue counts a resource as, where its configuration says so."""

    outputs: Mapping[str, int]
    """For each whole unit, so much of other resources: in billionths."""
    replaces: bool
    """Whether the resource itself is counted no more."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """Everything that an admission depends on beside the workload and what others use."""

    flavors: Mapping[str, Flavor] | None
    cluster_queues: Mapping[str, ClusterQueue] | None
    """By name. None: they may not be read, or another stack declares them."""
    local_queues: Mapping[tuple[str, str], LocalQueue] | None
    """By namespace and name."""
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    """Those that are declared; a queue may be in one that is not."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of namespaces; of one that is not among them only the name is known."""
    priorities: Mapping[str, int] | None = field(default_factory=dict)
    """Values of WorkloadPriorityClasses."""
    active_checks: Mapping[str, bool] | None = field(default_factory=dict)
    """Whether an admission check is active, by name."""
    limit_ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    """By namespace."""
    overheads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What a pod of a RuntimeClass costs beside its containers, by the class's name."""
    excluded: tuple[str, ...] = ()
    """What the names of resources begin with that Kueue does not count."""
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    """By the name of the resource that pods request."""
    fair_sharing: bool = False
    """Whether shares decide who of other queues is evicted, which is not calculated here."""
    nodes: tuple[Node, ...] | None = None
    """None: not known; then nothing is said of node shapes."""
    grows: bool = False
    """Nodes are made on demand, so none is the largest."""
    declared: bool = True
    """From an environment's files, whose paths the verdicts then name; False: from a live cluster."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of a workload that are alike."""

    name: str
    """As Kueue calls it: `main`, the role in lower case, or the Job of a JobSet."""
    count: int
    requests: Amounts
    """Of all its pods together; one pod's rounded up, times `count`."""
    least: int | None = None
    """The fewest pods that will do, where the workload may be admitted with fewer; None: all."""
    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: expressions of a term hold together, of the terms one suffices. (): none is required."""
    tolerations: tuple[Toleration, ...] = ()
    topology: bool = False
    """It asks for a topology."""
    faults: tuple[str, ...] = ()
    """Why Kueue refuses it whatever quota there is: requests above their limits, or outside the LimitRange."""
    path: str = ""
    """The setting that says it; empty for what is no run of this environment."""
    resources_path: str = ""

    @property
    def per_pod(self) -> dict[str, int]:
        """What one pod requests."""
        return {name: total // self.count for name, total in self.requests.items()} if self.count else {}


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods that are admitted together or not at all: a run, or a Workload that lives."""

    name: str
    namespace: str
    queue: str
    """The LocalQueue."""
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    created: float = 0.0
    """Orders workloads of one priority: seconds, from whatever beginning."""
    path: str = ""
    """Of the run in the settings."""

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that has its quota."""

    workload: Workload
    cluster_queue: str
    usage: Usage
    reserved: float = 0.0
    """When it got it: of equal priority, the latest is evicted first."""
    evicted: bool = False
    """It has been told to go."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A model and who uses it."""

    model: Model
    admitted: tuple[Admitted, ...] = ()
    pending: tuple[Workload, ...] = ()
