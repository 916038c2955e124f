"""The settings of a workload that is a manifest: what the object itself says, and what may be set beside it."""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainstack.settings.base import tuples_to_lists
from trainstack.settings.sections.kueue_object import ObjectPods
from trainstack.settings.values.field_paths import remove_at, value_at
from trainstack.settings.values.pod_patch import UNKNOWN_FIELD_ERROR, Steps, canonical_fields, check_fields

Body = Mapping[str, Any]

_MESSAGE = "{problem}; {remedy}"
"""The form of the faults of `check_fields`."""

_QUEUE, _PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
"""The labels by which a manifest names its LocalQueue and its WorkloadPriorityClass."""
_SETTINGS_OF_LAUNCH = frozenset(
    {
        *(
            "name",
            "kind",
            "naming",
            "namespace",
            "queue",
            "priority",
            "managed",
            "container",
            "seed",
            "attempt",
            "adopt",
        ),
        *("depends_on", "data", "record", "pod_patch", "expected_duration_seconds", "object", "manifest"),
    }
)
"""The fields that a workload with a manifest may have."""
_METADATA = frozenset({"name", "generateName", "namespace", "labels", "annotations", "finalizers"})
"""The fields of an object's metadata that its author sets."""


def with_settings_of_manifest(data: Mapping[str, Any], api_versions: Mapping[str, str]) -> dict[str, Any]:
    """Return a workload's settings, as they are in a file, with those that its manifest has and that are not set.

    They are the kind, namespace, queue and priority, and the API version, kind and spec of an `object`. Settings
    without a manifest are unchanged. `api_versions`: those of the kinds that need no `object`.
    """
    if not isinstance(data.get("manifest"), Mapping):
        return dict(data)
    manifest = tuples_to_lists(data["manifest"])
    metadata = _map_at(manifest, "metadata")
    labels = _map_at(metadata, "labels")
    api_version = manifest.get("apiVersion")
    is_known = api_version is not None and api_versions.get(str(manifest.get("kind"))) == api_version
    values: dict[str, Any] = {
        "kind": manifest["kind"] if is_known else "Object",
        "namespace": metadata.get("namespace"),
        "queue": labels.get(_QUEUE),
        "priority": labels.get(_PRIORITY),
        "managed": False,
    }
    settings = {**{key: value for key, value in values.items() if value is not None}, **data}
    if isinstance(settings.get("object"), Mapping):
        settings["object"] = _with_object_of_manifest(settings["object"], manifest)
    return settings


def without_empty_status(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without the empty status that `kubectl create --dry-run=client -o yaml` prints."""
    return manifest if manifest.get("status") else {key: manifest[key] for key in manifest if key != "status"}


def _with_object_of_manifest(section: Mapping[str, Any], manifest: Body) -> dict[str, Any]:
    """Return the settings of an Object with the kind of the manifest, and its `spec` without the pods."""
    rest = {"spec": deepcopy(manifest.get("spec"))}
    for pods in section.get("pods") or ():
        for path in (pods.get("template"), pods.get("replicas")) if isinstance(pods, Mapping) else ():
            if isinstance(path, str):
                remove_at(rest, path)
    return {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), **rest, **section}


def faults_of_manifest(
    manifest: Body,
    kind: str,
    fields: Collection[str],
    object_pods: Collection[ObjectPods] | None,
    api_versions: Mapping[str, str],
) -> Iterator[str]:
    """Yield the faults of a workload's manifest, and the settings that are part of it.

    `kind`: that of the workload. `fields`: the fields of the workload that are set. `object_pods`: those of its
    `object`; None if it has none. `api_versions`: those of the kinds that need no `object`.
    """
    yield from _faults_of_object(manifest)
    for field in sorted({*fields} - _SETTINGS_OF_LAUNCH):
        yield f"{to_camel(field)} is part of the manifest: set it there, and leave out {to_camel(field)}"
    own_kind = manifest.get("kind")
    if kind == "Object" and own_kind in api_versions:
        version = manifest.get("apiVersion")
        yield f"{own_kind} of {version} is not supported: set apiVersion to {api_versions[str(own_kind)]}"
    elif kind == "Object" and object_pods is None:
        example = "object: {framework: …, pods: [{name: …, template: spec.….template}]}"
        yield f"the paths of the pods of kind {own_kind} are not known: add them ({example})"
    elif kind not in ("Object", own_kind):
        yield f"kind is {kind}, but the manifest has {own_kind}: leave out kind"
    for pods in object_pods or ():
        template = value_at(manifest, pods.template)
        if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
            yield f"object.pods has {pods.template}, where the manifest has no pod template: correct the path"


def check_pods(manifest: Body) -> None:
    """Check the types of the fields of all pods in a manifest. Raises ValidationError.

    A field that the table of fields lacks is no fault, because a newer cluster may have it.
    """
    faults = list[InitErrorDetails]()
    for steps, spec in _pod_specs(manifest, ("manifest",)):
        try:
            check_fields("PodSpec", canonical_fields("PodSpec", spec))
        except ValidationError as error:
            faults += [
                InitErrorDetails(
                    type=PydanticCustomError(fault["type"], _MESSAGE, fault["ctx"]),
                    loc=(*steps, *fault["loc"]),
                    input=None,
                )
                for fault in error.errors(include_url=False)
                if fault["type"] != UNKNOWN_FIELD_ERROR
            ]
    if faults:
        raise ValidationError.from_exception_data("Workload", faults)


def _pod_specs(value: Any, steps: Steps) -> Iterator[tuple[Steps, Body]]:
    """Yield the specs of pods, wherever they are in a value, with the steps to them."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield steps, value
            return
        for key, item in value.items():
            yield from _pod_specs(item, (*steps, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pod_specs(item, (*steps, index))


def _faults_of_object(manifest: Body) -> Iterator[str]:
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str) or not manifest[key]:
            yield f"manifest.{key} is missing: add it"
    if not isinstance(manifest.get("spec"), Mapping):
        yield "manifest.spec is missing: add it"
    for key in sorted(manifest.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}):
        yield (
            f"manifest.{key} is no field of an object: set it for the run in the environment's file, or write "
            "workload.yaml as settings with `manifest: <file>`"
        )
    if "status" in manifest:
        yield "manifest.status is written by the cluster: remove it"
    for key in sorted({*_map_at(manifest, "metadata")} - _METADATA):
        yield f"manifest.metadata.{key} is written by the cluster: remove it"


def _map_at(body: Body, key: str) -> Body:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
