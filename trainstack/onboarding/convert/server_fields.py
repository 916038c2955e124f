"""Drop from an object what the API server and controllers have set, such as the status of a live object."""

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import QUEUE, Manifest

_METADATA = (
    *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"),
)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LIVE_ANNOTATIONS = re.compile(
    r"pv\.kubernetes\.io/bind-completed|pv\.kubernetes\.io/bound-by-controller"
    r"|volume(\.beta)?\.kubernetes\.io/(storage-provisioner|selected-node)"
    r"|batch\.kubernetes\.io/.*|cni\.projectcalico\.org/.*|k8s\.v1\.cni\.cncf\.io/network-status|.*\.ovn\.org/.*"
    r"|kueue\.x-k8s\.io/(workload|role-hash|is-group-workload|retriable-in-group)"
)
_LIVE_LABELS = re.compile(
    r"batch\.kubernetes\.io/.*|controller-uid|pod-template-generation|kueue\.x-k8s\.io/(managed|podset|prebuilt-.*)"
)
_JOB_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "job-name")
"""Labels of a Job's pods that the API server sets, in both spellings."""
_TOKEN_VOLUME = re.compile("kube-api-access-[a-z0-9]{5}")
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
Steps = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class CleanedObject:
    """An object without what the cluster has set."""

    body: Manifest
    dropped: tuple[str, ...]
    """The paths of the removed fields, as `metadata.uid`."""
    is_live: bool
    controller: str
    """The object that controls this one, as `Kind name`; empty if there is none."""


def drop_server_fields(body: Mapping[str, Any]) -> CleanedObject:
    """Return an object without the fields that its author cannot or need not set."""
    metadata = body["metadata"]
    is_live = bool({"uid", "resourceVersion"} & metadata.keys())
    result = _Removal(body)
    result.remove("status")
    for key in _METADATA:
        result.remove("metadata", key)
    result.remove("metadata", "annotations", _APPLIED)
    if metadata.get("name"):
        # A live object has both; the API server uses the name.
        result.remove("metadata", "generateName")
    if body["kind"] == "Job":
        _clean_job(result)
    if is_live:
        _clean_live_object(result)
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    return CleanedObject(
        body=result.body,
        dropped=tuple(dict.fromkeys(result.dropped)),
        is_live=is_live,
        controller=f"{owners[0].get('kind')} {owners[0].get('name')}" if owners else "",
    )


class _Removal:
    """A copy of an object, from which fields are removed."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body: Manifest = deepcopy(dict(body))
        self.dropped: list[str] = []

    def value(self, *steps: str | int) -> Any:
        value: Any = self.body
        for step in steps:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, Mapping) else None
            else:
                value = value[step] if isinstance(value, list) and step < len(value) else None
        return value

    def remove(self, *steps: str | int) -> None:
        """Remove a field, and the map of labels or annotations that is then empty."""
        parent = self.value(*steps[:-1])
        if isinstance(parent, dict) and steps[-1] in parent:
            del parent[steps[-1]]
            self.dropped.append(".".join(map(str, steps)))
            if not parent and steps[-2:-1] in (("labels",), ("annotations",)):
                del self.value(*steps[:-2])[steps[-2]]

    def remove_keys(self, matches: Callable[[str], object], *steps: str | int) -> None:
        for key in [key for key in self.value(*steps) or {} if matches(key)]:
            self.remove(*steps, key)

    def remove_elements(self, matches: Callable[[Any], object], *steps: str | int) -> None:
        elements = self.value(*steps)
        if isinstance(elements, list) and (removed := [element for element in elements if matches(element)]):
            elements[:] = [element for element in elements if element not in removed]
            self.dropped += [f"{'.'.join(map(str, steps))}[{element.get('name')}]" for element in removed]
            if not elements:
                del self.value(*steps[:-1])[steps[-1]]


def _clean_job(result: _Removal) -> None:
    """Remove the selector that the API server generates, and the labels that it selects."""
    labels = result.value("spec", "selector", "matchLabels")
    if isinstance(labels, Mapping) and not result.value("spec", "manualSelector") and {*labels} <= {*_JOB_LABELS}:
        result.remove("spec", "selector")
        for path in (("metadata", "labels"), ("spec", "template", "metadata", "labels")):
            for key in _JOB_LABELS:
                result.remove(*path, key)


def _clean_live_object(result: _Removal) -> None:
    kind, body = result.body["kind"], result.body
    is_queued = QUEUE in (result.value("metadata", "labels") or {})
    is_bound_by_controller = _BOUND_BY_CONTROLLER in (result.value("metadata", "annotations") or {})
    result.remove("metadata", "finalizers")
    result.remove_keys(_LIVE_ANNOTATIONS.fullmatch, "metadata", "annotations")
    result.remove_keys(_LIVE_LABELS.fullmatch, "metadata", "labels")
    if is_queued:
        # Kueue suspends what it has not admitted.
        result.remove("spec", "suspend")
        result.remove("spec", "runPolicy", "suspend")
    if kind == "Pod":
        _clean_live_pod(result)
    if kind == "PersistentVolumeClaim" and is_bound_by_controller:
        result.remove("spec", "volumeName")
    if kind == "PersistentVolume":
        for key in ("uid", "resourceVersion"):
            result.remove("spec", "claimRef", key)
        if is_bound_by_controller:
            result.remove("spec", "claimRef")
    if kind == "Service" and result.value("spec", "clusterIP") != "None":
        result.remove("spec", "clusterIP")
        result.remove("spec", "clusterIPs")
    if kind == "ServiceAccount":
        token = re.compile(rf"{re.escape(str(body['metadata'].get('name')))}-token-[a-z0-9]{{5}}")
        result.remove_elements(lambda secret: token.fullmatch(str(secret.get("name"))), "secrets")


def _clean_live_pod(result: _Removal) -> None:
    for key in ("nodeName", "priority", "schedulingGates"):
        result.remove("spec", key)

    def is_token(element: Any) -> bool:
        return isinstance(element, Mapping) and _TOKEN_VOLUME.fullmatch(str(element.get("name"))) is not None

    for containers in ("containers", "initContainers"):
        for index in range(len(result.value("spec", containers) or ())):
            result.remove_elements(is_token, "spec", containers, index, "volumeMounts")
    result.remove_elements(is_token, "spec", "volumes")


def sources_of_admission(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what Kueue may have added to the pods of an admitted object, and its author may not have written."""
    for path in (("spec", "template", "spec"), ("spec",)):
        pod: Any = body
        for step in path:
            pod = pod.get(step) if isinstance(pod, Mapping) else None
        if isinstance(pod, Mapping) and pod.get("nodeSelector"):
            yield f"{'.'.join(path)}.nodeSelector"
