"""Rules about queues that Kueue's webhooks would refuse, or whose quotas overflow.

Source: validateResourceGroups in Kueue's pkg/webhooks/clusterqueue_webhook.go.
"""

from collections import defaultdict
from collections.abc import Iterator

from trainstack.kueue.booking import overflowing_requests
from trainstack.kueue.model import FlavorResource
from trainstack.kueue.quantities import from_billionths, to_billionths
from trainstack.kueue.resource_node import ResourceNode
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.sections.queues import ClusterQueue
from trainstack.settings.values.quantities import MAX_AMOUNT, amount

_WEBHOOK_REFUSAL = "Kueue's webhook refuses the queue."


@Rule(
    id="covered-resources",
    summary="A flavor does not list exactly the covered resources of its group, in order.",
    details=_WEBHOOK_REFUSAL,
    example="`coveredResources: [cpu, memory]`, and a flavor that lists `memory` before `cpu`.",
    remedy="List the same resources in the same order.",
    silenceable=False,
)
def covered_resources(context: RuleContext) -> Iterator[Violation]:
    for path, _, group, flavor in context.flavor_quotas():
        listed = tuple(quota.name for quota in flavor.resources)
        if listed != group.covered_resources:
            message = (
                f"the flavor lists {', '.join(listed)}, but coveredResources is {', '.join(group.covered_resources)}"
            )
            yield Violation(f"{path}.resources", message)


@Rule(
    id="group-overlap",
    summary="A cluster queue or cohort lists a resource or a flavor twice.",
    details=_WEBHOOK_REFUSAL,
    example="`cpu` in the `coveredResources` of two groups.",
    remedy="List each resource and flavor once, in one group.",
    silenceable=False,
)
def group_overlap(context: RuleContext) -> Iterator[Violation]:
    for path, holder in context.quota_holders():
        first_indexes: dict[tuple[str, str], int] = {}
        for index, group in enumerate(holder.resource_groups):
            listed_names = [("resource", name) for name in group.covered_resources]
            listed_names += [("flavor", flavor.name) for flavor in group.flavors]
            for kind, name in listed_names:
                if (kind, name) in first_indexes:
                    message = f"{kind} {name} is already listed in resourceGroups[{first_indexes[kind, name]}]"
                    yield Violation(f"{path}.resourceGroups[{index}]", message)
                first_indexes.setdefault((kind, name), index)


@Rule(
    id="limit-without-cohort",
    summary="A cluster queue without a cohort, or a cohort without a parent, has a `borrowingLimit` or `lendingLimit`.",
    details=_WEBHOOK_REFUSAL,
    example="`cohort: null`, and a quota with `borrowingLimit: 1`.",
    remedy="Name a cohort or a parent, or remove the limit.",
    silenceable=False,
)
def limit_without_cohort(context: RuleContext) -> Iterator[Violation]:
    for path, holder, _, quota in context.quotas():
        if isinstance(holder, ClusterQueue):
            title, parent_name, kind = "cluster queue", holder.cohort, "cohort"
        else:
            title, parent_name, kind = "cohort", holder.parent, "parent"
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        for key in (key for key, limit in limits.items() if limit is not None and parent_name is None):
            yield Violation(f"{path}.{key}", f"{title} {holder.name} has a {key}, but no {kind}")


@Rule(
    id="lending-over-nominal",
    summary="The `lendingLimit` of a queue exceeds its `nominalQuota`.",
    details=_WEBHOOK_REFUSAL,
    example="`nominalQuota: 2, lendingLimit: 3`.",
    remedy="Lend at most the nominal quota.",
    silenceable=False,
)
def lending_over_nominal(context: RuleContext) -> Iterator[Violation]:
    for path, holder, _, quota in context.quotas():
        # A cohort may lend what its members lend it.
        if not isinstance(holder, ClusterQueue) or quota.lending_limit is None:
            continue
        if amount(quota.lending_limit) > amount(quota.nominal_quota):
            message = f"lendingLimit {quota.lending_limit} exceeds nominalQuota {quota.nominal_quota}"
            yield Violation(f"{path}.lendingLimit", message)


@Rule(
    id="borrow-without-reclaim",
    summary="A queue may preempt other queues while it borrows, but may not reclaim its own quota.",
    details=_WEBHOOK_REFUSAL,
    change=yaml_at(
        "queues.clusterQueues", "- {name: training, preemption: {borrowWithinCohort: {policy: LowerPriority}}}"
    ),
    remedy="Set `reclaimWithinCohort` to `LowerPriority` or `Any`, or remove `borrowWithinCohort`.",
    silenceable=False,
)
def borrow_without_reclaim(context: RuleContext) -> Iterator[Violation]:
    for path, queue in context.cluster_queues():
        preemption = queue.preemption
        borrowing = preemption.borrow_within_cohort
        if borrowing and borrowing.policy != "Never" and preemption.reclaim_within_cohort == "Never":
            message = f"borrowWithinCohort.policy is {borrowing.policy}, but reclaimWithinCohort is Never"
            yield Violation(f"{path}.preemption", message)


@Rule(
    id="queue-closed",
    summary="The cluster queue of a local queue, or of a run, is not open to its namespace.",
    details="Kueue would never admit a run there.",
    change=yaml_at("queues.clusterQueues", "- {name: training, namespaces: [default]}"),
    remedy="Add the namespace to the cluster queue's `namespaces`.",
)
def queue_closed(context: RuleContext) -> Iterator[Violation]:
    namespaces_by_queue = {queue.name: queue.namespaces for queue in context.settings.queues.cluster_queues}
    for path, queue in context.local_queues():
        namespaces = namespaces_by_queue.get(queue.cluster_queue)
        if namespaces is not None and queue.namespace not in namespaces:
            message = (
                f"cluster queue {queue.cluster_queue} is not open to namespace {queue.namespace} "
                f"(only to {', '.join(namespaces) or 'none'})"
            )
            remedy = f"add {queue.namespace} to the namespaces of {queue.cluster_queue}"
            yield Violation(f"{path}.clusterQueue", message, remedy)


@Rule(
    id="quota-overflow",
    summary="A quota, what a cohort lends, or what a run requests exceeds the 64 bits that Kueue calculates with.",
    details=(
        "Before v0.18, Kueue's sums wrap around without an error: two queues with `9E` each leave their cohort a "
        "negative quota, and nothing is admitted. Since then such quotas are unlimited, and a queue of unlimited quota "
        "with a `lendingLimit` lends nothing. Requests may be counted as little or nothing. Cpu is counted in "
        "thousandths of a core."
    ),
    example="`nominalQuota: 9E` of memory in two cluster queues of one cohort.",
    remedy="Write a large amount that can be added up, such as `1P` of memory or `1M` of cpu.",
)
def quota_overflow(context: RuleContext) -> Iterator[Violation]:
    for workload in context.submissions:
        for reason in overflowing_requests(workload):
            yield Violation(reason.path, reason.message, "request less in each pod, or run fewer pods")
    if context.owns_platform:
        yield from _quota_overflow_violations(context)


def _quota_overflow_violations(context: RuleContext) -> Iterator[Violation]:
    tree = context.cohort_tree
    largest: dict[tuple[ResourceNode, FlavorResource], tuple[int, str]] = {}
    holders: dict[tuple[ResourceNode, FlavorResource], list[ResourceNode]] = defaultdict(list)
    for path, holder, flavor, quota in context.quotas():
        quantities = {
            "nominalQuota": quota.nominal_quota,
            "borrowingLimit": quota.borrowing_limit,
            "lendingLimit": quota.lending_limit,
        }
        amounts = {
            key: from_billionths(quota.name, to_billionths(text))
            for key, text in quantities.items()
            if text is not None
        }
        overflowing_keys = [key for key, number in amounts.items() if number > MAX_AMOUNT]
        for key in overflowing_keys:
            yield Violation(f"{path}.{key}", f"{quantities[key]} of {quota.name} exceeds 64 bits in Kueue's unit")
        if overflowing_keys:
            continue
        node = (tree.queues if isinstance(holder, ClusterQueue) else tree.cohorts)[holder.name]
        *_, root = (node, *node.ancestors())
        root_key = (root, (flavor.name, quota.name))
        largest[root_key] = max(
            largest.get(root_key, (-1, "")), (amounts["nominalQuota"], path), key=lambda pair: pair[0]
        )
        holders[root_key].append(node)
    # Kueue adds up a whole tree of cohorts, so its largest quota gets one finding for the sum.
    for (root, flavor_resource), (_, path) in largest.items():
        root_quota = root.exact_subtree_quota(flavor_resource)
        total = max(root_quota, *(node.largest_sum(flavor_resource) for node in holders[root, flavor_resource]))
        if total > MAX_AMOUNT:
            kind = "cohort" if root in tree.cohorts.values() else "cluster queue"
            borrowing_note = " and what is borrowed" if root_quota <= MAX_AMOUNT else ""
            message = (
                f"the quotas of {flavor_resource[1]} on flavor {flavor_resource[0]} in {kind} "
                f"{root.name}{borrowing_note} overflow: they add up to {total}, more than the 64 bits in which Kueue "
                "calculates"
            )
            yield Violation(f"{path}.nominalQuota", message)
