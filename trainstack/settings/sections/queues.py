"""Section `trainstack:queues`: Kueue's flavors, cohorts, queues and priorities (API kueue.x-k8s.io/v1beta2).

Source of every field: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from trainstack.settings.base import Section, Text, Toleration, UniqueNames, raise_faults
from trainstack.settings.values.kubernetes import (
    HOSTNAME,
    DnsLabel,
    DnsName,
    Int32,
    LabelKey,
    Labels,
    LabelValue,
    NonNegative,
    Positive,
    ResourceName,
)
from trainstack.settings.values.quantities import Quantity

MULTI_KUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
"""The controller of MultiKueue's admission checks, and of the jobs that it dispatches (`spec.managedBy`)."""
PROVISIONING_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
"""The controller of admission checks that request nodes."""
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


def _duplicates(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _check_unique(key: str, names: Sequence[str]) -> None:
    """Raise ValueError if a name is listed more than once, which the API server refuses. `key`: the list's key."""
    if duplicates := _duplicates(names):
        raise ValueError(f"{key} lists {', '.join(duplicates)} more than once: list each once")


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
    topology: DnsName | None = None
    """The Topology of the flavor's nodes; None: Kueue compares the quota only. With a topology, the flavor cannot be
    changed after its creation."""
    adopt: bool = False

    @model_validator(mode="after")
    def _check_node_labels(self) -> "ResourceFlavor":
        if self.topology is not None and not self.node_labels:
            raise ValueError("a flavor with a topology needs at least one node label: set nodeLabels")
        return self


class Topology(Section):
    """The levels at which nodes are grouped, such as block, rack and host."""

    name: DnsName
    levels: tuple[LabelKey, ...] = Field(min_length=1, max_length=16)
    """Labels of nodes, from the widest level to the narrowest. They cannot be changed after the creation."""
    adopt: bool = False

    @model_validator(mode="after")
    def _check_levels(self) -> "Topology":
        faults = []
        if duplicates := _duplicates(self.levels):
            faults.append(f"levels {', '.join(duplicates)} are listed more than once: list each once")
        if HOSTNAME in self.levels[:-1]:
            faults.append(f"{HOSTNAME} is not the last level: a host contains no other level, so list it last")
        raise_faults(faults)
        return self


class FairSharing(Section):
    """The share of a queue or cohort, relative to its siblings. It has effect only if Kueue uses fair sharing."""

    weight: Quantity = "1"
    """Twice the weight gives twice the share of the borrowed quota; 0: whatever it borrows is preempted first."""

    @model_validator(mode="after")
    def _check_weight(self) -> "FairSharing":
        if self.weight == "1n":
            raise ValueError("Kueue refuses a weight of 1n, its smallest unit: set 0 or a larger weight")
        return self


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


class Cohort(Section):
    """ClusterQueues that lend each other unused quota."""

    name: DnsName
    parent: DnsName | None = None
    resource_groups: tuple[ResourceGroup, ...] = Field((), max_length=16)
    """Quota of the cohort itself, which all of its queues may borrow."""
    fair_sharing: FairSharing | None = None
    adopt: bool = False


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
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """Which of two flavors is preferred if one requires borrowing and the other preemption; None: Kueue's default."""

    @model_validator(mode="after")
    def _check_preference(self) -> "FlavorFungibility":
        if self.preference is not None and (self.when_can_borrow, self.when_can_preempt) != ("TryNextFlavor",) * 2:
            raise ValueError(
                "preference compares flavors, but the search stops at the first: set whenCanBorrow and whenCanPreempt "
                "to TryNextFlavor, or leave out preference"
            )
        return self


class AdmissionScope(Section):
    """Whether Kueue orders the queue's workloads by the past usage of their LocalQueues (admission fair sharing)."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]


class QueueCheck(Section):
    """An AdmissionCheck of a ClusterQueue."""

    name: DnsName
    on_flavors: UniqueNames = Field((), max_length=64)
    """The flavors on which the check is required; empty: all."""


class ClusterQueue(Section):
    """A pool of quota."""

    name: DnsName
    cohort: DnsName | None = None
    namespaces: tuple[DnsLabel, ...] | None = None
    """The namespaces that may use it; None: all, and empty: none. In Kueue, no namespace may use a ClusterQueue without
    a `namespaceSelector`."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    resource_groups: tuple[ResourceGroup, ...] = Field(min_length=1, max_length=16)
    preemption: Preemption = Preemption()
    flavor_fungibility: FlavorFungibility | None = None
    """None: Kueue's defaults, which equal the fields' defaults."""
    stop_policy: StopPolicy = "None"
    admission_checks: tuple[QueueCheck, ...] = Field((), max_length=64)
    """What a workload must pass after its quota is reserved."""
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    adopt: bool = False

    @model_validator(mode="after")
    def _check_admission_checks(self) -> "ClusterQueue":
        _check_unique("admissionChecks", [check.name for check in self.admission_checks])
        return self


class LocalQueue(Section):
    """The queue of a namespace's runs."""

    name: DnsLabel
    namespace: DnsLabel
    cluster_queue: DnsName
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    """Its share of the ClusterQueue's usage, with an `admissionScope`."""
    adopt: bool = False


class CheckParameters(Section):
    """The object with the parameters of an AdmissionCheck."""

    api_group: DnsName = "kueue.x-k8s.io"
    kind: str = Field(pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$", max_length=63)
    name: DnsLabel


class AdmissionCheck(Section):
    """A condition beyond quota, which a controller sets to ready, for example once nodes are provisioned."""

    name: DnsName
    controller_name: Text = Field(max_length=253)
    """`kueue.x-k8s.io/provisioning-request`, `kueue.x-k8s.io/multikueue` or the name of another controller. It cannot
    be changed after the creation."""
    parameters: CheckParameters | None = None
    adopt: bool = False

    @property
    def is_multi_kueue_check(self) -> bool:
        """Whether MultiKueue's controller manages the check, and so dispatches workloads to other clusters."""
        return self.controller_name == MULTI_KUEUE_CONTROLLER


class RetryStrategy(Section):
    """When a failed ProvisioningRequest is created again. The pauses double from `backoff_base_seconds`."""

    backoff_limit_count: NonNegative = 3
    backoff_base_seconds: Positive = 60
    backoff_max_seconds: Positive = 1800


class PodSetUpdate(Section):
    """A node selector of the pods, whose value is a detail of the ProvisioningRequest."""

    key: LabelKey
    value_from_provisioning_class_detail: Text = Field(max_length=32768)


class PodSetUpdates(Section):
    """What a fulfilled ProvisioningRequest changes in the pods."""

    node_selector: tuple[PodSetUpdate, ...] = Field((), max_length=8)

    @model_validator(mode="after")
    def _check_keys(self) -> "PodSetUpdates":
        _check_unique("nodeSelector", [update.key for update in self.node_selector])
        return self


class ProvisioningRequestConfig(Section):
    """How Kueue asks the cluster autoscaler for nodes: parameters of an AdmissionCheck."""

    name: DnsLabel
    provisioning_class_name: DnsName
    """`check-capacity.autoscaling.x-k8s.io`, `queued-provisioning.gke.io`, or another class of the autoscaler."""
    parameters: dict[str, Annotated[str, Field(max_length=255)]] = Field(default_factory=dict, max_length=100)
    managed_resources: tuple[ResourceName, ...] = Field((), max_length=100)
    """The resources that require nodes to be provisioned; empty: all."""
    retry_strategy: RetryStrategy | None = None
    """None: Kueue's defaults, which equal the fields' defaults."""
    pod_set_updates: PodSetUpdates | None = None
    pod_set_merge_policy: Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None = None
    """Which pod sets share a pod template of the request; None: none."""
    adopt: bool = False

    @model_validator(mode="after")
    def _check_managed_resources(self) -> "ProvisioningRequestConfig":
        _check_unique("managedResources", self.managed_resources)
        return self


class ClusterKubeConfig(Section):
    """Where Kueue's controller finds the kubeconfig of a worker cluster."""

    location: Text = Field(max_length=256)
    """A Secret in Kueue's namespace with the key `kubeconfig`, or a path in the controller's container."""
    location_type: Literal["Secret", "Path"] = "Secret"


class MultiKueueCluster(Section):
    """A worker cluster of MultiKueue."""

    name: DnsLabel
    kube_config: ClusterKubeConfig
    context: Text | None = None
    """The kubeconfig context with which `status`, `logs` and `fetch` reach the cluster; None: that of the same name."""
    adopt: bool = False


class MultiKueueConfig(Section):
    """The worker clusters of MultiKueue: parameters of an AdmissionCheck."""

    name: DnsLabel
    clusters: UniqueNames = Field(min_length=1, max_length=10)
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
    topologies: tuple[Topology, ...] = ()
    admission_checks: tuple[AdmissionCheck, ...] = ()
    provisioning_request_configs: tuple[ProvisioningRequestConfig, ...] = ()
    multi_kueue_clusters: tuple[MultiKueueCluster, ...] = ()
    multi_kueue_configs: tuple[MultiKueueConfig, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()

    def multi_kueue_checks(self, cluster_queue: ClusterQueue) -> list[AdmissionCheck]:
        """Return the checks, declared here, that dispatch the workloads of a cluster queue to other clusters."""
        names = [check.name for check in cluster_queue.admission_checks]
        return [check for check in self.admission_checks if check.name in names and check.is_multi_kueue_check]

    def is_dispatched(self, namespace: str, queue: str | None) -> bool:
        """Return whether MultiKueue dispatches the workloads of a local queue; False if it is not declared here."""
        return bool(self._dispatching_checks(namespace, queue))

    def worker_clusters(self, namespace: str, queue: str | None) -> tuple[str, ...]:
        """Return the names of the clusters to which MultiKueue may dispatch the workloads of a local queue."""
        config_names = {
            check.parameters.name for check in self._dispatching_checks(namespace, queue) if check.parameters
        }
        configs = (config for config in self.multi_kueue_configs if config.name in config_names)
        return tuple(dict.fromkeys(cluster for config in configs for cluster in config.clusters))

    def _dispatching_checks(self, namespace: str, queue: str | None) -> list[AdmissionCheck]:
        cluster_queue_names = {
            entry.cluster_queue for entry in self.local_queues if (entry.namespace, entry.name) == (namespace, queue)
        }
        return [
            check
            for entry in self.cluster_queues
            if entry.name in cluster_queue_names
            for check in self.multi_kueue_checks(entry)
        ]
