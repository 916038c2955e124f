"""Volumes and queues of files as entries of an environment's sections, if the entry has every field of the object."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from trainstack.objects.labels import Manifest
from trainstack.onboarding.adopt.entries import Element, KindConversion, with_expression_of_name
from trainstack.onboarding.convert.comparison import compare
from trainstack.onboarding.convert.documents import InputObject
from trainstack.onboarding.convert.kinds import ENTRIES, KindKey

KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"
"""The API version of Kueue's objects in the settings."""
_DEFAULTS: Mapping[str, Manifest] = {
    "PersistentVolumeClaim": {"spec": {"volumeMode": "Filesystem"}},
    "PersistentVolume": {"spec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", "allowVolumeExpansion": False},
    "ClusterQueue": {
        "spec": {
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        }
    },
    "LocalQueue": {"spec": {"stopPolicy": "None"}},
    "MultiKueueCluster": {"spec": {"clusterSource": {"kubeConfig": {"locationType": "Secret"}}}},
    "WorkloadPriorityClass": {"description": ""},
}
"""The defaults of the API, which files may leave out and the settings' manifests have."""
_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "ClusterQueue": {"cohort": "cohortName"},
    "Cohort": {"parent": "parentName"},
}
"""Fields of `spec` in Kueue's earlier API versions, with their names in KUEUE_VERSION."""


def current_form(body: Mapping[str, Any]) -> Manifest:
    """Return an object of Kueue in the API version and the form of the settings; any other object unchanged."""
    result = _current_version(body)
    if body["kind"] == "ClusterQueue" and isinstance(result.get("spec"), dict):
        result["spec"] = dict(with_expression_of_name(result["spec"]))
    return result


def _current_version(body: Mapping[str, Any]) -> Manifest:
    result: Manifest = deepcopy(dict(body))
    api_version, kind = str(body["apiVersion"]), str(body["kind"])
    if not api_version.startswith("kueue.x-k8s.io/") or api_version == KUEUE_VERSION:
        return result
    result["apiVersion"] = KUEUE_VERSION
    spec = result.get("spec")
    if isinstance(spec, dict):
        for old_name, name in _RENAMED.get(kind, {}).items():
            if old_name in spec:
                spec[name] = spec.pop(old_name)
        if isinstance(checks := spec.pop("admissionChecks", None) if kind == "ClusterQueue" else None, list):
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        if isinstance(fungibility := spec.get("flavorFungibility"), dict):
            spec["flavorFungibility"] = {key: _FUNGIBILITY.get(value, value) for key, value in fungibility.items()}
        if kind == "MultiKueueCluster" and "kubeConfig" in spec:
            spec["clusterSource"] = {"kubeConfig": spec.pop("kubeConfig")}
    return result


def with_api_defaults(body: Mapping[str, Any]) -> Manifest:
    """Return the object as the API server completes it, as far as the settings' manifests have these fields."""
    result = _merge_defaults(_DEFAULTS.get(str(body["kind"]), {}), body)
    if body["kind"] == "PersistentVolume" and isinstance(folder := result["spec"].get("hostPath"), dict):
        folder.setdefault("type", "")
    return result


def _merge_defaults(defaults: Mapping[str, Any], body: Mapping[str, Any]) -> Manifest:
    result = {**deepcopy(dict(defaults)), **deepcopy(dict(body))}
    for key, value in defaults.items():
        if isinstance(value, Mapping) and isinstance(body.get(key), Mapping):
            result[key] = _merge_defaults(value, body[key])
    return result


def build_entry(source: InputObject, namespace: str, stack: str) -> tuple[Element | None, str]:
    """Return the element of a section's list for an object, or None and the fields that it would lose.

    `namespace`: that of namespaced objects whose file has none. `stack`: the owner.
    """
    key: KindKey = (source.group, source.kind)
    kind = ENTRIES[key]
    body = current_form(source.body)
    completed = with_api_defaults(body)
    if "namespace" in kind.model.model_fields:
        completed["metadata"] = {**completed["metadata"], "namespace": source.namespace or namespace}
    try:
        element = {**kind.build_element(completed), **_further_fields(source.kind, completed)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return None, f"its form is not that of the API ({error})"
    if not source.is_live:
        del element["adopt"]
    if source.kind == "WorkloadPriorityClass" and not element.get("description"):
        element.pop("description", None)
    manifest = _build_manifest(kind, element, stack)
    if isinstance(manifest, str):
        return None, manifest
    comparison = compare(body, manifest, completed)
    lost = [field.path for field in comparison.lost]
    lost += [f"{field.path} (added)" for field in comparison.added if not field.reason]
    return (None, ", ".join(lost)) if lost else (element, "")


def _further_fields(kind: str, body: Mapping[str, Any]) -> Element:
    """Return the fields that `adopt` leaves out, since the cluster sets them on the objects that it adopts."""
    if kind == "PersistentVolumeClaim" and body["spec"].get("volumeName"):
        return {"volumeName": body["spec"]["volumeName"]}
    if kind == "PersistentVolume" and (reference := body["spec"].get("claimRef")):
        return {"claim": f"{reference.get('namespace')}/{reference.get('name')}"}
    if kind == "StorageClass" and (annotations := body["metadata"].get("annotations")):
        return {"annotations": annotations}
    if kind == "ClusterQueue" and (fungibility := body["spec"].get("flavorFungibility")):
        return {"flavorFungibility": fungibility}
    return {}


def _build_manifest(kind: KindConversion, element: Element, stack: str) -> Manifest | str:
    """Return the manifest of an element, or its first faults."""
    try:
        # Strict validation accepts a list for a tuple only in JSON.
        section = kind.model.model_validate_json(json.dumps(element), by_alias=True, by_name=False)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:3])
    return kind.build_manifest(section, stack)
