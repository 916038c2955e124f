"""Every field of Kueue's objects and Configuration, and what a verdict does with it.

A path covers the fields below it; `[]` is an element of a list. Source: the release's definitions and
apis/config/v1beta2 of Kueue v0.15.2.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]

MODELLED = "modelled"
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
    "status.conditions[].reason": MODELLED,
    "status.conditions[].status": MODELLED,
    "status.conditions[].type": MODELLED,
}

FIELDS: Mapping[str, Mapping[str, str]] = {
    "AdmissionCheck": {
        "spec.controllerName": "the condition Active is read",
        "spec.parameters": "the condition Active is read",
        **_CONDITION,
    },
    "ClusterQueue": {
        "spec.admissionChecksStrategy": MODELLED,
        "spec.admissionScope": MODELLED,
        "spec.cohortName": MODELLED,
        "spec.fairSharing": MODELLED,
        "spec.flavorFungibility": MODELLED,
        "spec.namespaceSelector": MODELLED,
        "spec.preemption": MODELLED,
        "spec.queueingStrategy": MODELLED,
        "spec.resourceGroups": MODELLED,
        "spec.stopPolicy": MODELLED,
        "status.admittedWorkloads": _COUNTS,
        **_CONDITION,
        "status.fairSharing": _COUNTS,
        "status.flavorsReservation": _COUNTS,
        "status.flavorsUsage": _COUNTS,
        "status.pendingWorkloads": _COUNTS,
        "status.reservingWorkloads": _COUNTS,
    },
    "Cohort": {
        "spec.fairSharing": MODELLED,
        "spec.parentName": MODELLED,
        "spec.resourceGroups": MODELLED,
        "status.fairSharing": _COUNTS,
    },
    "Configuration": {
        "admissionFairSharing": MODELLED,
        "clientConnection": _OPERATION,
        "controller": _OPERATION,
        "fairSharing": MODELLED,
        "featureGates": MODELLED,
        "health": _OPERATION,
        "integrations": MODELLED,
        "internalCertManagement": _OPERATION,
        "leaderElection": _OPERATION,
        "manageJobsWithoutQueueName": _SELECTION,
        "managedJobsNamespaceSelector": MODELLED,
        "metrics": _OPERATION,
        "multiKueue": _MULTIKUEUE,
        "namespace": _OPERATION,
        "objectRetentionPolicies": "it deletes objects of ended workloads",
        "pprofBindAddress": _OPERATION,
        "resources.deviceClassMappings": "it counts with feature gate DynamicResourceAllocation alone",
        "resources.excludeResourcePrefixes": MODELLED,
        "resources.transformations": MODELLED,
        "waitForPodsReady.blockAdmission": MODELLED,
        "waitForPodsReady.recoveryTimeout": "it evicts running workloads",
        "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": _BACKOFF,
        "waitForPodsReady.requeuingStrategy.backoffLimitCount": "it deactivates workloads, which are not read",
        "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": _BACKOFF,
        "waitForPodsReady.requeuingStrategy.timestamp": MODELLED,
        "waitForPodsReady.timeout": "it evicts running workloads",
        "webhook": _OPERATION,
    },
    "LocalQueue": {
        "spec.clusterQueue": MODELLED,
        "spec.fairSharing": _PAST_USAGE,
        "spec.stopPolicy": MODELLED,
        "status.admittedWorkloads": _COUNTS,
        "status.conditions": "spec.stopPolicy and the ClusterQueue decide",
        "status.fairSharing": _PAST_USAGE,
        "status.flavorsReservation": _COUNTS,
        "status.flavorsUsage": _COUNTS,
        "status.pendingWorkloads": _COUNTS,
        "status.reservingWorkloads": _COUNTS,
    },
    "ResourceFlavor": {
        "spec.nodeLabels": MODELLED,
        "spec.nodeTaints[].effect": MODELLED,
        "spec.nodeTaints[].key": MODELLED,
        "spec.nodeTaints[].timeAdded": "Kueue compares key, value and effect",
        "spec.nodeTaints[].value": MODELLED,
        "spec.tolerations[].effect": MODELLED,
        "spec.tolerations[].key": MODELLED,
        "spec.tolerations[].operator": MODELLED,
        "spec.tolerations[].tolerationSeconds": "it matters to running pods alone",
        "spec.tolerations[].value": MODELLED,
        "spec.topologyName": MODELLED,
    },
    "Topology": {"spec.levels": MODELLED},
    "Workload": {
        "spec.active": MODELLED,
        "spec.maximumExecutionTimeSeconds": "it ends running workloads; forecasts read it",
        "spec.podSets[].count": MODELLED,
        "spec.podSets[].minCount": MODELLED,
        "spec.podSets[].name": MODELLED,
        "spec.podSets[].template": MODELLED,
        "spec.podSets[].topologyRequest.podIndexLabel": _TOPOLOGY,
        "spec.podSets[].topologyRequest.podSetGroupName": MODELLED,
        "spec.podSets[].topologyRequest.podSetSliceRequiredTopology": MODELLED,
        "spec.podSets[].topologyRequest.podSetSliceSize": MODELLED,
        "spec.podSets[].topologyRequest.preferred": MODELLED,
        "spec.podSets[].topologyRequest.required": MODELLED,
        "spec.podSets[].topologyRequest.subGroupCount": _TOPOLOGY,
        "spec.podSets[].topologyRequest.subGroupIndexLabel": _TOPOLOGY,
        "spec.podSets[].topologyRequest.unconstrained": MODELLED,
        "spec.priority": MODELLED,
        "spec.priorityClassRef": "spec.priority has its value",
        "spec.queueName": MODELLED,
        "status.accumulatedPastExecutionTimeSeconds": "it ends running workloads",
        "status.admission.clusterQueue": MODELLED,
        "status.admission.podSetAssignments[].count": MODELLED,
        "status.admission.podSetAssignments[].delayedTopologyRequest": _TOPOLOGY,
        "status.admission.podSetAssignments[].flavors": MODELLED,
        "status.admission.podSetAssignments[].name": MODELLED,
        "status.admission.podSetAssignments[].resourceUsage": MODELLED,
        "status.admission.podSetAssignments[].topologyAssignment": _TOPOLOGY,
        "status.admissionChecks[].lastTransitionTime": _MESSAGE,
        "status.admissionChecks[].message": _MESSAGE,
        "status.admissionChecks[].name": MODELLED,
        "status.admissionChecks[].podSetUpdates": "Kueue applies it to pods after the admission",
        "status.admissionChecks[].requeueAfterSeconds": _BACKOFF,
        "status.admissionChecks[].retryCount": _BACKOFF,
        "status.admissionChecks[].state": MODELLED,
        "status.clusterName": _MULTIKUEUE,
        **_CONDITION,
        "status.conditions[].lastTransitionTime": MODELLED,
        "status.nominatedClusterNames": _MULTIKUEUE,
        "status.reclaimablePods": MODELLED,
        "status.requeueState.count": _BACKOFF,
        "status.requeueState.requeueAt": MODELLED,
        "status.resourceRequests": _COUNTS,
        "status.schedulingStats": _MESSAGE,
        "status.unhealthyNodes": _TOPOLOGY,
    },
    "WorkloadPriorityClass": {"description": _MESSAGE, "value": MODELLED},
}
OLDER: Mapping[str, str] = {
    "apiVersion": "of the file",
    "kind": "of the file",
    "queueVisibility": _OPERATION,
    "waitForPodsReady.enable": MODELLED,
}
"""Additional fields of a Configuration in version v1beta1, in which waitForPodsReady blocks admission by default."""


def unmodelled_fields(kind: str, body: Body, fields: Mapping[str, Mapping[str, str]] = FIELDS) -> Iterator[str]:
    """Yield the set fields of an object that make verdicts unknown, with the reason. `fields`: of its release."""
    table = {**fields[kind], **(OLDER if kind == "Configuration" else {})}
    for key, value in body.items():
        if kind == "Configuration" or key in ("spec", "status"):
            yield from _unmodelled_paths(table, key, value)


def _unmodelled_paths(table: Mapping[str, str], path: str, value: object) -> Iterator[str]:
    if table.get(path, UNKNOWN) != UNKNOWN:
        return
    if isinstance(value, Mapping) and any(field.startswith(f"{path}.") for field in table):
        for key, inner_value in value.items():
            yield from _unmodelled_paths(table, f"{path}.{key}", inner_value)
    elif isinstance(value, (list, tuple)) and any(field.startswith(f"{path}[]") for field in table):
        for inner_value in value:
            yield from _unmodelled_paths(table, f"{path}[]", inner_value)
    elif value not in (None, "", False, {}, []):
        yield f"{path}: the verdict does not know this field"
