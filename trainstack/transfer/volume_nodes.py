"""The nodes on which a data loader can mount a volume that only one node can mount: those of its pods."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trainstack.live.client import read
from trainstack.settings.model import Settings
from trainstack.transfer.errors import TransferError

_ONE_NODE, _ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"
_ACTIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"


def nodes_of_volume(settings: Settings, namespace: str, volume: str) -> list[str]:
    """Return the nodes on which pods mount a volume that only one node can mount; [] if any node will do.

    Raises TransferError if only one pod can mount the volume, and another one does.
    """
    context = settings.cluster.context
    claim_path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{volume}"
    claim = read([claim_path], context)[claim_path]
    declared_modes = (
        volume_settings.access_modes or ()
        for volume_settings in settings.mountable_volumes
        if (volume_settings.namespace, volume_settings.name) == (namespace, volume)
    )
    # Without the right to read the claim, only the settings have its access modes.
    modes = {*(claim.body["spec"]["accessModes"] if claim.is_success else next(declared_modes, ()))}
    if not modes or modes - {_ONE_NODE, _ONE_POD}:
        return []
    pods_path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector={quote(_ACTIVE_PODS)}"
    pods = [pod for pod in read([pods_path], context)[pods_path].body.get("items") or () if _mounts_claim(pod, volume)]
    # A pod that is being deleted is no obstacle: the loader stays pending until it is gone.
    if modes == {_ONE_POD} and (mounting_pods := [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]):
        raise TransferError(
            f"pod {namespace}/{mounting_pods[0]['metadata']['name']} mounts volume {volume}, which only one pod can "
            f"mount ({_ONE_POD})",
            "wait until the pod has ended, or give the volume ReadWriteOnce",
        )
    return sorted({pod["spec"]["nodeName"] for pod in pods})


def _mounts_claim(pod: Mapping[str, Any], volume: str) -> bool:
    """Return whether a pod that runs on a node mounts the claim."""
    claims = [
        pod_volume["persistentVolumeClaim"]
        for pod_volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in pod_volume
    ]
    return "nodeName" in pod["spec"] and volume in {claim["claimName"] for claim in claims}
