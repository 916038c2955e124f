"""Rules about nodes: for the flavors, the pods and the declared quotas."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from trainstack.kueue.model import ClusterQueue, Cohort, Model, Workload
from trainstack.kueue.node_capacity import capacity, nodes_with_labels, unplaceable_pods
from trainstack.kueue.quantities import format_readable
from trainstack.kueue.verdict import PodSetAdmission, Reason, Verdict
from trainstack.kueue.workloads import run_workloads
from trainstack.preflight.live_context import LiveContext, unknown_violation
from trainstack.preflight.rule import Rule, Violation
from trainstack.runs.status.queued_workloads import pod_sets
from trainstack.settings.sections.queues import Cohort as DeclaredCohort

_REMEDIES = {
    "nodeSelector": "correct nodeSelector, or label the nodes",
    "tolerations": "tolerate it, or remove the taint from the nodes",
}
_DEFAULT_REMEDY = "request less in each pod, or use larger nodes"


@Rule(
    id="flavor-nodes",
    may_be=("warning",),
    summary="No node has the labels of a flavor, and no autoscaler adds nodes.",
    details="An error if a run would be assigned that flavor and stay Pending, otherwise a warning.",
    example="`nodeLabels: {nvidia.com/gpu.product: A100}` on a cluster of CPU nodes.",
    remedy="Label the nodes, or correct the flavor's `nodeLabels`.",
)
def flavor_nodes(context: LiveContext) -> Iterator[Violation]:
    model, dispatching_queues = (
        _without_dispatching_queues(context.snapshot.model),
        _dispatching_queues(context.snapshot.model),
    )
    nodeless_flavors = {
        name: labels
        for name, labels in _node_labels_by_flavor(model).items()
        if not nodes_with_labels(labels, model.nodes or ())
    }
    assigned_flavors: set[str] = set()
    for verdict in context.verdicts if nodeless_flavors else ():
        # MultiKueue runs the pods in a worker cluster, on other nodes.
        if verdict.cluster_queue in dispatching_queues:
            continue
        for name in sorted(
            {name for pods in verdict.assigned for name in pods.flavors.values()} & nodeless_flavors.keys()
        ):
            assigned_flavors.add(name)
            message = (
                f"the run would be assigned flavor {name}, but no node has its labels "
                f"({_format_labels(nodeless_flavors[name])})"
            )
            yield Violation(f"{verdict.path}.queue", message)
    # Flavors that none of the runs would get are a warning only.
    for path, flavor in context.flavors():
        if flavor.name in nodeless_flavors.keys() - assigned_flavors:
            message = (
                f"no node has the labels {_format_labels(flavor.node_labels)}: pods admitted on the flavor stay Pending"
            )
            yield Violation(f"{path}.nodeLabels", message, severity="warning")


@Rule(
    id="node-resources",
    may_be=("unknown",),
    summary="No node of the run's flavor could hold one of its pods, even if empty, and no autoscaler adds nodes.",
    example="`limits: {nvidia.com/gpu: 8}` where nodes have 4.",
    remedy="Request less in each pod, or correct `nodeSelector` or `tolerations`.",
)
def node_resources(context: LiveContext) -> Iterator[Violation]:
    model = context.snapshot.model
    verdicts = {verdict.path: verdict for verdict in context.verdicts}
    dispatched_paths = {
        path for path, verdict in verdicts.items() if verdict.cluster_queue in _dispatching_queues(model)
    }
    if model.nodes is None:
        for path, run in context.runs():
            if path in dispatched_paths:
                continue
            if any(
                pods.settings.node_selector
                or pods.settings.affinity
                or any("/" in name for name in pods.resources.limits)
                for pods in pod_sets(path, run)
            ):
                yield unknown_violation(path, "a node has what its pods request", "nodes")
        return
    # Nodes must have the resources that pods request, even where Kueue excludes or transforms them.
    untransformed_model = replace(model, excluded_prefixes=(), transformations={})
    for workload in (
        *run_workloads(context.stack_objects, untransformed_model),
        *run_workloads(context.stack_objects, untransformed_model, is_queued=False),
    ):
        if workload.path in dispatched_paths:
            continue
        for reason in _unplaceable_reasons(workload, verdicts.get(workload.path), model):
            remedy = _REMEDIES.get(reason.path.rpartition(".")[2], _DEFAULT_REMEDY)
            yield Violation(reason.path, reason.message, remedy)


def _unplaceable_reasons(workload: Workload, verdict: Verdict | None, model: Model) -> list[Reason]:
    """Return why no node could hold a pod of the workload; empty if its pods can be placed.

    The nodes are those of the assigned flavors. For a run that waits, they are those of its queue's flavor with the
    fewest reasons.
    """
    queue = (model.cluster_queues or {}).get(verdict.cluster_queue) if verdict else None
    if verdict is None or queue is None:
        return unplaceable_pods(workload, (), model)
    if verdict.assigned or (verdict.outcome == "never fits" and not verdict.judged_by):
        return unplaceable_pods(workload, verdict.assigned, model)
    flavors = [name for group in queue.groups for name in group.flavors if name in (model.flavors or {})]
    reasons_by_flavor = [
        unplaceable_pods(
            workload, [PodSetAdmission(pods.name, pods.count, {"": name}) for pods in workload.pod_sets], model
        )
        for name in flavors
    ]
    return min(reasons_by_flavor, key=len, default=[])


@Rule(
    id="quota-over-nodes",
    severity="warning",
    summary="A cluster queue has more quota on a flavor than its nodes have; pods beyond that stay Pending.",
    example="`nominalQuota: 16` on a flavor with 8 GPUs.",
    remedy="Lower the quota, or add nodes; silence the finding if they are on order.",
)
def quota_over_nodes(context: LiveContext) -> Iterator[Violation]:
    model = _without_dispatching_queues(context.snapshot.model)
    capacities, queues = _capacities_by_flavor(model), model.cluster_queues or {}
    # Only Kueue counts the outputs of transformations; no node has them.
    virtual = {name for transformation in model.transformations.values() for name in transformation.outputs}
    for path, holder, flavor, quota in context.quotas():
        quota_holders: Mapping[str, ClusterQueue | Cohort] = (
            model.cohorts if isinstance(holder, DeclaredCohort) else queues
        )
        if holder.name not in quota_holders or flavor.name not in capacities or quota.name in virtual:
            continue
        node_total = capacities[flavor.name].get(quota.name, 0)
        if quota_holders[holder.name].quotas[flavor.name, quota.name].nominal > node_total:
            limit = format_readable(quota.name, node_total)
            message = f"nominalQuota exceeds the {limit} {quota.name} of all nodes of flavor {flavor.name}"
            remedy = f"lower it to at most {limit}, or add nodes"
            yield Violation(f"{path}.nominalQuota", message, remedy)


@Rule(
    id="flavor-overpromised",
    severity="warning",
    summary="All queues and cohorts together have more quota on a flavor than its nodes have, though none alone has.",
    example="Two queues with 8 GPUs each, on a flavor with 8.",
    remedy="Lower the quotas and let the cohort lend what is free, or add nodes.",
)
def flavor_overpromised(context: LiveContext) -> Iterator[Violation]:
    model = _without_dispatching_queues(context.snapshot.model)
    capacities = _capacities_by_flavor(model)
    holders = [(queue.name, queue.quotas) for queue in (model.cluster_queues or {}).values()]
    holders += [(cohort.name, cohort.quotas) for cohort in model.cohorts.values()]
    for path, flavor in context.flavors():
        resources = {name for _, quotas in holders for quota_flavor, name in quotas if quota_flavor == flavor.name}
        for name in sorted(resources) if flavor.name in capacities else ():
            node_total = capacities[flavor.name].get(name, 0)
            shares = {
                holder: quotas[flavor.name, name].nominal for holder, quotas in holders if (flavor.name, name) in quotas
            }
            # quota-over-nodes reports a share that alone exceeds the nodes.
            if sum(shares.values()) > node_total >= max(shares.values()):
                share_texts = [
                    f"{holder} has {format_readable(name, share)}" for holder, share in shares.items() if share
                ]
                message = (
                    f"quota exceeds the {format_readable(name, node_total)} {name} of all its nodes: "
                    f"{', '.join(share_texts)}"
                )
                yield Violation(path, message)


def _dispatching_queues(model: Model) -> frozenset[str]:
    """Return the cluster queues whose workloads MultiKueue dispatches to other clusters."""
    queues = (model.cluster_queues or {}).items()
    return frozenset(name for name, queue in queues if model.dispatches(queue))


def _without_dispatching_queues(model: Model) -> Model:
    """Return the model without dispatching cluster queues, and without cohorts and flavors that only they use."""
    queues, dispatching_queues = model.cluster_queues or {}, _dispatching_queues(model)
    if not dispatching_queues:
        return model
    local_queues = {name: queue for name, queue in queues.items() if name not in dispatching_queues}
    unused_cohorts = _lending_cohorts(model, (queues[name] for name in dispatching_queues)) - _lending_cohorts(
        model, local_queues.values()
    )
    cohorts = {name: cohort for name, cohort in model.cohorts.items() if name not in unused_cohorts}
    unused_flavors = _quota_flavors((*queues.values(), *model.cohorts.values())) - _quota_flavors(
        (*local_queues.values(), *cohorts.values())
    )
    flavors = {name: flavor for name, flavor in (model.flavors or {}).items() if name not in unused_flavors}
    return replace(model, cluster_queues=local_queues, cohorts=cohorts, flavors=flavors)


def _lending_cohorts(model: Model, queues: Iterable[ClusterQueue]) -> set[str]:
    """Return the cohorts of these queues and all ancestors, from which the queues may borrow."""
    cohorts: set[str] = set()
    for queue in queues:
        name = queue.cohort
        while name is not None and name not in cohorts:
            cohorts.add(name)
            name = model.cohorts[name].parent if name in model.cohorts else None
    return cohorts


def _quota_flavors(holders: Iterable[ClusterQueue | Cohort]) -> set[str]:
    return {flavor for holder in holders for flavor, _ in holder.quotas}


def _node_labels_by_flavor(model: Model) -> dict[str, Mapping[str, str]]:
    """Return the node labels of each flavor; empty if the nodes are unknown or an autoscaler adds nodes."""
    if model.nodes is None or model.has_autoscaler:
        return {}
    return {name: flavor.labels for name, flavor in (model.flavors or {}).items()}


def _capacities_by_flavor(model: Model) -> dict[str, dict[str, int]]:
    """Return the total resources of each flavor's nodes; `flavor-nodes` reports flavors without nodes."""
    nodes_by_flavor = {
        name: nodes_with_labels(labels, model.nodes or ()) for name, labels in _node_labels_by_flavor(model).items()
    }
    return {name: capacity(nodes) for name, nodes in nodes_by_flavor.items() if nodes}


def _format_labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
