"""StorageClasses, PersistentVolumes on nodes, and PersistentVolumeClaims."""

from trainstack.objects.labels import RETAIN, SKIP_AWAIT, Manifest, metadata
from trainstack.settings.sections.storage import PersistentVolume, StorageClass, Volume
from trainstack.settings.values.kubernetes import HOSTNAME


def storage_class(declared: StorageClass, stack: str) -> Manifest:
    result: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(declared.name, stack, adopt=declared.adopt),
        "provisioner": declared.provisioner,
        "reclaimPolicy": declared.reclaim_policy,
        "volumeBindingMode": declared.volume_binding_mode,
    }
    # The manifest of an adopted class omits a false value, so the live value is kept.
    if declared.allow_volume_expansion or not declared.adopt:
        result["allowVolumeExpansion"] = declared.allow_volume_expansion
    if declared.parameters:
        result["parameters"] = dict(declared.parameters)
    return result


def persistent_volume(declared: PersistentVolume, stack: str) -> Manifest:
    """Return a PersistentVolume on a folder of a node.

    By default the folder must exist (`type: Directory`). The kubelet would create a missing one as root, so the pod
    would fail on its first write instead of its mount.
    """
    spec: Manifest = {
        "accessModes": list(declared.access_modes),
        "capacity": {"storage": declared.size},
        "hostPath": {"path": declared.host_path, "type": declared.host_path_type},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": declared.storage_class,
        "volumeMode": "Filesystem",
    }
    if declared.node is not None:
        on_node = {"key": HOSTNAME, "operator": "In", "values": [declared.node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(declared.name, stack, labels=declared.labels, adopt=declared.adopt),
        "spec": spec,
    }


def claim(declared: Volume, stack: str) -> Manifest:
    """Return a PersistentVolumeClaim. The engine does not wait for it, since it may be unbound until its first pod."""
    spec: Manifest = {
        "accessModes": list(declared.access_modes),
        "resources": {"requests": {"storage": declared.size}},
        "storageClassName": declared.storage_class,
        "volumeMode": "Filesystem",
    }
    if declared.selector:
        spec["selector"] = {"matchLabels": dict(declared.selector)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(
            declared.name,
            stack,
            namespace=declared.namespace,
            labels=declared.labels,
            annotations={SKIP_AWAIT: "true", **({} if declared.retain else {RETAIN: "false"})},
            adopt=declared.adopt,
        ),
        "spec": spec,
    }
