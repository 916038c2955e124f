"""Paths of queue fields: in the settings, or of the objects of a live cluster."""

from trainstack.kueue.model import Model
from trainstack.settings.values.paths import child_path

_LIVE_KEYS = {"namespaces": "namespaceSelector", "cohort": "cohortName"}
"""Fields of a ClusterQueue whose settings key differs."""


def queue_path(model: Model, cluster_queue: str, key: str = "") -> str:
    """Return the path of a cluster queue, or of its field with this settings key."""
    if not model.is_declared:
        return f"ClusterQueue {cluster_queue}" + (f" spec.{_LIVE_KEYS.get(key, key)}" if key else "")
    path = f"queues.clusterQueues[{cluster_queue}]"
    return child_path(path, key) if key else path


def quota_path(model: Model, cluster_queue: str, flavor: str, resource: str, key: str = "nominalQuota") -> str:
    """Return the path of a quota: `….resourceGroups[0].flavors[a100].resources[cpu].nominalQuota`.

    If the queue does not cover the resource on the flavor, return the queue's path.
    """
    path = queue_path(model, cluster_queue)
    for index, group in enumerate((model.cluster_queues or {})[cluster_queue].groups):
        if flavor in group.flavors and resource in group.covered_resources:
            field = f"resourceGroups[{index}].flavors[{flavor}].resources[{resource}].{key}"
            return f"{path}.{field}" if model.is_declared else f"{path} spec.{field}"
    return path


def local_queue_path(model: Model, namespace: str, name: str, key: str) -> str:
    """Return the path of a local queue's field; in the settings with the queue's index if its name is not unique."""
    if not model.is_declared:
        return f"LocalQueue {namespace}/{name} spec.{key}"
    names = [queue_name for _, queue_name in (model.local_queues or {})]
    element = name if names.count(name) == 1 else str(list(model.local_queues or {}).index((namespace, name)))
    return f"queues.localQueues[{element}].{key}"
