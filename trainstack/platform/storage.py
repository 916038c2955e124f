"""StorageClasses, PersistentVolumes on nodes, and PersistentVolumeClaims."""

from trainstack.objects.labels import RETAIN, SKIP_AWAIT, Manifest, metadata
from trainstack.settings.sections.storage import PersistentVolume, StorageClass, Volume
from trainstack.settings.values.kubernetes import HOSTNAME


def storage_class(settings: StorageClass, stack: str) -> Manifest:
    result: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(settings.name, stack, adopt=settings.adopt),
        "provisioner": settings.provisioner,
        "reclaimPolicy": settings.reclaim_policy,
        "volumeBindingMode": settings.volume_binding_mode,
    }
    # The manifest of an adopted class omits a false value, so the live value is kept.
    if settings.allow_volume_expansion or not settings.adopt:
        result["allowVolumeExpansion"] = settings.allow_volume_expansion
    if settings.parameters:
        result["parameters"] = dict(settings.parameters)
    return result


def persistent_volume(volume: PersistentVolume, stack: str) -> Manifest:
    """Return a PersistentVolume on a folder of a node.

    By default the folder must exist (`type: Directory`). The kubelet would create a missing one as root, so the pod
    would fail on its first write instead of its mount.
    """
    spec: Manifest = {
        "accessModes": list(volume.access_modes),
        "capacity": {"storage": volume.size},
        "hostPath": {"path": volume.host_path, "type": volume.host_path_type},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": volume.storage_class,
        "volumeMode": "Filesystem",
    }
    if volume.node is not None:
        node_requirement = {"key": HOSTNAME, "operator": "In", "values": [volume.node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [node_requirement]}]}}
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
        "storageClassName": volume.storage_class,
        "volumeMode": "Filesystem",
    }
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
