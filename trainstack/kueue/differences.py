"""All differences between the minor releases of Kueue that the simulator models.

FIELDS and GATES describe v0.15, the release that environments install; other releases are described by their
differences from it. Found by reading the modules and by comparing thousands of drawn cases with each release's own
code (docs/decisions/0018-second-judge.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from trainstack.kueue.feature_gates import GATES, LOCKED_GATES, Gate
from trainstack.kueue.fields import FIELDS, MODELED, UNKNOWN
from trainstack.versions import is_later_minor, parse_release

_TOPOLOGY = "verdicts do not place pods in a topology"
_MULTIKUEUE = "the quota of this cluster is the same with MultiKueue"
_JOBS = "it changes how jobs and Workload objects are written, not how they are admitted"
_OPERATION = "the operation of the controller"

GateChanges = Mapping[str, Gate | None]
"""By gate; None: the release does not have it."""
FieldChanges = Mapping[str, Mapping[str, str | None]]
"""By kind and path; None: the release does not have it."""


DisputedFeature = Literal[
    "fair sharing",
    "label keys",
    "LimitRange defaults",
    "no candidates",
    "pod-level resources",
    "preference",
    "several topologies",
    "tolerations",
    "topology",
    "transformations",
]


@dataclass(frozen=True, slots=True)
class KueueRelease:
    """A minor release, by what a verdict depends on. The defaults are those of v0.15."""

    minor: str = "v0.15"
    """Empty if it is unknown."""
    name: str = ""
    """The release itself, such as `v0.15.2`; empty if it is unknown."""
    not_compared: str = ""
    """What these rules were not compared with: `v0.20`, or `v0.17 after v0.17.8`; empty if they were with the release.
    """
    serves_v1beta2: bool = True
    """Whether it serves the version of its API in which objects are declared and read."""
    is_patched: bool = False
    """Whether it is another patch release than the modeled one of its minor release."""
    disputed_features: frozenset["DisputedFeature"] = frozenset()
    """What the patch release decides differently from the modeled one."""
    skips_zero_requests: bool = False
    """Whether a request of nothing is ignored if no resource group covers the resource. Source: assignFlavors in
    pkg/scheduler/flavorassigner/flavorassigner.go; issue 8079 of Kueue."""
    preference_as_named: bool = False
    """Whether `flavorFungibility.preference: BorrowingOverPreemption` prefers borrowing. In v0.15 it prefers
    preemption, and the other value borrowing. Source: isPreferred in flavorassigner.go; CHANGELOG-0.16.md."""
    counts_unlendable: bool = False
    """Whether fair sharing preempts from queues and cohorts that borrow only resources of which nothing can be lent.
    Source: nextTarget in pkg/scheduler/preemption/fairsharing/ordering.go of v0.17."""
    nominal_first: Literal["never", "by queue", "by subtree"] = "never"
    """Which workloads fair sharing admits before all others: those whose queue does not borrow for them, or at each
    level of the tree those whose queue or cohort does not. Source: less in fair_sharing_iterator.go of v0.16 and v0.17.
    """
    quota_only_flavors: bool = False
    """Whether pods with a topology request get flavors without a topology in groups that cover nothing which the pods
    request themselves: outputs of transformations, or the number of pods. Source: tas_flavorassigner.go of v0.17."""
    forgets_pods: bool = False
    """Whether the search for preemption targets ignores the quota of `pods`, so that a workload which lacks it is
    skipped after the search. Source: assignFlavors in flavorassigner.go of v0.18, which copies the requests to which it
    adds the number of pods, and TotalRequestsFor, which reads the original."""
    keeps_limit_range_defaults: bool = False
    """Whether every attempt sees the defaults of LimitRanges, so that pods which they contradict are always refused.
    Before, Kueue forgets the defaults after a failed attempt. Source: RequeueWorkload in pkg/cache/queue/manager.go.
    """
    needs_one_topology: bool = False
    """Whether pods with a topology request are only admitted with exactly one flavor that has a topology. Before, Kueue
    admits them without a placement. Source: WorkloadsTopologyRequests in tas_flavorassigner.go of v0.18."""
    dispatches_or_provisions: bool = False
    """Whether a queue with checks of both MultiKueue and ProvisioningRequest is inactive. Source:
    updateQueueStatus in pkg/cache/scheduler/clusterqueue.go."""
    compares_own_label_keys: bool = False
    """Whether node selectors and affinities are compared with a flavor's own labels alone, so that keys which only
    other flavors of its resource group have are ignored. Source: checkFlavorForPodSets in flavorassigner.go of v0.18.
    """
    no_candidates_last: bool = False
    """Whether a flavor on which nothing may be preempted is worse than any other that could be assigned, whatever the
    preference. Source: isPreferred in flavorassigner.go of v0.19."""
    panics_without_cohort: bool = True
    """Whether fair sharing panics for a queue without a cohort whose own workloads do not make enough room. Source:
    Iter in pkg/scheduler/preemption/fairsharing/ordering.go; issue 10891 of Kueue."""
    saturates: bool = False
    """Whether sums of quota end at 2^63 - 1, which counts as unlimited, instead of wrapping around. Source:
    pkg/resources/amount.go of v0.18."""
    compares_tolerations: bool = False
    """Whether tolerations by `Gt` or `Lt` match taints; otherwise they match none. Source: ToleratesTaint in
    k8s.io/api/core/v1 of v0.35, on which v0.16 depends."""
    defaults_pod_level_requests: bool = False
    """Whether pod-level limits are the default of pod-level requests, and such requests must not exceed them. Source:
    AdjustResources and ValidateResources in pkg/workload/resources.go of v0.18."""
    multiplies_exactly: bool = False
    """Whether transformations multiply the exact amount of their input, and not the amount rounded up. Source:
    applyResourceTransformations in pkg/workload/workload.go of v0.18."""
    adds_outputs: bool = False
    """Whether outputs of transformations are added to what pods request of the same resource. Before, the order of a Go
    map decides. Source: applyResourceTransformations in pkg/workload/workload.go of v0.19."""
    counts_devices: bool = False
    """Whether pods with resource claims need quota of device classes. Source: pkg/dra of v0.18."""
    holds_workloads: bool = False
    """Whether Kueue leaves out of its queues workloads that are on hold, or that wait for replacement pods. Source:
    IsAdmissible in pkg/workload/workload.go of v0.18."""
    max_pod_sets: int = 8
    """Of a Workload. Kueue creates none for a job with more, which stays suspended."""
    gates: Mapping[str, Gate] = field(default_factory=lambda: GATES)
    locked: tuple[str, ...] = LOCKED_GATES
    """The gates that Kueue requires to have their default value."""
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: FIELDS)


def _gates(base: Mapping[str, Gate], changes: GateChanges) -> Mapping[str, Gate]:
    return {name: gate for name, gate in {**base, **changes}.items() if gate is not None}


def _fields(base: Mapping[str, Mapping[str, str]], changes: FieldChanges) -> Mapping[str, Mapping[str, str]]:
    return {
        kind: {path: text for path, text in {**table, **changes.get(kind, {})}.items() if text is not None}
        for kind, table in base.items()
    }


_GATES_14: GateChanges = {
    "AdmissionFairSharing": Gate("off", "modelled"),
    "ExposeFlavorsInLocalQueue": Gate("on", "irrelevant", "it writes the status of LocalQueues"),
    "FailureRecoveryPolicy": None,
    "ManagedJobsNamespaceSelector": Gate("on", "irrelevant", "Kueue v0.14 locks it to its default"),
    "ManagedJobsNamespaceSelectorAlwaysRespected": Gate("off", "modelled"),
    "MultiKueueAdaptersForCustomJobs": Gate("off", "irrelevant", _MULTIKUEUE),
    "MultiKueueAllowInsecureKubeconfigs": None,
    "MultiKueueBatchJobWithManagedBy": Gate("off", "irrelevant", _MULTIKUEUE),
    "MultiKueueClusterProfile": None,
    "PropagateBatchJobLabelsToWorkload": None,
    "ProvisioningACC": Gate("on", "irrelevant", "Kueue v0.14 locks it to its default"),
    "ReclaimablePods": None,
    "SanitizePodSets": None,
    "TASBalancedPlacement": None,
    "TASProfileMixed": Gate("off", "irrelevant", _TOPOLOGY),
}
_GATES_16: GateChanges = {
    "ConfigurableResourceTransformations": None,
    "FairSharingPrioritizeNonBorrowing": Gate("on", "modelled"),
    "FlavorFungibilityImplicitPreferenceDefault": None,
    "MultiKueueRedoAdmissionOnEvictionInWorker": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueWaitForWorkloadAdmitted": Gate("on", "irrelevant", _MULTIKUEUE),
    "RemoveFinalizersWithStrictPatch": Gate("on", "irrelevant", _JOBS),
    "SkipFinalizersForPodsSuspendedByParent": Gate("on", "irrelevant", _JOBS),
    "TASReplaceNodeOnNodeTaints": Gate("off", "irrelevant", _TOPOLOGY),
    "TLSOptions": Gate("on", "irrelevant", _OPERATION),
}
_GATES_17: GateChanges = {
    "AdmissionGatedBy": Gate("off", "unknown", "gates of admission are not calculated"),
    "AssignQueueLabelsForPods": Gate("on", "irrelevant", _JOBS),
    "CustomMetricLabels": Gate("off", "irrelevant", "metrics"),
    "DRAExtendedResources": Gate("off", "unknown", "quota of device classes is not calculated"),
    "ElasticJobsViaWorkloadSlicesWithTAS": Gate("off", "unknown", "workload slices are not calculated"),
    "FairSharingPreemptWithinNominal": Gate("on", "modelled"),
    "FastQuotaReleaseInPodIntegration": Gate("off", "irrelevant", "it changes when ending pods release their quota"),
    "LocalQueueMetrics": Gate("on", "irrelevant", "metrics"),
    "MultiKueueOrchestratedPreemption": Gate("off", "unknown", "gates of preemption are not calculated"),
    "PriorityBoost": Gate("off", "unknown", "boosts of priorities are not calculated"),
    "SchedulerLongRequeueInterval": Gate("off", "irrelevant", "it changes how soon a workload is tried again"),
    "SchedulerTimestampPreemptionBuffer": Gate("off", "unknown", "the buffer of five minutes is not calculated"),
    "SchedulingEquivalenceHashing": Gate("off", "unknown", "the skipping of equivalent workloads is not calculated"),
    "ShortWorkloadNames": Gate("off", "irrelevant", _JOBS),
    "SparkApplicationIntegration": Gate("off", "irrelevant", _JOBS),
    "TASMultiLayerTopology": Gate("off", "irrelevant", _TOPOLOGY),
    "TASProfileLeastFreeCapacity": None,
    "TASReplaceNodeOnNodeTaints": Gate("on", "irrelevant", _TOPOLOGY),
}
_PLACEMENT = "the simulator does not place pods in a topology; Kueue's own code does, with these gates"
_VALIDATION = "it changes what the API server accepts"
_CLAIMS = "pods with resource claims alone depend on it, and have no verdict"
_GATES_18: GateChanges = {
    "CleanupProvisioningRequestsOnEviction": Gate("on", "irrelevant", "it deletes objects of evicted workloads"),
    "ConcurrentAdmission": Gate("off", "unknown", "the admission of several variants is not calculated"),
    "DRAExtendedResources": Gate("off", "irrelevant", "Kueue v0.18 locks it to its default"),
    "DeferRayServiceFinalizationForRedisCleanup": Gate("on", "irrelevant", _JOBS),
    "DynamicResourceAllocation": Gate("off", "irrelevant", "Kueue v0.18 locks it to its default"),
    # Workloads with its annotations have no verdict.
    "ElasticJobsViaWorkloadSlices": Gate("on", "modelled"),
    "FinishOrphanedWorkloads": Gate("on", "irrelevant", "it ends workloads whose owner is gone"),
    "KueueDRAIntegration": Gate("on", "irrelevant", _CLAIMS),
    # With it, pods that request a resource which may be of a device class have no verdict.
    "KueueDRAIntegrationExtendedResource": Gate("off", "modelled"),
    "KueueDRAIntegrationPartitionableDevices": Gate("off", "irrelevant", _CLAIMS),
    "KueueDRARejectWorkloadsWhenDRADisabled": Gate("on", "irrelevant", _CLAIMS),
    "MetricForWorkloadCreationLatency": Gate("on", "irrelevant", "metrics"),
    "MetricsForCohorts": Gate("on", "irrelevant", "metrics"),
    "MultiKueueManagerQuotaAutomation": Gate(
        "off", "irrelevant", "it writes the quota of ClusterQueues, which is read"
    ),
    "QuotaCheckStrategy": Gate("off", "modelled"),
    "RejectUpdatesToCQWithInvalidOnFlavors": Gate("off", "irrelevant", _VALIDATION),
    "SchedulingEquivalenceHashing": Gate(
        "on", "irrelevant", "it skips attempts of workloads equal to one for which nothing fits or may be preempted"
    ),
    "SkipReassignmentForPodOwnedWorkloads": Gate("off", "irrelevant", _PLACEMENT),
    "TASCacheNodeMatchResults": Gate("on", "irrelevant", _PLACEMENT),
    "TASCachingRemainingResources": Gate("on", "irrelevant", _PLACEMENT),
    "TASHandleOverlappingFlavors": Gate("on", "irrelevant", _PLACEMENT),
    "TASRecomputeAssignmentWithinSchedulingCycle": Gate("on", "irrelevant", _PLACEMENT),
    "TASReplaceNodeDueToNotReadyOverFixedTime": Gate("on", "irrelevant", _PLACEMENT),
    "TASRespectNodeAffinityPreferred": Gate("off", "irrelevant", _PLACEMENT),
    "VectorizedResourceRequests": Gate("on", "irrelevant", "it changes how requests are stored, not their amounts"),
    "WorkloadIdentifierAnnotations": Gate("on", "irrelevant", _JOBS),
    "WorkloadPriorityClassDefaulting": Gate("off", "unknown", "the default priority class is not read"),
}
_STATUS = "it changes conditions and events of workloads"
_GATES_19: GateChanges = {
    # Workloads with its annotation have no verdict.
    "AdmissionGatedBy": Gate("on", "modelled"),
    "DRAExtendedResources": None,
    "DisableWaitForPodsReady": Gate("off", "unknown", "waitForPodsReady without effect is not calculated"),
    "DynamicResourceAllocation": None,
    "FlavorFungibilityPreserveScanProgress": Gate("on", "modelled"),
    "KueueDRAIntegrationConsumableCapacity": Gate("off", "irrelevant", _CLAIMS),
    "KueueDRAIntegrationExtendedResource": Gate("on", "modelled"),
    "KueueDRAIntegrationPartitionableDevices": Gate("on", "irrelevant", _CLAIMS),
    "LWSImmutableGroupSize": Gate("on", "irrelevant", _VALIDATION),
    "LendingLimit": None,
    "LocalQueueDefaulting": None,
    "MultiKueueBatchJobWithManagedBy": None,
    "MultiKueueIncrementalDispatcherConfig": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueIncrementalDispatcherRespectConfigOrder": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueKubeConfigPathValidation": Gate("off", "irrelevant", _MULTIKUEUE),
    "MultiKueueRemoteSpecSync": Gate("on", "irrelevant", _MULTIKUEUE),
    "PodIntegrationValidateGroupOwner": Gate("on", "irrelevant", _JOBS),
    "PrioritizePreemptorWorkloads": Gate("off", "unknown", "the precedence of preempting workloads is not calculated"),
    "QuotaCheckStrategy": Gate("on", "modelled"),
    "RecomputeAssignmentUponPreemptionTargetsOverlap": Gate(
        "off", "unknown", "a second search for preemption targets in a cycle is not calculated"
    ),
    "SanitizePodSets": None,
    "SchedulerLibraryIntegration": Gate("off", "irrelevant", _PLACEMENT),
    "SkipAncestorCheckForDeletedWorkloads": Gate("on", "irrelevant", _JOBS),
    "SkipReassignmentForPodOwnedWorkloads": Gate("on", "irrelevant", _PLACEMENT),
    "TASAssignmentsEncodingByHostnamePrefix": Gate("on", "irrelevant", _PLACEMENT),
    "TASCacheTopologyTree": Gate("off", "irrelevant", _PLACEMENT),
    "TASMultiLayerTopology": Gate("on", "irrelevant", _PLACEMENT),
    "TASReplaceNodeDueToNotReadyOverFixedTime": Gate("off", "irrelevant", _PLACEMENT),
    "TASValidateWorkloadSliceSize": Gate("on", "irrelevant", _VALIDATION),
    "UnadmittedWorkloadsExplicitStatus": Gate("off", "irrelevant", _STATUS),
    "UnadmittedWorkloadsObservability": Gate("off", "irrelevant", _STATUS),
    "ValidateRayAndSparkJobUpdates": Gate("on", "irrelevant", _VALIDATION),
    "WorkloadValidateResourcesAreNonNegative": Gate("on", "irrelevant", _VALIDATION),
    "WorkloadValidationForPodSetMetadata": Gate("on", "irrelevant", _VALIDATION),
}
_FIELDS_14: FieldChanges = {
    # Of its API v1beta1.
    "AdmissionCheck": {"spec.retryDelayMinutes": "it delays checks after the reservation"},
    "ClusterQueue": {
        "spec.admissionChecks": UNKNOWN,
        "spec.cohort": MODELED,
        "spec.cohortName": None,
        "status.pendingWorkloadsStatus": "Kueue's own sums of what is read from Workloads",
    },
    "Configuration": {"queueVisibility": _OPERATION, "waitForPodsReady.enable": MODELED},
    "LocalQueue": {
        "status.flavorUsage": "Kueue's own sums of what is read from Workloads",
        "status.flavors": "copies of ResourceFlavors",
        "status.flavorsUsage": None,
    },
    "Workload": {
        "spec.priorityClassName": "spec.priority has its value",
        "spec.priorityClassRef": None,
        "spec.priorityClassSource": "spec.priority has its value",
        "status.accumulatedPastExecutionTimeSeconds": None,
        "status.accumulatedPastExexcutionTimeSeconds": "it ends running workloads",
        "status.admissionChecks[].requeueAfterSeconds": None,
        "status.admissionChecks[].retryCount": None,
    },
}
_FIELDS_16: FieldChanges = {
    "Configuration": {
        "resources.transformations": None,
        "resources.transformations[].input": MODELED,
        "resources.transformations[].multiplyBy": UNKNOWN,
        "resources.transformations[].outputs": MODELED,
        "resources.transformations[].strategy": MODELED,
        "tls": _OPERATION,
    }
}
_GATED_FIELD = "it counts with feature gate MultiKueueOrchestratedPreemption alone"
_FIELDS_17: FieldChanges = {
    "Configuration": {"visibilityServer": _OPERATION},
    "Workload": {
        "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints": UNKNOWN,
        "spec.preemptionGates": _GATED_FIELD,
        "status.preemptionGates": _GATED_FIELD,
    },
}

_FIELDS_18: FieldChanges = {
    "ClusterQueue": {"spec.concurrentAdmissionPolicy": "it counts with feature gate ConcurrentAdmission alone"},
    "Configuration": {
        "resources.deviceClassMappings": MODELED,
        "resources.quotaCheckStrategy": MODELED,
    },
}
_GATED_FIELD_19 = "it counts with feature gates ConcurrentAdmission and MultiKueueOrchestratedPreemption alone"
_FIELDS_19: FieldChanges = {
    "Workload": {"spec.preemptionGates": _GATED_FIELD_19, "status.preemptionGates": _GATED_FIELD_19},
}

V15 = KueueRelease()
UNKNOWN_RELEASE = KueueRelease("")
"""As v0.15; verdicts are unknown where the modeled releases differ."""
_V16 = KueueRelease(
    "v0.16",
    compares_tolerations=True,
    skips_zero_requests=True,
    preference_as_named=True,
    nominal_first="by queue",
    dispatches_or_provisions=True,
    gates=_gates(GATES, _GATES_16),
    locked=(),
    fields=_fields(FIELDS, _FIELDS_16),
)
_V17 = replace(
    _V16,
    minor="v0.17",
    counts_unlendable=True,
    keeps_limit_range_defaults=True,
    nominal_first="by subtree",
    quota_only_flavors=True,
    gates=_gates(_V16.gates, _GATES_17),
    locked=(
        "HierarchicalCohorts",
        "LendingLimit",
        "LocalQueueDefaulting",
        "MultiKueueBatchJobWithManagedBy",
        "ObjectRetentionPolicies",
        "PropagateBatchJobLabelsToWorkload",
        "SanitizePodSets",
    ),
    fields=_fields(_V16.fields, _FIELDS_17),
)
_V18 = replace(
    _V17,
    minor="v0.18",
    compares_own_label_keys=True,
    counts_devices=True,
    defaults_pod_level_requests=True,
    forgets_pods=True,
    holds_workloads=True,
    max_pod_sets=10,
    multiplies_exactly=True,
    needs_one_topology=True,
    panics_without_cohort=False,
    saturates=True,
    gates=_gates(_V17.gates, _GATES_18),
    locked=(
        *_V17.locked,
        "DRAExtendedResources",
        "DynamicResourceAllocation",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
        "SkipFinalizersForPodsSuspendedByParent",
    ),
    fields=_fields(_V17.fields, _FIELDS_18),
)
_V19 = replace(
    _V18,
    minor="v0.19",
    adds_outputs=True,
    max_pod_sets=18,
    no_candidates_last=True,
    gates=_gates(_V18.gates, _GATES_19),
    locked=(
        "HierarchicalCohorts",
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
        "ObjectRetentionPolicies",
        "PropagateBatchJobLabelsToWorkload",
        "SkipFinalizersForPodsSuspendedByParent",
    ),
    fields=_fields(_V18.fields, _FIELDS_19),
)
RELEASES: Mapping[str, KueueRelease] = {
    release.minor: release
    for release in (
        KueueRelease(
            "v0.14",
            serves_v1beta2=False,
            gates=_gates(GATES, _GATES_14),
            locked=(*LOCKED_GATES, "ManagedJobsNamespaceSelector", "ProvisioningACC"),
            fields=_fields(FIELDS, _FIELDS_14),
        ),
        V15,
        _V16,
        _V17,
        _V18,
        _V19,
    )
}
"""The releases that the simulator models, by minor release."""
_NEWEST_RELEASE = _V19
_MODELED_PATCHES: Mapping[str, int] = {"v0.14": 0, "v0.15": 2, "v0.16": 2, "v0.17": 0, "v0.18": 4, "v0.19": 2}
"""The patch releases with whose own code the rules are compared."""
_NEWEST_PATCHES: Mapping[str, int] = {"v0.14": 0, "v0.15": 8, "v0.16": 9, "v0.17": 8, "v0.18": 6, "v0.19": 2}
"""The newest patch releases whose changelog and gates were read. A verdict on a later one is marked."""
_GATES_OF_PATCHES: Mapping[str, tuple[Callable[[int], bool], GateChanges]] = {
    "v0.18": (lambda patch: patch >= 5, {"FlavorFungibilityPreserveScanProgress": Gate("on", "modelled")}),
    "v0.19": (lambda patch: patch < 1, {"FlavorFungibilityPreserveScanProgress": None}),
}
"""Modeled gates that patch releases have and the modeled one lacks, or the reverse; and the patches. What else they add
is off by default, or no verdict depends on it."""
_DEVIATING_PATCHES: Mapping[str, Mapping[DisputedFeature, Callable[[int], bool]]] = {
    "v0.15": {"fair sharing": lambda patch: patch >= 5, "topology": lambda patch: patch >= 6},
    "v0.16": {
        "LimitRange defaults": lambda patch: patch >= 4,
        "fair sharing": lambda patch: patch != 2,
        "preference": lambda patch: patch < 2,
        "topology": lambda patch: patch >= 3,
    },
    "v0.17": {
        "label keys": lambda patch: patch >= 6,
        "pod-level resources": lambda patch: patch >= 7,
        "several topologies": lambda patch: patch >= 5,
        "transformations": lambda patch: patch >= 7,
    },
    "v0.18": {
        "label keys": lambda patch: patch < 2,
        "no candidates": lambda patch: patch >= 5,
        "pod-level resources": lambda patch: patch < 3,
        "several topologies": lambda patch: patch < 1,
        "transformations": lambda patch: patch < 3 or patch >= 5,
    },
    "v0.19": {"no candidates": lambda patch: patch < 1, "transformations": lambda patch: patch < 1},
}
"""The patch releases that do not decide as the modeled ones.

Fair sharing admits first what does not borrow since v0.15.5 and v0.16.2; queues preempt within their nominal quota, and
flavors may have quota alone, since v0.15.6 and v0.16.3; preferences mean what they are named since v0.16.2; defaults of
LimitRanges are kept since v0.16.4. Pods need one topology since v0.17.5 and v0.18.1; selectors are compared with a
flavor's own keys since v0.17.6 and v0.18.2; pod-level limits are the default of requests, and transformations multiply
exactly, since v0.17.7 and v0.18.3. A flavor without preemption candidates is the worst, and outputs of transformations
are added to requests, since v0.18.5 and v0.19.1. Source: Kueue's CHANGELOG, and the table in
docs/decisions/0018-second-judge.md.
"""


def minor_of(release: str) -> str:
    """Return the minor release of a release, such as `v0.15` of `0.15.2`; empty for anything else."""
    version = parse_release(release)
    return f"v{version.major}.{version.minor}" if version else ""


def is_newer(release: str) -> bool:
    """Return whether a release is of a later minor release than all that the simulator models."""
    return is_later_minor(release, _NEWEST_RELEASE.minor)


def release_of(release: str) -> KueueRelease:
    """Return what verdicts on a release depend on: for one that is newer than all modeled ones the newest rules, for
    one that is older or not a version those of `UNKNOWN_RELEASE`."""
    minor, version = minor_of(release), parse_release(release)
    if is_newer(release):
        return replace(_NEWEST_RELEASE, name=release, not_compared=minor)
    modeled_release = replace(RELEASES.get(minor, UNKNOWN_RELEASE), name=release)
    # A minor release alone, as users write it, has no known patches.
    if version is None or minor not in RELEASES or release.count(".") < 2:
        return modeled_release
    newest_patch = _NEWEST_PATCHES[minor]
    has_changed_gates, changed_gates = _GATES_OF_PATCHES.get(minor, (lambda _: False, {}))
    return replace(
        modeled_release,
        is_patched=version.patch != _MODELED_PATCHES[minor],
        not_compared=f"{minor} after {minor}.{newest_patch}" if version.patch > newest_patch else "",
        disputed_features=frozenset(
            feature for feature, deviates in _DEVIATING_PATCHES.get(minor, {}).items() if deviates(version.patch)
        ),
        gates=_gates(modeled_release.gates, changed_gates if has_changed_gates(version.patch) else {}),
    )
