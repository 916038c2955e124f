"""Nodes: whether they are there for the flavors, for the pods, and for the quota that is promised of them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainstack.kueue.model import Model
from trainstack.kueue.node_capacity import capacity, nodes_with_labels, oversized
from trainstack.kueue.quantities import readable
from trainstack.kueue.workloads import declared_workloads
from trainstack.preflight.live_context import LiveScene, unknown
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import each, quotas
from trainstack.runs.status.run_pods import pod_sets

_REMEDIES = {
    "nodeSelector": "correct nodeSelector, or label the nodes",
    "tolerations": "tolerate it, or take the taint off the nodes",
}
_SMALLER = "ask for less in a pod, or use nodes that have it"


@Rule(
    id="flavor-nodes",
    severity="error",
    may_be=("warning",),
    summary="No node has the labels of a flavor.",
    details=(
        "An error if a run would be assigned that flavor: its pods would be admitted and stay Pending. Otherwise a "
        "warning. The rule does not apply where an autoscaler adds nodes."
    ),
    example="`nodeLabels: {nvidia.com/gpu.product: A100}` on a cluster with CPU nodes only.",
    remedy="Label the nodes, or correct the flavor.",
)
def flavor_nodes(scene: LiveScene) -> Iterator[Violation]:
    model = scene.snapshot.model
    empty = {
        name: labels for name, labels in _labels(model).items() if not nodes_with_labels(labels, model.nodes or ())
    }
    remedy = "label the nodes, or correct the flavor's nodeLabels"
    given: set[str] = set()
    for verdict in scene.verdicts if empty else ():
        for name in sorted({name for pods in verdict.assigned for name in pods.flavors.values()} & empty.keys()):
            given.add(name)
            message = f"no node bears the labels of flavor {name} ({_said(empty[name])}), which it would be given"
            yield Violation(f"{verdict.path}.queue", message, remedy)
    for path, flavor in each("queues.flavors", scene.settings.queues.flavors):
        if flavor.name in empty.keys() - given:
            message = f"no node bears its labels ({_said(flavor.node_labels)}): what is admitted on it stays Pending"
            yield Violation(f"{path}.nodeLabels", message, remedy, "warning")


@Rule(
    id="node-resources",
    severity="error",
    may_be=("unknown",),
    summary="No node could hold one of the run's pods, even if it were empty.",
    details=(
        "The rule looks at the nodes of the flavor that the run would be assigned, with the labels that it selects "
        "and without taints that it does not tolerate. It does not apply where an autoscaler adds nodes."
    ),
    example="`limits: {nvidia.com/gpu: 8}` where the largest node has 4.",
    remedy="Request less in one pod, or correct `nodeSelector` or `tolerations`.",
)
def node_resources(scene: LiveScene) -> Iterator[Violation]:
    model = scene.snapshot.model
    if model.nodes is None:
        for path, run in scene.runs():
            special = any("/" in name for pods in pod_sets(path, run) for name in pods.resources.limits)
            if run.node_selector or special:
                yield unknown(path, "whether a node has what its pods ask for: nodes")
        return
    assigned = {verdict.path: verdict.assigned for verdict in scene.verdicts}
    # Nodes hold what pods ask for, whatever Kueue counts it as.
    plain = replace(model, excluded=(), transformations={})
    for workload in (
        *declared_workloads(scene.declared, plain),
        *declared_workloads(scene.declared, plain, queued=False),
    ):
        for reason in oversized(workload, assigned.get(workload.path, ()), model):
            remedy = _REMEDIES.get(reason.path.rpartition(".")[2], _SMALLER)
            yield Violation(reason.path, reason.message, remedy)


@Rule(
    id="quota-over-nodes",
    severity="warning",
    summary="A cluster queue has more quota on a flavor than all nodes of that flavor have together.",
    details="What is admitted beyond that stays Pending.",
    example="`nominalQuota: 16` of GPUs where the flavor has two nodes with 4 each.",
    remedy="Lower the quota, or add nodes. If nodes are on order, silence the finding and give that reason.",
)
def quota_over_nodes(scene: LiveScene) -> Iterator[Violation]:
    have, made = _capacities(scene.snapshot.model), _made(scene.snapshot.model)
    for path, flavor, name, nominal in _promised(scene):
        most = have[flavor].get(name, 0) if flavor in have else nominal
        if nominal > most and name not in made:
            message = f"is more than all nodes of flavor {flavor} have ({readable(name, most)} {name})"
            remedy = f"lower it to {readable(name, most)} at most, or let there be more nodes"
            yield Violation(path, message, remedy)


@Rule(
    id="flavor-overpromised",
    severity="warning",
    summary="All queues and cohorts together have more quota on a flavor than its nodes have.",
    details="The quota of each one alone is covered.",
    example="Two queues with `nominalQuota: 8` of GPUs each, on a flavor whose nodes have 8.",
    remedy="Lower the quotas, so that the cohort lends what is free, or add nodes.",
)
def flavor_overpromised(scene: LiveScene) -> Iterator[Violation]:
    model = scene.snapshot.model
    have = _capacities(model)
    holders = [(one.name, one.quotas) for one in (model.cluster_queues or {}).values()]
    holders += [(one.name, one.quotas) for one in model.cohorts.values()]
    for path, flavor in each("queues.flavors", scene.settings.queues.flavors):
        resources = {name for _, quotas in holders for of, name in quotas if of == flavor.name}
        for name in sorted(resources) if flavor.name in have else ():
            most = have[flavor.name].get(name, 0)
            shares = {
                holder: quotas[flavor.name, name].nominal for holder, quotas in holders if (flavor.name, name) in quotas
            }
            if sum(shares.values()) > most >= max(shares.values()):
                said = " and ".join(f"{readable(name, share)} to {holder}" for holder, share in shares.items() if share)
                message = f"promises {said}; all its nodes have {readable(name, most)} {name}"
                remedy = "lower the quotas, or let there be more nodes: who comes last stays Pending"
                yield Violation(path, message, remedy)


def _labels(model: Model) -> dict[str, Mapping[str, str]]:
    """Of the flavors, where it is known which nodes there are, and none is made on demand."""
    if model.nodes is None or model.grows:
        return {}
    return {name: flavor.labels for name, flavor in (model.flavors or {}).items()}


def _capacities(model: Model) -> dict[str, dict[str, int]]:
    """By flavor, what its nodes have; a flavor without any is another rule's finding."""
    of_flavor = {name: nodes_with_labels(labels, model.nodes or ()) for name, labels in _labels(model).items()}
    return {name: capacity(nodes) for name, nodes in of_flavor.items() if nodes}


def _made(model: Model) -> set[str]:
    """Resources that no node has: Kueue counts them for others."""
    return {name for each in model.transformations.values() for name in each.outputs}


def _promised(scene: LiveScene) -> Iterator[tuple[str, str, str, int]]:
    """The quotas that the environment declares: path, flavor, resource, amount."""
    known = scene.snapshot.model.cluster_queues or {}
    for path, queue in each("queues.clusterQueues", scene.settings.queues.cluster_queues):
        for where, flavor, quota in quotas(path, queue) if queue.name in known else ():
            nominal = known[queue.name].quotas[flavor.name, quota.name].nominal
            yield f"{where}.nominalQuota", flavor.name, quota.name, nominal


def _said(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items()))


RULES: tuple[Check[LiveScene], ...] = (flavor_nodes, node_resources, quota_over_nodes, flavor_overpromised)
