"""Rules about quota that no run can use or no cohort can lend, and about conflicting flavors and selectors."""

from collections.abc import Iterator
from itertools import combinations

from trainstack.kueue.booking import contradictory_flavors
from trainstack.kueue.quantities import format_readable
from trainstack.preflight.examples import hello, yaml_at
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.queues import ClusterQueue, ResourceFlavor
from trainstack.settings.sections.workloads import Workload


@Rule(
    id="queue-unused",
    severity="warning",
    summary="No local queue points at a cluster queue, and it lends nothing, so no run can use its quota.",
    example="A cluster queue `old` without a cohort and a local queue.",
    remedy=(
        "Declare a local queue under `queues.localQueues`, or remove the cluster queue; silence the finding if another "
        "stack declares the local queue."
    ),
)
def queue_unused(context: RuleContext) -> Iterator[Violation]:
    used = {queue.cluster_queue for queue in context.settings.queues.local_queues}
    for path, queue in context.cluster_queues():
        if queue.name not in used and not _lends_quota(queue):
            yield Violation(path, f"no local queue points at cluster queue {queue.name}, and it lends nothing")


@Rule(
    id="queue-empty",
    severity="warning",
    summary="A cluster queue covers a resource without any quota, and its cohort lends none.",
    example="`{name: nvidia.com/gpu, nominalQuota: 0}` on all flavors.",
    remedy="Raise a `nominalQuota`, join a cohort that has some, or remove the resource from the group.",
)
def queue_empty(context: RuleContext) -> Iterator[Violation]:
    for path, queue in _acyclic_queues(context):
        for index, group in enumerate(queue.resource_groups):
            for name in group.covered_resources:
                if not any(
                    context.cohort_tree.potential_available(queue.name, flavor.name, name) for flavor in group.flavors
                ):
                    message = f"cluster queue {queue.name} has no quota of {name} on any flavor, and can borrow none"
                    yield Violation(f"{path}.resourceGroups[{index}]", message)


@Rule(
    id="coverage-partial",
    severity="warning",
    summary="A cluster queue does not cover both `cpu` and `memory`, which nearly every pod requests.",
    details="Kueue does not admit a pod that requests an uncovered resource.",
    example="`coveredResources: [nvidia.com/gpu]`.",
    remedy="Add both to `coveredResources`, with a quota on each flavor, which may be generous.",
)
def coverage_partial(context: RuleContext) -> Iterator[Violation]:
    for path, queue in context.cluster_queues():
        covered = {name for group in queue.resource_groups for name in group.covered_resources}
        for name in (name for name in ("cpu", "memory") if name not in covered):
            message = f"cluster queue {queue.name} does not cover {name}: it admits no pod that requests {name}"
            remedy = f"add {name} to coveredResources, with a quota on each flavor"
            yield Violation(f"{path}.resourceGroups", message, remedy)


@Rule(
    id="cohort-overpromised",
    severity="warning",
    summary="A `borrowingLimit` exceeds what all other members of the cohort can lend.",
    example="`borrowingLimit: 8` in a cohort without other members.",
    remedy="Lower the limit, or raise what other members lend.",
)
def cohort_overpromised(context: RuleContext) -> Iterator[Violation]:
    acyclic_names = {queue.name for _, queue in _acyclic_queues(context)}
    for path, queue, flavor, quota in context.quotas():
        if not isinstance(queue, ClusterQueue) or queue.name not in acyclic_names:
            continue
        node, flavor_resource = context.cohort_tree.queues[queue.name], (flavor.name, quota.name)
        if node.overflows(flavor_resource):
            continue  # quota-overflow reports it.
        node_quota = node.quotas[flavor_resource]
        lendable = context.cohort_tree.potential_available(queue.name, flavor.name, quota.name) - node_quota.nominal
        if (
            node_quota.borrowing_limit is not None
            and lendable < node_quota.borrowing_limit
            and queue.cohort is not None
        ):
            message = (
                f"cluster queue {queue.name} may borrow "
                f"{format_readable(quota.name, node_quota.borrowing_limit)} {quota.name}, "
                f"but cohort {queue.cohort} can lend it at most {format_readable(quota.name, lendable)}"
            )
            remedy = (
                f"lower it to {format_readable(quota.name, lendable)}, or raise what other members of the cohort lend"
            )
            yield Violation(f"{path}.borrowingLimit", message, remedy)


@Rule(
    id="flavor-conflict",
    severity="warning",
    summary="Two resource groups of a cluster queue have flavors with different values of a node label.",
    details=(
        "A pod of both groups runs on the nodes of one, but uses quota of both. Where a run gets both flavors, "
        "`flavors-contradict` reports it."
    ),
    example="A group for `cpu` on nodes with `pool: general`, and one for `nvidia.com/gpu` with `pool: gpu`.",
    remedy="Put the resources of such pods into one group, with a quota of each on each flavor.",
)
def flavor_conflict(context: RuleContext) -> Iterator[Violation]:
    # Source: FromAssignment in Kueue's pkg/podset/podset.go, where the labels of one overwrite those of the other.
    flavors = {flavor.name: flavor for flavor in context.settings.queues.flavors}
    reported_conflicts = {
        (verdict.cluster_queue, names)
        for verdict in context.verdicts
        for names, _ in contradictory_flavors(context.model, verdict)
    }
    for path, queue in context.cluster_queues():
        groups = [
            [flavors[flavor_quotas.name] for flavor_quotas in group.flavors if flavor_quotas.name in flavors]
            for group in queue.resource_groups
        ]
        for (first_index, first_flavors), (second_index, second_flavors) in combinations(enumerate(groups), 2):
            for first_flavor, second_flavor in (
                (first_flavor, second_flavor) for first_flavor in first_flavors for second_flavor in second_flavors
            ):
                if (queue.name, frozenset({first_flavor.name, second_flavor.name})) in reported_conflicts:
                    continue
                for key in _conflicting_labels(first_flavor, second_flavor):
                    message = (
                        f"a pod with flavor {first_flavor.name} of resourceGroups[{first_index}] and "
                        f"{second_flavor.name} of resourceGroups[{second_index}] would need nodes with both "
                        f"{key}={first_flavor.node_labels[key]} and {key}={second_flavor.node_labels[key]}"
                    )
                    yield Violation(f"{path}.resourceGroups[{second_index}]", message)


@Rule(
    id="selector-ignored",
    severity="warning",
    summary="A run selects nodes by a label that no flavor of its queue has, although another flavor has it.",
    details="Kueue ignores the label; the pods may be admitted and stay Pending.",
    change=yaml_at("queues.flavors", "- {name: a100, nodeLabels: {nvidia.com/gpu.product: A100}}")
    + hello("nodeSelector: {nvidia.com/gpu.product: A100}"),
    remedy="Name a queue that has the flavor, or remove the label from the selector.",
)
def selector_ignored(context: RuleContext) -> Iterator[Violation]:
    queues = context.settings.queues
    labels = {flavor.name: flavor.node_labels for flavor in queues.flavors}
    cluster_queues = {queue.name: queue for queue in queues.cluster_queues}
    local_queues = {(queue.namespace, queue.name): queue.cluster_queue for queue in queues.local_queues}
    for path, run in context.runs():
        queue = cluster_queues.get(local_queues.get((run.namespace, run.queue or ""), ""))
        if queue is None:
            continue
        queue_labels = {
            key
            for group in queue.resource_groups
            for flavor_quotas in group.flavors
            for key in labels.get(flavor_quotas.name, ())
        }
        for key, setting in _selected_labels(path, run):
            # Kueue compares only the keys that some flavor of the queue has.
            if key in queue_labels:
                continue
            # A key that no flavor has is meant for the scheduler alone.
            flavors_with_label = [name for name, node_labels in labels.items() if key in node_labels]
            if flavors_with_label:
                message = (
                    f"the run selects nodes by {key}, which no flavor of queue {run.queue} has (flavor "
                    f"{flavors_with_label[0]} has it): Kueue ignores it, and may admit the pods on a flavor whose "
                    "nodes they do not select"
                )
                remedy = f"name a queue with flavor {flavors_with_label[0]}, or remove {key} from the selector"
                yield Violation(setting, message, remedy)


def _selected_labels(path: str, run: Workload) -> Iterator[tuple[str, str]]:
    """Yield the label keys by which a run selects nodes, with the path of the setting that selects."""
    selected = dict[tuple[str, str], None]()
    for pods in pod_sets(path, run):
        affinity = pods.settings.affinity
        node_affinity = affinity.node_affinity if affinity else None
        required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
        terms = required.node_selector_terms if required else ()
        expressions = {expression.key: "affinity" for term in terms for expression in term.match_expressions}
        fields_by_key = {**expressions, **dict.fromkeys(pods.settings.node_selector, "node_selector")}
        selected |= dict.fromkeys((key, pods.setting_path(field)) for key, field in fields_by_key.items())
    yield from selected


def _acyclic_queues(context: RuleContext) -> Iterator[tuple[str, ClusterQueue]]:
    """Yield the cluster queues, without those in cycles of cohorts, which another rule reports."""
    for path, queue in context.cluster_queues():
        if queue.name in context.cohort_tree.queues and not (
            queue.cohort and context.cohort_tree.is_cyclic(queue.cohort)
        ):
            yield path, queue


def _lends_quota(queue: ClusterQueue) -> bool:
    quotas = (quota for group in queue.resource_groups for flavor in group.flavors for quota in flavor.resources)
    return queue.cohort is not None and any(
        quota.nominal_quota != "0" and (quota.lending_limit is None or quota.lending_limit != "0") for quota in quotas
    )


def _conflicting_labels(first: ResourceFlavor, second: ResourceFlavor) -> list[str]:
    """Return the node labels to which the two flavors give different values."""
    return [key for key, value in first.node_labels.items() if second.node_labels.get(key, value) != value]
