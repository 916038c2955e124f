"""Section `trainstack:objects`: objects that no other section describes, in the form that kubectl takes."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainstack.settings.base import ApiFields, FilePath, Section, check_unique
from trainstack.settings.errors import suggest_name
from trainstack.settings.sections.secrets import PLAIN_TEXT_ERROR
from trainstack.settings.values.field_paths import value_at
from trainstack.settings.values.kind_scopes import (
    CLUSTER_SCOPED_KINDS,
    NAMESPACED_KINDS,
    has_known_scope,
    is_kubernetes_api,
)
from trainstack.settings.values.kubernetes import DnsLabel, DnsName, Labels
from trainstack.settings.values.pod_patch import Faults, Steps
from trainstack.settings.values.quantities import canonical_quantity

_API_VERSION = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)*/)?v[a-z0-9]+")
_KIND = re.compile("[A-Z][A-Za-z0-9]*")
_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_KIND_CHARACTERS, _MAX_NAMESPACE_CHARACTERS, _MAX_NAME_CHARACTERS = 63, 63, 253
_SERVER_SET_METADATA = (
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"),
    *("ownerReferences", "resourceVersion", "selfLink", "uid"),
)
"""Metadata that the API server or a controller sets. Owners are named by uid, which no file can know."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SECRET_DATA = ("data", "stringData")
_CLAIM_SIZE = "spec.resources.requests.storage"
_READ_MAPS: Mapping[str, tuple[str, ...]] = {
    "ConfigMap": ("data", "binaryData"),
    "PersistentVolume": ("spec", "spec.hostPath", "spec.local"),
    "PersistentVolumeClaim": ("spec", "spec.resources", "spec.resources.requests"),
    **dict.fromkeys(("ClusterRoleBinding", "RoleBinding"), ("roleRef",)),
}
"""The maps that Trainstack reads, by kind."""
_REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "PersistentVolume": ("spec.accessModes",),
    "PersistentVolumeClaim": ("spec.accessModes", _CLAIM_SIZE),
    **dict.fromkeys(("ClusterRoleBinding", "RoleBinding"), ("roleRef.kind", "roleRef.name")),
}
"""The fields that Trainstack reads and Kubernetes requires, by kind."""


def _check_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    faults = Faults()
    _check_type(manifest, faults)
    if "status" in manifest:
        faults.add(("status",), "is set by the cluster", "remove it")
    _check_metadata(manifest.get("metadata"), faults)
    _check_shapes(manifest, faults)
    if manifest.get("kind") == "Secret":
        for key in _SECRET_DATA:
            # The message has no value, as in section `secrets`.
            if manifest.get(key):
                error = PydanticCustomError(PLAIN_TEXT_ERROR, "the secret is in plain text")
                faults.append(InitErrorDetails(type=error, loc=(key,), input=None))
    faults.raise_all("object")
    return manifest


def _check_type(manifest: Mapping[str, Any], faults: Faults) -> None:
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    for key, value, example in (("apiVersion", version, "v1 or batch/v1"), ("kind", kind, "ConfigMap")):
        if value is None:
            faults.add((), f"has no {key}, as an object of Kubernetes has", f"add {key}, such as {example}")
    if version is not None and not (isinstance(version, str) and _API_VERSION.fullmatch(version)):
        faults.add(("apiVersion",), "is not a group and a version", "write one such as v1 or batch/v1")
    elif kind is not None and not (
        isinstance(kind, str) and len(kind) <= _MAX_KIND_CHARACTERS and _KIND.fullmatch(kind)
    ):
        faults.add(("kind",), "is not a kind", "write one such as ConfigMap")
    elif (
        isinstance(version, str) and isinstance(kind, str) and is_kubernetes_api(version) and not has_known_scope(kind)
    ):
        remedy = suggest_name(kind, CLUSTER_SCOPED_KINDS | NAMESPACED_KINDS)
        faults.add(("kind",), f"is not a kind of {version}", remedy)


def _check_shapes(manifest: Mapping[str, Any], faults: Faults) -> None:
    """Check the fields that guards, rights and rules read; the API server validates all others."""
    kind = manifest.get("kind")
    for path in _READ_MAPS.get(str(kind), ()):
        if not isinstance(value_at(manifest, path) or {}, Mapping):
            faults.add(tuple(path.split(".")), "must be a map", "write a map")
    for path in _REQUIRED_FIELDS.get(str(kind), ()):
        if not value_at(manifest, path):
            faults.add(tuple(path.split(".")), "is missing", f"add {path}")
    if kind == "PersistentVolumeClaim" and isinstance(size := value_at(manifest, _CLAIM_SIZE), str | int):
        try:
            canonical_quantity(size)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            faults.add(tuple(_CLAIM_SIZE.split(".")), problem, remedy)


def _check_metadata(metadata: Any, faults: Faults) -> None:
    if not isinstance(metadata, Mapping):
        faults.add((), "has no metadata", "add metadata with a name")
        return
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if "generateName" in metadata:
        steps: Steps = ("metadata", "generateName")
        faults.add(steps, "would give the object another name at every change", "set metadata.name instead")
    elif name is None:
        faults.add(("metadata",), "has no name", "add name")
    elif not isinstance(name, str) or not _is_path_segment(name):
        faults.add(("metadata", "name"), "is not a name of an object", "write a name, in quotes if it is a number")
    if namespace is not None and not (
        isinstance(namespace, str) and len(namespace) <= _MAX_NAMESPACE_CHARACTERS and _NAMESPACE.fullmatch(namespace)
    ):
        faults.add(("metadata", "namespace"), "is not a name of a namespace", "write its name, in quotes if a number")
    for key in _SERVER_SET_METADATA:
        if key in metadata:
            faults.add(("metadata", key), "is set by the cluster, not by a file", "remove it")
    for key in ("labels", "annotations"):
        _check_texts(metadata.get(key), ("metadata", key), faults)
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        # Without the annotation's own step, since the message would contain the whole object.
        faults.add(("metadata", "annotations"), f"contains {_LAST_APPLIED}, which is kubectl's", "remove it")


def _check_texts(texts: Any, steps: Steps, faults: Faults) -> None:
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        faults.add(steps, "must be a map", "write a map")
        return
    for key, text in texts.items():
        if not isinstance(text, str):
            faults.add((*steps, key), "must be a string", "put it in quotes")


def _is_path_segment(name: str) -> bool:
    """Source: IsValidPathSegmentName in k8s.io/apimachinery/pkg/api/validation/path."""
    is_path = name in (".", "..") or "/" in name or "%" in name
    return 0 < len(name) <= _MAX_NAME_CHARACTERS and not is_path


def _check_keys(entries: tuple[str, ...]) -> tuple[str, ...]:
    return check_unique(tuple(split_entry(entry)[0] for entry in entries)) and entries


def split_entry(entry: str) -> tuple[str, str]:
    """Return the key and the file of an entry of `configMaps[].files`."""
    key, separator, file = entry.partition("=")
    return (key, file) if separator else (entry.rpartition("/")[2], entry)


ObjectManifest = Annotated[ApiFields, AfterValidator(_check_manifest)]
"""An object with `apiVersion`, `kind` and `metadata`."""
ObjectName = Annotated[
    str, Field(pattern=r"^[A-Z][A-Za-z0-9]* ([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[^ /%]+$", max_length=400)
]
"""An object by `<Kind> <namespace>/<name>`, or `<Kind> <name>` if it is in no namespace."""


class FileConfigMap(Section):
    """A ConfigMap with files of the project."""

    name: DnsName
    namespace: DnsLabel | None = None
    """None: the environment's only namespace."""
    labels: Labels = Field(default_factory=dict)
    files: Annotated[tuple[FilePath, ...], Field(min_length=1), AfterValidator(_check_keys)]
    """Files, each under the key of its name, or of another key as `key=file`."""


class Objects(Section):
    """Further objects of an environment. Every field reaches the cluster as it is written."""

    files: Annotated[tuple[FilePath, ...], AfterValidator(check_unique)] = ()
    """YAML files of the project with one or more objects each, as `kubectl apply` takes them."""
    manifests: tuple[ObjectManifest, ...] = ()
    """Objects that are written here."""
    config_maps: tuple[FileConfigMap, ...] = ()
    """ConfigMaps whose values are files of the project."""
    adopt: Annotated[tuple[ObjectName, ...], AfterValidator(check_unique)] = ()
    """Objects of this section, as `<Kind> <namespace>/<name>`, that are taken over if they exist already."""


def parse_object_names(names: Iterable[str]) -> frozenset[tuple[str, str | None, str]]:
    """Return kind, namespace and name of each object name."""
    parts = (name.partition(" ") for name in names)
    return frozenset((kind, rest.rpartition("/")[0] or None, rest.rpartition("/")[2]) for kind, _, rest in parts)
