"""What differs between the minor releases of Kueue that the simulator models: all differences are here.

FIELDS and GATES describe v0.15, the release that environments install; other releases are described by their
differences from it. Found by reading the modules and by comparing thousands of drawn cases with each release's own
code (docs/decisions/0018-second-judge.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainstack.kueue.feature_gates import GATES, LOCKED, Gate
from trainstack.kueue.fields import FIELDS, MODELLED, UNKNOWN

_TOPOLOGY = "verdicts do not place pods in a topology"
_MULTIKUEUE = "the quota of this cluster is the same with MultiKueue"
_JOBS = "it changes how jobs and Workload objects are written, not how they are admitted"
_OPERATION = "the operation of the controller"

Changes = Mapping[str, Gate | None]
"""By gate; None: the release does not have it."""
FieldChanges = Mapping[str, Mapping[str, str | None]]
"""By kind and path; None: the release does not have it."""


@dataclass(frozen=True, slots=True)
class Release:
    """A minor release, by what a verdict depends on. The defaults are those of v0.15."""

    minor: str = "v0.15"
    """Empty if it is unknown."""
    serves_v1beta2: bool = True
    """Whether it serves the version of its API in which objects are declared and read."""
    skips_zero_requests: bool = False
    """Whether a request of nothing is ignored if no resource group covers the resource. Source: assignFlavors in
    pkg/scheduler/flavorassigner/flavorassigner.go; issue 8079 of Kueue."""
    preference_as_named: bool = False
    """Whether `flavorFungibility.preference: BorrowingOverPreemption` prefers borrowing. In v0.15 it prefers
    preemption, and the other value borrowing. Source: isPreferred in flavorassigner.go; CHANGELOG-0.16.md."""
    models_fair_sharing: bool = True
    """Whether preemption under fair sharing is calculated. In a drawn case where v0.15 preempts a workload, v0.14
    preempts none. Source for v0.17: pkg/scheduler/preemption, where a queue within its nominal quota preempts whatever
    the shares are."""
    prefers_nominal_quota: bool = False
    """Whether fair sharing admits workloads that do not borrow before all others. No verdict on one workload depends
    on it; forecasts do not simulate it. Source: fair_sharing_iterator.go of v0.16."""
    quota_only_flavors: bool = False
    """Whether pods with a topology request get flavors without a topology for resources that only transformations
    yield, which is not calculated. Source: tas_flavorassigner.go of v0.17."""
    dispatches_or_provisions: bool = False
    """Whether a queue with checks of both MultiKueue and ProvisioningRequest is inactive. Source:
    updateQueueStatus in pkg/cache/scheduler/clusterqueue.go."""
    gates: Mapping[str, Gate] = field(default_factory=lambda: GATES)
    locked: tuple[str, ...] = LOCKED
    """The gates with another value than whose default Kueue does not start."""
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: FIELDS)


def _gates(base: Mapping[str, Gate], changes: Changes) -> Mapping[str, Gate]:
    return {name: gate for name, gate in {**base, **changes}.items() if gate is not None}


def _fields(base: Mapping[str, Mapping[str, str]], changes: FieldChanges) -> Mapping[str, Mapping[str, str]]:
    return {
        kind: {path: text for path, text in {**table, **changes.get(kind, {})}.items() if text is not None}
        for kind, table in base.items()
    }


_GATES_14: Changes = {
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
_GATES_16: Changes = {
    "ConfigurableResourceTransformations": None,
    "FairSharingPrioritizeNonBorrowing": Gate("on", "unknown", "the order of queues without it is not calculated"),
    "FlavorFungibilityImplicitPreferenceDefault": None,
    "MultiKueueRedoAdmissionOnEvictionInWorker": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueWaitForWorkloadAdmitted": Gate("on", "irrelevant", _MULTIKUEUE),
    "RemoveFinalizersWithStrictPatch": Gate("on", "irrelevant", _JOBS),
    "SkipFinalizersForPodsSuspendedByParent": Gate("on", "irrelevant", _JOBS),
    "TASReplaceNodeOnNodeTaints": Gate("off", "irrelevant", _TOPOLOGY),
    "TLSOptions": Gate("on", "irrelevant", _OPERATION),
}
_GATES_17: Changes = {
    "AdmissionGatedBy": Gate("off", "unknown", "gates of admission are not calculated"),
    "AssignQueueLabelsForPods": Gate("on", "irrelevant", _JOBS),
    "CustomMetricLabels": Gate("off", "irrelevant", "metrics"),
    "DRAExtendedResources": Gate("off", "unknown", "quota of device classes is not calculated"),
    "ElasticJobsViaWorkloadSlicesWithTAS": Gate("off", "unknown", "workload slices are not calculated"),
    "FairSharingPreemptWithinNominal": Gate("on", "unknown", "preemption by shares alone is not calculated"),
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
_FIELDS_14: FieldChanges = {
    # Of its API v1beta1.
    "AdmissionCheck": {"spec.retryDelayMinutes": "it delays checks after the reservation"},
    "ClusterQueue": {
        "spec.admissionChecks": UNKNOWN,
        "spec.cohort": MODELLED,
        "spec.cohortName": None,
        "status.pendingWorkloadsStatus": "Kueue's own sums of what is read from Workloads",
    },
    "Configuration": {"queueVisibility": _OPERATION, "waitForPodsReady.enable": MODELLED},
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
        "resources.transformations[].input": MODELLED,
        "resources.transformations[].multiplyBy": UNKNOWN,
        "resources.transformations[].outputs": MODELLED,
        "resources.transformations[].strategy": MODELLED,
        "tls": _OPERATION,
    }
}
_GATED = "it counts with feature gate MultiKueueOrchestratedPreemption alone"
_FIELDS_17: FieldChanges = {
    "Configuration": {"visibilityServer": _OPERATION},
    "Workload": {
        "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints": UNKNOWN,
        "spec.preemptionGates": _GATED,
        "status.preemptionGates": _GATED,
    },
}

PINNED = Release()
UNKNOWN_RELEASE = Release("", models_fair_sharing=False, quota_only_flavors=True)
"""As the pinned one; verdicts are unknown where the modelled releases differ."""
_V16 = Release(
    "v0.16",
    skips_zero_requests=True,
    preference_as_named=True,
    prefers_nominal_quota=True,
    dispatches_or_provisions=True,
    gates=_gates(GATES, _GATES_16),
    locked=(),
    fields=_fields(FIELDS, _FIELDS_16),
)
RELEASES: Mapping[str, Release] = {
    release.minor: release
    for release in (
        Release(
            "v0.14",
            serves_v1beta2=False,
            models_fair_sharing=False,
            gates=_gates(GATES, _GATES_14),
            locked=(*LOCKED, "ManagedJobsNamespaceSelector", "ProvisioningACC"),
            fields=_fields(FIELDS, _FIELDS_14),
        ),
        PINNED,
        _V16,
        Release(
            "v0.17",
            skips_zero_requests=True,
            preference_as_named=True,
            models_fair_sharing=False,
            prefers_nominal_quota=True,
            quota_only_flavors=True,
            dispatches_or_provisions=True,
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
        ),
    )
}
"""The releases that the simulator models, by minor release."""


def minor_of(release: str) -> str:
    """Return the minor release of a release, such as `v0.15` of `0.15.2`."""
    major, _, rest = release.removeprefix("v").partition(".")
    return f"v{major}.{rest.partition('.')[0]}"


def release_of(release: str) -> Release:
    """Return what verdicts on a release depend on. One that is not modelled is taken as the pinned one."""
    return RELEASES.get(minor_of(release), PINNED) if release else UNKNOWN_RELEASE
