"""StorageClasses, PersistentVolumes and PersistentVolumeClaims."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from trainstack.objects.labels import RETAIN, SKIP_AWAIT, Manifest, metadata
from trainstack.settings.sections.storage import PersistentVolume, StorageClass, Volume
from trainstack.settings.values.kubernetes import HOSTNAME

_DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


def is_default_class(live: Mapping[str, Any]) -> bool:
    """Return whether a live StorageClass is that of claims which name none."""
    return (live["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS_ANNOTATION) == "true"


def storage_class(settings: StorageClass, stack: str) -> Manifest:
    result: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(settings.name, stack, annotations=settings.annotations, adopt=settings.adopt),
        "provisioner": settings.provisioner,
        "reclaimPolicy": settings.reclaim_policy,
        "volumeBindingMode": settings.volume_binding_mode,
    }
    # The manifest of an adopted class omits a false value, so the live value is kept.
    if settings.allow_volume_expansion or not settings.adopt:
        result["allowVolumeExpansion"] = settings.allow_volume_expansion
    if settings.parameters:
        result["parameters"] = dict(settings.parameters)
    if settings.mount_options:
        result["mountOptions"] = list(settings.mount_options)
    if settings.allowed_topologies:
        result["allowedTopologies"] = [
            term.model_dump(mode="json", by_alias=True) for term in settings.allowed_topologies
        ]
    return result


def persistent_volume(volume: PersistentVolume, stack: str) -> Manifest:
    """Return a PersistentVolume.

    By default the folder of a node must exist (`type: Directory`). The kubelet would create a missing one as root, so
    the pod would fail on its first write instead of its mount.
    """
    folder = {"hostPath": {"path": volume.host_path, "type": volume.host_path_type}}
    spec: Manifest = {
        "accessModes": list(volume.access_modes),
        "capacity": {"storage": volume.size},
        **(folder if volume.source is None else deepcopy(volume.source)),
        "persistentVolumeReclaimPolicy": volume.reclaim_policy,
        "volumeMode": "Filesystem",
    }
    if volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    if volume.node is not None:
        node_requirement = {"key": HOSTNAME, "operator": "In", "values": [volume.node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [node_requirement]}]}}
    if volume.node_affinity is not None:
        spec["nodeAffinity"] = volume.node_affinity.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if volume.mount_options:
        spec["mountOptions"] = list(volume.mount_options)
    if volume.claim is not None:
        namespace, _, name = volume.claim.partition("/")
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(volume.name, stack, labels=volume.labels, adopt=volume.adopt),
        "spec": spec,
    }


def claim(volume: Volume, stack: str) -> Manifest:
    """Return a PersistentVolumeClaim. The engine does not wait for it, since it may be unbound until its first pod."""
    spec: Manifest = {
        "accessModes": list(volume.access_modes),
        "resources": {"requests": {"storage": volume.size}},
        "volumeMode": "Filesystem",
    }
    if volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    if volume.volume_name is not None:
        spec["volumeName"] = volume.volume_name
    for key, source in (("dataSource", volume.data_source), ("dataSourceRef", volume.data_source_ref)):
        if source is not None:
            spec[key] = source.model_dump(mode="json", by_alias=True, exclude_none=True)
    if volume.selector:
        spec["selector"] = {"matchLabels": dict(volume.selector)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(
            volume.name,
            stack,
            namespace=volume.namespace,
            labels=volume.labels,
            annotations={SKIP_AWAIT: "true", **({} if volume.retain else {RETAIN: "false"})},
            adopt=volume.adopt,
        ),
        "spec": spec,
    }
