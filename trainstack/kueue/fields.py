"""Every field of Kueue's objects and Configuration, and what a verdict does with it.

A path covers the fields below it; `[]` is an element of a list. Source: the release's definitions and
apis/config/v1beta2 of Kueue v0.15.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]

MODELED = "modelled"
"""A field that verdicts depend on. All other texts are reasons why a field is irrelevant to admission; a field that is
not listed makes verdicts unknown."""
UNKNOWN = "unknown"
"""A field that makes verdicts unknown, as one that is not listed."""
_MESSAGE = "a message of Kueue"
_COUNTS = "Kueue's own sums of what is read from Workloads"
_TOPOLOGY = "where a topology decides, the verdict is of Kueue's own code, or unknown"
_MULTIKUEUE = "the quota of this cluster is the same with MultiKueue"
_PAST_USAGE = "the verdict is unknown where admission fair sharing decides"
_OPERATION = "the operation of the controller"
_SELECTION = "it selects the jobs that Kueue manages, before admission"
_BACKOFF = "the time of the next attempt is in the Workload's status"

_CONDITION = {
    "status.conditions[].lastTransitionTime": _MESSAGE,
    "status.conditions[].message": _MESSAGE,
    "status.conditions[].observedGeneration": _MESSAGE,
    "status.conditions[].reason": MODELED,
    "status.conditions[].status": MODELED,
    "status.conditions[].type": MODELED,
}

FIELDS: Mapping[str, Mapping[str, str]] = {
    "AdmissionCheck": {
        "spec.controllerName": "the condition Active is read",
        "spec.parameters": "the condition Active is read",
        **_CONDITION,
    },
    "ClusterQueue": {
        "spec.admissionChecksStrategy": MODELED,
        "spec.admissionScope": MODELED,
        "spec.cohortName": MODELED,
        "spec.fairSharing": MODELED,
        "spec.flavorFungibility": MODELED,
        "spec.namespaceSelector": MODELED,
        "spec.preemption": MODELED,
        "spec.queueingStrategy": MODELED,
        "spec.resourceGroups": MODELED,
        "spec.stopPolicy": MODELED,
        "status.admittedWorkloads": _COUNTS,
        **_CONDITION,
        "status.fairSharing": _COUNTS,
        "status.flavorsReservation": _COUNTS,
        "status.flavorsUsage": _COUNTS,
        "status.pendingWorkloads": _COUNTS,
        "status.reservingWorkloads": _COUNTS,
    },
    "Cohort": {
        "spec.fairSharing": MODELED,
        "spec.parentName": MODELED,
        "spec.resourceGroups": MODELED,
        "status.fairSharing": _COUNTS,
    },
    "Configuration": {
        "admissionFairSharing": MODELED,
        "clientConnection": _OPERATION,
        "controller": _OPERATION,
        "fairSharing": MODELED,
        "featureGates": MODELED,
        "health": _OPERATION,
        "integrations": MODELED,
        "internalCertManagement": _OPERATION,
        "leaderElection": _OPERATION,
        "manageJobsWithoutQueueName": _SELECTION,
        "managedJobsNamespaceSelector": MODELED,
        "metrics": _OPERATION,
        "multiKueue": _MULTIKUEUE,
        "namespace": _OPERATION,
        "objectRetentionPolicies": "it deletes objects of ended workloads",
        "pprofBindAddress": _OPERATION,
        "resources.deviceClassMappings": "it counts with feature gate DynamicResourceAllocation alone",
        "resources.excludeResourcePrefixes": MODELED,
        "resources.transformations": MODELED,
        "waitForPodsReady.blockAdmission": MODELED,
        "waitForPodsReady.recoveryTimeout": "it evicts running workloads",
        "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": _BACKOFF,
        "waitForPodsReady.requeuingStrategy.backoffLimitCount": "it deactivates workloads, which are not read",
        "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": _BACKOFF,
        "waitForPodsReady.requeuingStrategy.timestamp": MODELED,
        "waitForPodsReady.timeout": "it evicts running workloads",
        "webhook": _OPERATION,
    },
    "LocalQueue": {
        "spec.clusterQueue": MODELED,
        "spec.fairSharing": _PAST_USAGE,
        "spec.stopPolicy": MODELED,
        "status.admittedWorkloads": _COUNTS,
        "status.conditions": "spec.stopPolicy and the ClusterQueue decide",
        "status.fairSharing": _PAST_USAGE,
        "status.flavorsReservation": _COUNTS,
        "status.flavorsUsage": _COUNTS,
        "status.pendingWorkloads": _COUNTS,
        "status.reservingWorkloads": _COUNTS,
    },
    "ResourceFlavor": {
        "spec.nodeLabels": MODELED,
        "spec.nodeTaints[].effect": MODELED,
        "spec.nodeTaints[].key": MODELED,
        "spec.nodeTaints[].timeAdded": "Kueue compares key, value and effect",
        "spec.nodeTaints[].value": MODELED,
        "spec.tolerations[].effect": MODELED,
        "spec.tolerations[].key": MODELED,
        "spec.tolerations[].operator": MODELED,
        "spec.tolerations[].tolerationSeconds": "it matters to running pods alone",
        "spec.tolerations[].value": MODELED,
        "spec.topologyName": MODELED,
    },
    "Topology": {"spec.levels": MODELED},
    "Workload": {
        "spec.active": MODELED,
        "spec.maximumExecutionTimeSeconds": "it ends running workloads; forecasts read it",
        "spec.podSets[].count": MODELED,
        "spec.podSets[].minCount": MODELED,
        "spec.podSets[].name": MODELED,
        "spec.podSets[].template": MODELED,
        "spec.podSets[].topologyRequest.podIndexLabel": _TOPOLOGY,
        "spec.podSets[].topologyRequest.podSetGroupName": MODELED,
        "spec.podSets[].topologyRequest.podSetSliceRequiredTopology": MODELED,
        "spec.podSets[].topologyRequest.podSetSliceSize": MODELED,
        "spec.podSets[].topologyRequest.preferred": MODELED,
        "spec.podSets[].topologyRequest.required": MODELED,
        "spec.podSets[].topologyRequest.subGroupCount": _TOPOLOGY,
        "spec.podSets[].topologyRequest.subGroupIndexLabel": _TOPOLOGY,
        "spec.podSets[].topologyRequest.unconstrained": MODELED,
        "spec.priority": MODELED,
        "spec.priorityClassRef": "spec.priority has its value",
        "spec.queueName": MODELED,
        "status.accumulatedPastExecutionTimeSeconds": "it ends running workloads",
        "status.admission.clusterQueue": MODELED,
        "status.admission.podSetAssignments[].count": MODELED,
        "status.admission.podSetAssignments[].delayedTopologyRequest": _TOPOLOGY,
        "status.admission.podSetAssignments[].flavors": MODELED,
        "status.admission.podSetAssignments[].name": MODELED,
        "status.admission.podSetAssignments[].resourceUsage": MODELED,
        "status.admission.podSetAssignments[].topologyAssignment": _TOPOLOGY,
        "status.admissionChecks[].lastTransitionTime": _MESSAGE,
        "status.admissionChecks[].message": _MESSAGE,
        "status.admissionChecks[].name": MODELED,
        "status.admissionChecks[].podSetUpdates": "Kueue applies it to pods after the admission",
        "status.admissionChecks[].requeueAfterSeconds": _BACKOFF,
        "status.admissionChecks[].retryCount": _BACKOFF,
        "status.admissionChecks[].state": MODELED,
        "status.clusterName": _MULTIKUEUE,
        **_CONDITION,
        "status.conditions[].lastTransitionTime": MODELED,
        "status.nominatedClusterNames": _MULTIKUEUE,
        "status.reclaimablePods": MODELED,
        "status.requeueState.count": _BACKOFF,
        "status.requeueState.requeueAt": MODELED,
        "status.resourceRequests": _COUNTS,
        "status.schedulingStats": _MESSAGE,
        "status.unhealthyNodes": _TOPOLOGY,
    },
    "WorkloadPriorityClass": {"description": _MESSAGE, "value": MODELED},
}
V1BETA1_FIELDS: Mapping[str, str] = {
    "apiVersion": "of the file",
    "kind": "of the file",
    "queueVisibility": _OPERATION,
    "waitForPodsReady.enable": MODELED,
}
"""Additional fields of a Configuration in version v1beta1, in which waitForPodsReady blocks admission by default."""


def unmodeled_fields(kind: str, body: Body, fields: Mapping[str, Mapping[str, str]] = FIELDS) -> Iterator[str]:
    """Yield the set fields of an object that make verdicts unknown, with the reason. `fields`: of its release."""
    table = {**fields[kind], **(V1BETA1_FIELDS if kind == "Configuration" else {})}
    for key, value in body.items():
        if kind == "Configuration" or key in ("spec", "status"):
            yield from _unmodeled_paths(table, key, value)


def _unmodeled_paths(table: Mapping[str, str], path: str, value: object) -> Iterator[str]:
    if table.get(path, UNKNOWN) != UNKNOWN:
        return
    if isinstance(value, Mapping) and any(field.startswith(f"{path}.") for field in table):
        for key, inner_value in value.items():
            yield from _unmodeled_paths(table, f"{path}.{key}", inner_value)
    elif isinstance(value, (list, tuple)) and any(field.startswith(f"{path}[]") for field in table):
        for inner_value in value:
            yield from _unmodeled_paths(table, f"{path}[]", inner_value)
    elif value not in (None, "", False, {}, []):
        yield f"{path}: the verdict does not know this field"
