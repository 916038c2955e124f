"""Where a quota, or a field of a queue, is said: by settings' path, or by object and field of a live cluster."""

from trainstack.kueue.model import Model
from trainstack.settings.values.paths import child

_LIVE = {"namespaces": "namespaceSelector", "cohort": "cohortName"}
"""Fields of a live cluster queue that have another name in the settings."""


def queue_path(model: Model, cluster_queue: str, key: str = "") -> str:
    """A cluster queue's field, by its name in the settings."""
    if model.declared:
        path = f"queues.clusterQueues[{cluster_queue}]"
    else:
        path, key = f"ClusterQueue {cluster_queue}", f"spec.{_LIVE.get(key, key)}" if key else ""
        return f"{path} {key}".strip()
    return child(path, key) if key else path


def quota_path(model: Model, cluster_queue: str, flavor: str, resource: str, key: str = "nominalQuota") -> str:
    """A figure of a cluster queue's quota: `….resourceGroups[0].flavors[a100].resources[cpu].nominalQuota`.

    Of a queue that does not cover the resource on the flavor: the path of the queue.
    """
    said = (model.cluster_queues or {})[cluster_queue]
    for index, group in enumerate(said.groups):
        if flavor in group.flavors and resource in group.covered:
            inner = f"resourceGroups[{index}].flavors[{flavor}].resources[{resource}].{key}"
            path = queue_path(model, cluster_queue)
            return f"{path}.{inner}" if model.declared else f"{path} spec.{inner}"
    return queue_path(model, cluster_queue)


def local_queue_path(model: Model, namespace: str, name: str, key: str) -> str:
    """A local queue's field. In the settings it is found by its name where that is the only one of it."""
    if not model.declared:
        return f"LocalQueue {namespace}/{name} spec.{key}"
    names = [each for _, each in (model.local_queues or {})]
    place = name if names.count(name) == 1 else str(list(model.local_queues or {}).index((namespace, name)))
    return f"queues.localQueues[{place}].{key}"
