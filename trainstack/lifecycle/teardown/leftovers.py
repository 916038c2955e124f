"""What is left of a stack after its teardown, and what holds it."""

from collections.abc import Collection, Iterable
from datetime import datetime

from trainstack.lifecycle.teardown.context import Body
from trainstack.objects.ownership import Identity, identity, shown

_WHO = {
    "kubernetes.io/pvc-protection": "a pod still mounts it",
    "kubernetes.io/pv-protection": "a claim is still bound to it",
    "kueue.x-k8s.io/resource-in-use": "Kueue sees it in use, or does not run",
    "kubernetes": "objects in it are not gone yet",
    "foregroundDeletion": "objects that it owns are not gone yet",
}
"""What the finalizers that are met here wait for."""


def left(ours: Iterable[Body], stays: Collection[Identity]) -> list[Body]:
    """What should be gone and is not."""
    return sorted((each for each in ours if identity(each) not in stays), key=lambda each: str(identity(each)))


def explained(body: Body, now: datetime) -> str:
    """Why an object is still there: the finalizers that hold it by name, or that nobody has deleted it."""
    metadata = body["metadata"]
    name = shown(identity(body))
    since = metadata.get("deletionTimestamp")
    if since is None:
        return f"{name} was not deleted"
    seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    # The finalizers of a namespace stand in its spec.
    finalizers = metadata.get("finalizers") or (["kubernetes"] if body["kind"] == "Namespace" else [])
    held = ", ".join(f"{each} ({_WHO[each]})" if each in _WHO else each for each in finalizers)
    return f"{name} is being deleted since {seconds} s" + (f", held by {held}" if held else ", its pods are ending")
