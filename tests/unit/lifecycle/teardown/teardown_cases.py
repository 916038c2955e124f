"""The live objects of a stack that is deleted, and of their users."""

from typing import Any

from trainstack.lifecycle.teardown.live_stack import LiveStack
from trainstack.objects.ownership import Identity

Body = dict[str, Any]
CLAIM: Identity = ("PersistentVolumeClaim", "research", "training")
SPACE: Identity = ("Namespace", None, "research")


def make_body(kind: str, name: str, namespace: str | None = None, *, stack: str = "", **changes: Any) -> Body:
    """Return an object, without the label of a stack unless `stack` is set."""
    metadata = {"name": name, "uid": f"{kind}/{namespace}/{name}", **changes.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    if stack:
        metadata["labels"] = {"trainstack.dev/stack": stack}
    return {"kind": kind, "metadata": metadata, **changes}


def ours(kind: str, name: str, namespace: str | None = None, **changes: Any) -> Body:
    """Return an object of the stack that is deleted."""
    return make_body(kind, name, namespace, stack="dev", **changes)


def owned_by(body: Body) -> Body:
    """Return the metadata of an object that another one owns."""
    owner = {"kind": body["kind"], "name": body["metadata"]["name"], "uid": body["metadata"]["uid"], "controller": True}
    return {"ownerReferences": [owner]}


QUEUE = ours("LocalQueue", "research", "research", spec={"clusterQueue": "research"})
CLUSTER_QUEUE = ours("ClusterQueue", "research")
FLAVOR = ours("ResourceFlavor", "cpu")
COHORT = ours("Cohort", "local")
VOLUME = ours("PersistentVolumeClaim", "training", "research")
NAMESPACE = ours("Namespace", "research")


def make_scene(**changes: Any) -> LiveStack:
    """Return a stack with a queue, a volume and a namespace; volume and namespace are retained."""
    base = {
        "stack": "dev",
        "labeled_objects": (QUEUE, CLUSTER_QUEUE, FLAVOR, COHORT, VOLUME, NAMESPACE),
        "retained": frozenset({CLAIM, SPACE}),
    }
    return LiveStack(**{**base, **changes})
