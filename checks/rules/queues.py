"""What Kueue's webhooks refuse in a queue, told before anything is sent.

Source: validateResourceGroups in Kueue's pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterator

from checks.finding import Finding
from checks.scene import Rule, Scene, each
from settings.quantities import amount
from settings.queues import ClusterQueue, ResourceQuota


def covered_resources(scene: Scene) -> Iterator[Finding]:
    """Each flavor lists the covered resources of its group, all of them in the same order."""
    for path, queue in _queues(scene):
        for index, group in enumerate(queue.resource_groups):
            for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
                listed = tuple(quota.name for quota in flavor.resources)
                if listed != group.covered_resources:
                    message = (
                        f"lists {', '.join(listed)} where coveredResources says {', '.join(group.covered_resources)}"
                    )
                    remedy = "list the same resources in the same order"
                    yield Finding("covered-resources", "error", f"{where}.resources", message, remedy)


def group_overlap(scene: Scene) -> Iterator[Finding]:
    """A resource, and a flavor, stands once in a queue."""
    for path, queue in _queues(scene):
        seen: dict[tuple[str, str], int] = {}
        for index, group in enumerate(queue.resource_groups):
            named = [("resource", name) for name in group.covered_resources]
            named += [("flavor", flavor.name) for flavor in group.flavors]
            for kind, name in named:
                if (kind, name) in seen:
                    message = f"the {kind} {name} is in resourceGroups[{seen[kind, name]}] already"
                    remedy = f"keep each {kind} in one group, once"
                    yield Finding("group-overlap", "error", f"{path}.resourceGroups[{index}]", message, remedy)
                seen.setdefault((kind, name), index)


def limit_without_cohort(scene: Scene) -> Iterator[Finding]:
    """Only a queue of a cohort borrows and lends."""
    for path, queue in _queues(scene):
        for where, quota in _quotas(path, queue):
            limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
            for key in (key for key, limit in limits.items() if limit is not None and queue.cohort is None):
                remedy = f"name a cohort, or leave {key} out"
                yield Finding("limit-without-cohort", "error", f"{where}.{key}", "the queue is in no cohort", remedy)


def lending_over_nominal(scene: Scene) -> Iterator[Finding]:
    """A queue lends no more than it has."""
    for path, queue in _queues(scene):
        for where, quota in _quotas(path, queue):
            if quota.lending_limit is not None and amount(quota.lending_limit) > amount(quota.nominal_quota):
                message = f"is more than the nominal quota ({quota.lending_limit} of {quota.nominal_quota})"
                remedy = f"lend at most {quota.nominal_quota}"
                yield Finding("lending-over-nominal", "error", f"{where}.lendingLimit", message, remedy)


def borrow_without_reclaim(scene: Scene) -> Iterator[Finding]:
    """A queue that may evict in others' queues while it borrows may take its own quota back too."""
    for path, queue in _queues(scene):
        preemption = queue.preemption
        borrowing = preemption.borrow_within_cohort
        if borrowing and borrowing.policy != "Never" and preemption.reclaim_within_cohort == "Never":
            message = f"borrowWithinCohort has the policy {borrowing.policy}, and reclaimWithinCohort is Never"
            remedy = "let reclaimWithinCohort be LowerPriority or Any, or leave borrowWithinCohort out"
            yield Finding("borrow-without-reclaim", "error", f"{path}.preemption", message, remedy)


def queue_closed(scene: Scene) -> Iterator[Finding]:
    """A local queue's namespace may use its cluster queue."""
    allowed = {queue.name: queue.namespaces for queue in scene.settings.queues.cluster_queues}
    for path, queue in each("queues.localQueues", scene.settings.queues.local_queues):
        namespaces = allowed.get(queue.cluster_queue)
        if namespaces is not None and queue.namespace not in namespaces:
            names = ", ".join(namespaces) or "none"
            message = (
                f"cluster queue {queue.cluster_queue} is not open to namespace {queue.namespace} (it is to {names})"
            )
            remedy = f"add {queue.namespace} to the namespaces of {queue.cluster_queue}"
            yield Finding("queue-closed", "error", f"{path}.clusterQueue", message, remedy)


def _queues(scene: Scene) -> Iterator[tuple[str, ClusterQueue]]:
    return each("queues.clusterQueues", scene.settings.queues.cluster_queues)


def _quotas(path: str, queue: ClusterQueue) -> Iterator[tuple[str, ResourceQuota]]:
    for index, group in enumerate(queue.resource_groups):
        for where, flavor in each(f"{path}.resourceGroups[{index}].flavors", group.flavors):
            yield from each(f"{where}.resources", flavor.resources)


RULES: tuple[Rule, ...] = (
    covered_resources,
    group_overlap,
    limit_without_cohort,
    lending_over_nominal,
    borrow_without_reclaim,
    queue_closed,
)
