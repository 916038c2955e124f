"""The settings of a workload that is a manifest: what the object itself says, and what may be set beside it."""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic.alias_generators import to_camel

from trainstack.settings.base import tuples_to_lists
from trainstack.settings.sections.kueue_object import ObjectPods
from trainstack.settings.values.field_paths import remove_at, value_at

Body = Mapping[str, Any]

_QUEUE, _PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
"""The labels by which a manifest names its LocalQueue and its WorkloadPriorityClass."""
_API_VERSIONS: Mapping[str, str] = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "MPIJob": "kubeflow.org/v2beta1",
    "Pod": "v1",
    "PyTorchJob": "kubeflow.org/v1",
    "RayJob": "ray.io/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
}
"""The API versions of the kinds whose pods and conditions Trainstack reads without `object`."""
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
            "image",
            "seed",
            "attempt",
        ),
        *("depends_on", "data", "record", "pod_patch", "expected_duration_seconds", "object", "manifest"),
    }
)
"""The fields that a workload with a manifest may have. Its kind and its image are read from the manifest."""
MANAGED_KINDS = ("Job", "Pod", "PyTorchJob")
"""The kinds of manifests whose program the wrapper can start."""
_METADATA = frozenset({"name", "generateName", "namespace", "labels", "annotations", "finalizers"})
"""The fields of an object's metadata that its author sets."""


def with_settings_of_manifest(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload's settings, as they are in a file, with those that its manifest has and that are not set.

    They are the kind, namespace, queue and priority, and the API version and kind of an `object`. Raises ValueError.
    """
    manifest = tuples_to_lists(data["manifest"])
    metadata = _map_at(manifest, "metadata")
    labels = _map_at(metadata, "labels")
    api_version = manifest.get("apiVersion")
    is_known = api_version is not None and _API_VERSIONS.get(str(manifest.get("kind"))) == api_version
    values: dict[str, Any] = {
        "kind": manifest["kind"] if is_known else "Object",
        "namespace": metadata.get("namespace"),
        "queue": labels.get(_QUEUE),
        "priority": labels.get(_PRIORITY),
        "managed": False,
    }
    settings = {**{key: value for key, value in values.items() if value is not None}, **data, "manifest": manifest}
    if isinstance(settings.get("object"), Mapping):
        settings["object"] = _with_object_of_manifest(tuples_to_lists(settings["object"]), manifest)
    return settings


def _with_object_of_manifest(section: Mapping[str, Any], manifest: Body) -> dict[str, Any]:
    """Return the settings of an Object with the kind of the manifest, and its `spec` without the pods."""
    if fields := sorted({"apiVersion", "kind", "spec"} & section.keys()):
        raise ValueError(f"object.{fields[0]} is part of the manifest: leave it out")
    rest = {"spec": deepcopy(manifest.get("spec"))}
    for pods in section.get("pods") or ():
        for path in (pods.get("template"), pods.get("replicas")) if isinstance(pods, Mapping) else ():
            if isinstance(path, str):
                remove_at(rest, path)
    return {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), **rest, **section}


def faults_of_manifest(
    manifest: Body, kind: str, fields: Collection[str], object_pods: Collection[ObjectPods] | None, *, managed: bool
) -> Iterator[str]:
    """Yield the faults of a workload's manifest, and the settings that are part of it.

    `kind`: that of the workload. `fields`: the fields of the workload that are set. `object_pods`: those of its
    `object`; None if it has none.
    """
    yield from _faults_of_object(manifest)
    for field in sorted({*fields} - _SETTINGS_OF_LAUNCH):
        yield f"{to_camel(field)} is part of the manifest: set it there, and leave out {to_camel(field)}"
    own_kind = manifest.get("kind")
    if kind == "Object" and own_kind in _API_VERSIONS:
        version = manifest.get("apiVersion")
        yield f"{own_kind} of {version} is not supported: set apiVersion to {_API_VERSIONS[str(own_kind)]}"
    elif kind == "Object" and object_pods is None:
        example = "object: {framework: …, pods: [{name: …, template: spec.….template}]}"
        yield f"the paths of the pods of kind {own_kind} are not known: add them ({example})"
    elif kind not in ("Object", own_kind):
        yield f"kind is {kind}, but the manifest has {own_kind}: leave out kind"
    for pods in object_pods or ():
        template = value_at(manifest, pods.template)
        if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
            yield f"object.pods has {pods.template}, where the manifest has no pod template: correct the path"
    if managed and kind not in MANAGED_KINDS:
        kinds = ", ".join(MANAGED_KINDS)
        yield f"the wrapper starts the programs of {kinds} from a manifest, not of {own_kind}: set managed to false"


def _faults_of_object(manifest: Body) -> Iterator[str]:
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str) or not manifest[key]:
            yield f"manifest.{key} is missing: add it"
    if not isinstance(manifest.get("spec"), Mapping):
        yield "manifest.spec is missing: add it"
    if "status" in manifest:
        yield "manifest.status is written by the cluster: remove it"
    for key in sorted({*_map_at(manifest, "metadata")} - _METADATA):
        yield f"manifest.metadata.{key} is written by the cluster: remove it"


def _map_at(body: Body, key: str) -> Body:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
