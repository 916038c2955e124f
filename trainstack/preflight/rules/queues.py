"""What Kueue's webhooks refuse in a queue, reported before anything is sent.

Source: validateResourceGroups in Kueue's pkg/webhooks/clusterqueue_webhook.go.
"""

from collections import defaultdict
from collections.abc import Iterator

from trainstack.kueue.quantities import counted, exact, wrapped
from trainstack.preflight.examples import yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.sections.queues import ClusterQueue, Cohort
from trainstack.settings.values.quantities import MAX, amount

_REFUSED = "Kueue's webhook refuses the queue."


@Rule(
    id="covered-resources",
    summary="A flavor does not list exactly the covered resources of its group, in order.",
    details=_REFUSED,
    example="`coveredResources: [cpu, memory]`, and a flavor that lists `memory` before `cpu`.",
    remedy="List the same resources in the same order.",
    silenceable=False,
)
def covered_resources(context: RuleContext) -> Iterator[Violation]:
    for path, _, group, flavor in context.all_flavor_quotas():
        listed = tuple(quota.name for quota in flavor.resources)
        if listed != group.covered_resources:
            message = (
                f"the flavor lists {', '.join(listed)}, but coveredResources is {', '.join(group.covered_resources)}"
            )
            yield Violation(f"{path}.resources", message)


@Rule(
    id="group-overlap",
    summary="A cluster queue or a cohort lists a resource or a flavor twice.",
    details=_REFUSED,
    example="`cpu` in the `coveredResources` of two groups.",
    remedy="List each resource and flavor once, in one group.",
    silenceable=False,
)
def group_overlap(context: RuleContext) -> Iterator[Violation]:
    for path, owner in context.with_quota():
        seen: dict[tuple[str, str], int] = {}
        for index, group in enumerate(owner.resource_groups):
            named = [("resource", name) for name in group.covered_resources]
            named += [("flavor", flavor.name) for flavor in group.flavors]
            for kind, name in named:
                if (kind, name) in seen:
                    message = f"{kind} {name} is already listed in resourceGroups[{seen[kind, name]}]"
                    yield Violation(f"{path}.resourceGroups[{index}]", message)
                seen.setdefault((kind, name), index)


@Rule(
    id="limit-without-cohort",
    summary="A cluster queue without a cohort, or a cohort without a parent, has a `borrowingLimit` or `lendingLimit`.",
    details=_REFUSED,
    example="`cohort: null`, and a quota with `borrowingLimit: 1`.",
    remedy="Name a cohort or a parent, or remove the limit.",
    silenceable=False,
)
def limit_without_cohort(context: RuleContext) -> Iterator[Violation]:
    for path, owner, quota in context.all_quotas():
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        above = owner.parent if isinstance(owner, Cohort) else owner.cohort
        for key in (key for key, limit in limits.items() if limit is not None and above is None):
            missing = "parent" if isinstance(owner, Cohort) else "cohort"
            noun = "cohort" if isinstance(owner, Cohort) else "cluster queue"
            yield Violation(f"{path}.{key}", f"{noun} {owner.name} has a {key}, but no {missing}")


@Rule(
    id="lending-over-nominal",
    summary="The `lendingLimit` of a queue exceeds its `nominalQuota`.",
    details=_REFUSED,
    example="`nominalQuota: 2, lendingLimit: 3`.",
    remedy="Lend at most the nominal quota.",
    silenceable=False,
)
def lending_over_nominal(context: RuleContext) -> Iterator[Violation]:
    for path, _, quota in context.all_quotas():
        if quota.lending_limit is not None and amount(quota.lending_limit) > amount(quota.nominal_quota):
            message = f"lendingLimit {quota.lending_limit} exceeds nominalQuota {quota.nominal_quota}"
            yield Violation(f"{path}.lendingLimit", message)


@Rule(
    id="borrow-without-reclaim",
    summary="A queue may preempt other queues while it borrows, but may not reclaim its own quota.",
    details=_REFUSED,
    change=yaml_at(
        "queues.clusterQueues", "- {name: research, preemption: {borrowWithinCohort: {policy: LowerPriority}}}"
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
    change=yaml_at("queues.clusterQueues", "- {name: research, namespaces: [default]}"),
    remedy="Add the namespace to the cluster queue's `namespaces`.",
    formerly=("never-admitted",),
)
def queue_closed(context: RuleContext) -> Iterator[Violation]:
    allowed = {queue.name: queue.namespaces for queue in context.settings.queues.cluster_queues}
    for path, queue in context.local_queues():
        namespaces = allowed.get(queue.cluster_queue)
        if namespaces is not None and queue.namespace not in namespaces:
            message = (
                f"cluster queue {queue.cluster_queue} is not open to namespace {queue.namespace} "
                f"(only to {', '.join(namespaces) or 'none'})"
            )
            remedy = f"add {queue.namespace} to the namespaces of {queue.cluster_queue}"
            yield Violation(f"{path}.clusterQueue", message, remedy)


@Rule(
    id="quota-overflow",
    summary="A quota, or the sum that a cohort lends, exceeds the 64 bits that Kueue calculates with.",
    details=(
        "Kueue's sums wrap around without an error: two queues with `9E` each leave their cohort a negative quota, and "
        "nothing is admitted. Cpu is counted in thousandths of a core."
    ),
    example="`nominalQuota: 9E` of memory in two cluster queues of one cohort.",
    remedy="Write a large amount that can be added up, such as `1P` of memory or `1M` of cpu.",
)
def quota_overflow(context: RuleContext) -> Iterator[Violation]:
    if not context.owns_platform:
        return
    largest: dict[tuple[str, str, str], tuple[int, str]] = {}
    totals: dict[tuple[str, str, str], int] = defaultdict(int)
    limits: dict[tuple[str, str, str], int] = defaultdict(int)
    for path, queue, flavor, quota in context.quotas():
        written = {
            "nominalQuota": quota.nominal_quota,
            "borrowingLimit": quota.borrowing_limit,
            "lendingLimit": quota.lending_limit,
        }
        amounts = {key: counted(quota.name, exact(text)) for key, text in written.items() if text is not None}
        beyond = [key for key, number in amounts.items() if number > MAX]
        for key in beyond:
            yield Violation(f"{path}.{key}", f"{written[key]} of {quota.name} exceeds 64 bits in Kueue's unit")
        if beyond:
            continue
        place = (_root(context, queue), flavor.name, quota.name)
        nominal = amounts["nominalQuota"]
        largest[place] = max(largest.get(place, (-1, "")), (nominal, path), key=lambda pair: pair[0])
        totals[place] += nominal
        limits[place] = max(limits[place], amounts.get("borrowingLimit", 0))
    for place, total in totals.items():
        if total + limits[place] > MAX:
            root, flavor_name, resource = place
            limit = " and the largest borrowingLimit" if total <= MAX else ""
            message = (
                f"the quotas of {resource} on flavor {flavor_name} in {root}{limit} add up to {total + limits[place]}, "
                f"which Kueue counts as {wrapped(total + limits[place])}"
            )
            yield Violation(f"{largest[place][1]}.nominalQuota", message)


def _root(context: RuleContext, queue: ClusterQueue) -> str:
    """Name the tree that shares a queue's quota."""
    *_, node = (context.tree.queues[queue.name], *context.tree.queues[queue.name].ancestors())
    return f"cluster queue {node.name}" if queue.cohort is None else f"cohort {node.name}"
