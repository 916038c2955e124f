"""Objects that remain after a teardown, and their finalizers."""

from collections.abc import Collection, Iterable
from datetime import datetime

from trainstack.lifecycle.teardown.live_stack import Body
from trainstack.objects.ownership import Identity, format_identity, identity

_REASON_BY_FINALIZER = {
    "kubernetes.io/pvc-protection": "a pod still mounts it",
    "kubernetes.io/pv-protection": "a claim is still bound to it",
    "kueue.x-k8s.io/resource-in-use": "Kueue finds it in use, or is not running",
    "kubernetes": "its objects are not deleted yet",
    "foregroundDeletion": "its dependents are not deleted yet",
}
"""Why a finalizer has not been removed yet, by finalizer."""


def find_leftovers(labeled_objects: Iterable[Body], retained_identities: Collection[Identity]) -> list[Body]:
    """Return the objects that are not retained, sorted."""
    return sorted(
        (body for body in labeled_objects if identity(body) not in retained_identities),
        key=lambda body: str(identity(body)),
    )


def explain_leftover(body: Body, now: datetime) -> str:
    """Return why an object still exists: its finalizers, or that it was not deleted."""
    metadata = body["metadata"]
    name = format_identity(identity(body))
    terminating_since = metadata.get("deletionTimestamp")
    if terminating_since is None:
        return f"{name} was not deleted"
    seconds = int((now - datetime.fromisoformat(terminating_since)).total_seconds())
    # A namespace has its finalizers in the spec.
    finalizers = metadata.get("finalizers") or (["kubernetes"] if body["kind"] == "Namespace" else [])
    finalizer_texts = ", ".join(
        f"{finalizer} ({_REASON_BY_FINALIZER[finalizer]})" if finalizer in _REASON_BY_FINALIZER else finalizer
        for finalizer in finalizers
    )
    return f"{name} has been terminating for {seconds} s" + (
        f", held by {finalizer_texts}" if finalizer_texts else ", its pods are ending"
    )
