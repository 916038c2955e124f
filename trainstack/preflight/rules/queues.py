"""What Kueue's webhooks refuse in a queue, told before anything is sent.

Source: validateResourceGroups in Kueue's pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each, flavors, quotas
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.values.quantities import amount


@Rule(
    id="covered-resources",
    severity="error",
    summary="A flavor does not list exactly the covered resources of its group, in their order.",
    details="Kueue's webhook refuses the queue.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: memory, nominalQuota: 8Gi}, {name: cpu, nominalQuota: 2}]
    """,
    remedy="List the same resources in the same order.",
    silenceable=False,
)
def covered_resources(scene: Scene) -> Iterator[Violation]:
    for path, queue in _queues(scene):
        for where, group, flavor in flavors(path, queue):
            listed = tuple(quota.name for quota in flavor.resources)
            if listed != group.covered_resources:
                message = f"lists {', '.join(listed)} where coveredResources says {', '.join(group.covered_resources)}"
                remedy = "list the same resources in the same order"
                yield Violation(f"{where}.resources", message, remedy)


@Rule(
    id="group-overlap",
    severity="error",
    summary="A cluster queue lists a resource or a flavor twice.",
    details="Kueue's webhook refuses the queue.",
    change="""
        trainstack:queues:
          flavors:
            - {name: gpu}
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2}, {name: memory, nominalQuota: 8Gi}]
                - coveredResources: [cpu]
                  flavors:
                    - {name: gpu, resources: [{name: cpu, nominalQuota: 2}]}
    """,
    remedy="Keep each resource and each flavor in one group.",
    silenceable=False,
)
def group_overlap(scene: Scene) -> Iterator[Violation]:
    for path, queue in _queues(scene):
        seen: dict[tuple[str, str], int] = {}
        for index, group in enumerate(queue.resource_groups):
            named = [("resource", name) for name in group.covered_resources]
            named += [("flavor", flavor.name) for flavor in group.flavors]
            for kind, name in named:
                if (kind, name) in seen:
                    message = f"the {kind} {name} is in resourceGroups[{seen[kind, name]}] already"
                    remedy = f"keep each {kind} in one group, once"
                    yield Violation(f"{path}.resourceGroups[{index}]", message, remedy)
                seen.setdefault((kind, name), index)


@Rule(
    id="limit-without-cohort",
    severity="error",
    summary="A cluster queue without a cohort has a `borrowingLimit` or a `lendingLimit`.",
    details="Kueue's webhook refuses the queue.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              cohort: null
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2, borrowingLimit: 1}, {name: memory, nominalQuota: 8Gi}]
    """,
    remedy="Name a cohort, or remove the limit.",
    silenceable=False,
)
def limit_without_cohort(scene: Scene) -> Iterator[Violation]:
    for path, queue in _queues(scene):
        for where, _, quota in quotas(path, queue):
            limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
            for key in (key for key, limit in limits.items() if limit is not None and queue.cohort is None):
                remedy = f"name a cohort, or leave {key} out"
                yield Violation(f"{where}.{key}", "the queue is in no cohort", remedy)


@Rule(
    id="lending-over-nominal",
    severity="error",
    summary="The `lendingLimit` of a queue exceeds its `nominalQuota`.",
    details="Kueue's webhook refuses the queue.",
    change="""
        trainstack:queues:
          clusterQueues:
            - name: research
              resourceGroups:
                - coveredResources: [cpu, memory]
                  flavors:
                    - name: cpu
                      resources: [{name: cpu, nominalQuota: 2, lendingLimit: 3}, {name: memory, nominalQuota: 8Gi}]
    """,
    remedy="Lend at most the nominal quota.",
    silenceable=False,
)
def lending_over_nominal(scene: Scene) -> Iterator[Violation]:
    for path, queue in _queues(scene):
        for where, _, quota in quotas(path, queue):
            if quota.lending_limit is not None and amount(quota.lending_limit) > amount(quota.nominal_quota):
                message = f"is more than the nominal quota ({quota.lending_limit} of {quota.nominal_quota})"
                remedy = f"lend at most {quota.nominal_quota}"
                yield Violation(f"{where}.lendingLimit", message, remedy)


@Rule(
    id="borrow-without-reclaim",
    severity="error",
    summary=(
        "A queue may preempt in other queues while it borrows (`borrowWithinCohort`), but may not reclaim its own "
        "quota."
    ),
    details="Kueue's webhook refuses the queue.",
    change="""
        trainstack:queues:
          clusterQueues:
            - {name: research, preemption: {borrowWithinCohort: {policy: LowerPriority}}}
    """,
    remedy="Set `reclaimWithinCohort` to `LowerPriority` or `Any`, or remove `borrowWithinCohort`.",
    silenceable=False,
)
def borrow_without_reclaim(scene: Scene) -> Iterator[Violation]:
    for path, queue in _queues(scene):
        preemption = queue.preemption
        borrowing = preemption.borrow_within_cohort
        if borrowing and borrowing.policy != "Never" and preemption.reclaim_within_cohort == "Never":
            message = f"borrowWithinCohort has the policy {borrowing.policy}, and reclaimWithinCohort is Never"
            remedy = "let reclaimWithinCohort be LowerPriority or Any, or leave borrowWithinCohort out"
            yield Violation(f"{path}.preemption", message, remedy)


@Rule(
    id="queue-closed",
    severity="error",
    summary="A local queue, or the queue of a run, points at a cluster queue that is not open to its namespace.",
    details=(
        "Kueue would never admit a run of the local queue. With `--cluster` the rule also looks at queues of other "
        "owners."
    ),
    change="""
        trainstack:queues:
          clusterQueues:
            - {name: research, namespaces: [default]}
    """,
    remedy="Add the namespace to the cluster queue's `namespaces`.",
    formerly=("never-admitted",),
)
def queue_closed(scene: Scene) -> Iterator[Violation]:
    allowed = {queue.name: queue.namespaces for queue in scene.settings.queues.cluster_queues}
    for path, queue in each("queues.localQueues", scene.settings.queues.local_queues):
        namespaces = allowed.get(queue.cluster_queue)
        if namespaces is not None and queue.namespace not in namespaces:
            names = ", ".join(namespaces) or "none"
            message = (
                f"cluster queue {queue.cluster_queue} is not open to namespace {queue.namespace} (it is to {names})"
            )
            remedy = f"add {queue.namespace} to the namespaces of {queue.cluster_queue}"
            yield Violation(f"{path}.clusterQueue", message, remedy)


def _queues(scene: Scene) -> Iterator[tuple[str, ClusterQueue]]:
    return each("queues.clusterQueues", scene.settings.queues.cluster_queues)


RULES: tuple[Check[Scene], ...] = (
    covered_resources,
    group_overlap,
    limit_without_cohort,
    lending_over_nominal,
    borrow_without_reclaim,
    queue_closed,
)
