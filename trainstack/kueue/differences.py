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
from trainstack.versions import parse_release

_TOPOLOGY = "verdicts do not place pods in a topology"
_MULTIKUEUE = "the quota of this cluster is the same with MultiKueue"
_JOBS = "it changes how jobs and Workload objects are written, not how they are admitted"
_OPERATION = "the operation of the controller"

GateChanges = Mapping[str, Gate | None]
"""By gate; None: the release does not have it."""
FieldChanges = Mapping[str, Mapping[str, str | None]]
"""By kind and path; None: the release does not have it."""


DisputedFeature = Literal["fair sharing", "preference", "topology"]


@dataclass(frozen=True, slots=True)
class KueueRelease:
    """A minor release, by what a verdict depends on. The defaults are those of v0.15."""

    minor: str = "v0.15"
    """Empty if it is unknown."""
    serves_v1beta2: bool = True
    """Whether it serves the version of its API in which objects are declared and read."""
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
    dispatches_or_provisions: bool = False
    """Whether a queue with checks of both MultiKueue and ProvisioningRequest is inactive. Source:
    updateQueueStatus in pkg/cache/scheduler/clusterqueue.go."""
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

PINNED = KueueRelease()
UNKNOWN_RELEASE = KueueRelease("")
"""As the pinned one; verdicts are unknown where the modeled releases differ."""
_V16 = KueueRelease(
    "v0.16",
    skips_zero_requests=True,
    preference_as_named=True,
    nominal_first="by queue",
    dispatches_or_provisions=True,
    gates=_gates(GATES, _GATES_16),
    locked=(),
    fields=_fields(FIELDS, _FIELDS_16),
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
        PINNED,
        _V16,
        KueueRelease(
            "v0.17",
            skips_zero_requests=True,
            preference_as_named=True,
            counts_unlendable=True,
            nominal_first="by subtree",
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
_DEVIATING_PATCHES: Mapping[str, Mapping[DisputedFeature, Callable[[int], bool]]] = {
    "v0.15": {"fair sharing": lambda patch: patch >= 5, "topology": lambda patch: patch >= 6},
    "v0.16": {
        "fair sharing": lambda patch: patch != 2,
        "preference": lambda patch: patch < 2,
        "topology": lambda patch: patch >= 3,
    },
}
"""The patch releases that do not decide as v0.15.2 and v0.16.2, which are modeled. Fair sharing admits first what does
not borrow since v0.15.5 and v0.16.2; queues preempt within their nominal quota, and flavors may have quota alone, since
v0.15.6 and v0.16.3; preferences mean what they are named since v0.16.2. Source: CHANGELOG-0.15.md, CHANGELOG-0.16.md.
"""


def minor_of(release: str) -> str:
    """Return the minor release of a release, such as `v0.15` of `0.15.2`; empty for anything else."""
    version = parse_release(release)
    return f"v{version.major}.{version.minor}" if version else ""


def release_of(release: str) -> KueueRelease:
    """Return what verdicts on a release depend on. One that is not modeled counts as the pinned one."""
    if not release:
        return UNKNOWN_RELEASE
    modeled_release, version = RELEASES.get(minor_of(release), PINNED), parse_release(release)
    # A minor release alone, as users write it, has no known patches.
    if version is None or release.count(".") < 2:
        return modeled_release
    patches_by_feature = _DEVIATING_PATCHES.get(minor_of(release), {})
    return replace(
        modeled_release,
        disputed_features=frozenset(
            feature for feature, deviates in patches_by_feature.items() if deviates(version.patch)
        ),
    )
