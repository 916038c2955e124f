"""Section `trainstack:queues`: Kueue's flavors, cohorts, queues and priorities (API kueue.x-k8s.io/v1beta2).

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from typing import Literal

from pydantic import Field

from trainstack.settings.base import DnsLabel, DnsName, Section, Toleration
from trainstack.settings.values.kubernetes import Int32, LabelKey, Labels, LabelValue, ResourceName
from trainstack.settings.values.quantities import Quantity


class Taint(Section):
    """A taint of a flavor's nodes."""

    key: LabelKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ResourceFlavor(Section):
    """A kind of node with its own quota."""

    name: DnsName
    node_labels: Labels = Field(default_factory=dict, max_length=8)
    node_taints: tuple[Taint, ...] = Field((), max_length=8)
    tolerations: tuple[Toleration, ...] = Field((), max_length=8)
    adopt: bool = False


class Cohort(Section):
    """ClusterQueues that lend each other unused quota."""

    name: DnsName
    parent: DnsName | None = None
    adopt: bool = False


class ResourceQuota(Section):
    """A queue's quota of one resource on one flavor."""

    name: ResourceName
    """`cpu`, `memory`, `nvidia.com/gpu`, …"""
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    """None: whatever the cohort lends."""
    lending_limit: Quantity | None = None
    """None: the whole quota."""


class FlavorQuotas(Section):
    """A queue's quota on one flavor."""

    name: DnsName
    resources: tuple[ResourceQuota, ...] = Field(min_length=1, max_length=64)


class ResourceGroup(Section):
    """Resources that are assigned together, and the flavors to try, in order."""

    covered_resources: tuple[ResourceName, ...] = Field(min_length=1, max_length=64)
    flavors: tuple[FlavorQuotas, ...] = Field(min_length=1, max_length=64)


class BorrowWithinCohort(Section):
    """Which workloads of the cohort's other queues a borrowing workload may preempt. Not with Kueue's fair sharing."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None
    """The highest priority that may be preempted; None: any that the policy allows."""


class Preemption(Section):
    """Which workloads a queue's workloads may preempt."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None
    """None: Kueue's default, Never."""


class FlavorFungibility(Section):
    """Whether the next flavor of a group is tried when a workload would fit on this one by borrowing or preemption."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"


class ClusterQueue(Section):
    """A pool of quota."""

    name: DnsName
    cohort: DnsName | None = None
    namespaces: tuple[DnsLabel, ...] | None = None
    """The namespaces that may use it; None: all."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    resource_groups: tuple[ResourceGroup, ...] = Field(min_length=1, max_length=16)
    preemption: Preemption = Preemption()
    flavor_fungibility: FlavorFungibility | None = None
    """None: Kueue's defaults, which equal the fields' defaults."""
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] = "None"
    adopt: bool = False


class LocalQueue(Section):
    """The queue of a namespace's runs."""

    name: DnsLabel
    namespace: DnsLabel
    cluster_queue: DnsName
    adopt: bool = False


class PriorityClass(Section):
    """A WorkloadPriorityClass: orders the queue, without effect on the preemption of pods by the scheduler."""

    name: DnsName
    value: Int32
    description: str = Field("", max_length=2048)
    adopt: bool = False


class Queues(Section):
    """The objects of Kueue that an environment declares."""

    flavors: tuple[ResourceFlavor, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
