"""Kueue's feature gates: their defaults, and what a verdict does if one has another value.

Source: pkg/features/kube_features.go of Kueue v0.15.2.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """The default of a feature gate, and its effect on verdicts."""

    usual: Literal["on", "off"]
    """The default."""
    treatment: Literal["modelled", "irrelevant", "unknown"]
    """`modelled`: both values are calculated. `irrelevant`: no verdict depends on it. `unknown`: another value than
    the default makes verdicts unknown."""
    reason: str = ""
    """Why it is irrelevant or unknown."""

    @property
    def default(self) -> bool:
        return self.usual == "on"


_TOPOLOGY = "the simulator does not place pods in a topology; Kueue's own code does, with these gates"
_MULTIKUEUE = "the quota of this cluster is the same with MultiKueue"
_JOBS = "it changes how Workload objects are written, not how they are admitted"

GATES: Mapping[str, Gate] = {
    "AdmissionFairSharing": Gate("on", "modelled"),
    "ConfigurableResourceTransformations": Gate("on", "irrelevant", "Kueue v0.15 locks it to its default"),
    "DynamicResourceAllocation": Gate("off", "unknown", "quota of device classes is not calculated"),
    "ElasticJobsViaWorkloadSlices": Gate("off", "unknown", "the replacement of workload slices is not calculated"),
    "FailureRecoveryPolicy": Gate("off", "irrelevant", "it ends stuck pods, which changes no decision on quota"),
    "FlavorFungibility": Gate("on", "unknown", "the search for flavors without it is not calculated"),
    "FlavorFungibilityImplicitPreferenceDefault": Gate("off", "modelled"),
    "HierarchicalCohorts": Gate("on", "modelled"),
    "LendingLimit": Gate("on", "modelled"),
    "LocalQueueDefaulting": Gate("on", "modelled"),
    "LocalQueueMetrics": Gate("off", "irrelevant", "metrics"),
    "ManagedJobsNamespaceSelectorAlwaysRespected": Gate("on", "modelled"),
    "MultiKueue": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueAdaptersForCustomJobs": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueAllowInsecureKubeconfigs": Gate("off", "irrelevant", _MULTIKUEUE),
    "MultiKueueBatchJobWithManagedBy": Gate("on", "irrelevant", _MULTIKUEUE),
    "MultiKueueClusterProfile": Gate("off", "irrelevant", _MULTIKUEUE),
    "ObjectRetentionPolicies": Gate("on", "irrelevant", "it deletes objects of ended workloads"),
    "PartialAdmission": Gate("on", "modelled"),
    "PrioritySortingWithinCohort": Gate("on", "modelled"),
    "PropagateBatchJobLabelsToWorkload": Gate("on", "irrelevant", _JOBS),
    "ReclaimablePods": Gate("on", "modelled"),
    "SanitizePodSets": Gate("on", "irrelevant", _JOBS),
    "TASBalancedPlacement": Gate("off", "irrelevant", _TOPOLOGY),
    "TASFailedNodeReplacement": Gate("on", "irrelevant", _TOPOLOGY),
    "TASFailedNodeReplacementFailFast": Gate("on", "irrelevant", _TOPOLOGY),
    "TASProfileLeastFreeCapacity": Gate("off", "irrelevant", _TOPOLOGY),
    "TASProfileMixed": Gate("on", "irrelevant", _TOPOLOGY),
    "TASReplaceNodeOnPodTermination": Gate("on", "irrelevant", _TOPOLOGY),
    "TopologyAwareScheduling": Gate("on", "modelled"),
    "VisibilityOnDemand": Gate("on", "irrelevant", "it answers queries of queues"),
    "WorkloadRequestUseMergePatch": Gate("off", "irrelevant", _JOBS),
}


LOCKED_GATES = ("ConfigurableResourceTransformations",)
"""Gates that Kueue v0.15 requires to have their default value."""
GROUPS_OF_GATES = ("AllAlpha", "AllBeta")
"""All gates of a stage."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    overrides: Mapping[str, bool] = field(default_factory=dict)
    """The gates that have another value than their default, or are not in the release's table."""
    gates: Mapping[str, Gate] = field(default_factory=lambda: GATES)
    """The table of the release."""

    @classmethod
    def read(cls, configuration: Body | None, table: Mapping[str, Gate] = GATES) -> "FeatureGates":
        """Read the gates of Kueue's Configuration; None: the defaults. `table`: the gates of its release."""
        gates = (configuration or {}).get("featureGates") or {}
        overrides = {
            name: is_on for name, is_on in gates.items() if name not in table or is_on is not table[name].default
        }
        return cls(overrides, table)

    def is_enabled(self, name: str) -> bool:
        """Return a gate's value. A gate that the release does not have is as v0.15's default, or off."""
        gate = self.gates.get(name) or GATES.get(name)
        return self.overrides.get(name, gate is not None and gate.default)

    def unmodeled_gates(self) -> Iterator[str]:
        """Yield why verdicts are unknown with these gates, by gate."""
        for name, is_on in sorted(self.overrides.items()):
            gate = self.gates.get(name)
            text = f"feature gate {name}={str(is_on).lower()}"
            if gate is None:
                yield f"{text}, which the verdict does not know"
            elif gate.treatment == "unknown":
                yield f"{text}: {gate.reason}"


DEFAULT_GATES = FeatureGates()


def parse_gate_arguments(arguments: Iterable[str]) -> dict[str, bool]:
    """Return the gates of the manager's arguments: `--feature-gates=A=true,B=false`, also as two arguments."""
    words = iter(arguments)
    values: dict[str, bool] = {}
    for word in words:
        flag, equals, text = word.partition("=")
        if flag.lstrip("-") == "feature-gates":
            pairs = text if equals else next(words, "")
            for pair in filter(None, pairs.split(",")):
                name, _, value = pair.partition("=")
                # As strconv.ParseBool, which pflag uses.
                values[name.strip()] = value.strip() in ("1", "t", "T", "true", "TRUE", "True")
    return values
