"""Whether a node of the assigned flavors can hold a pod; Kueue itself compares quota only."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trainstack.kueue.model import ClusterNode, Model, PodSet, Workload
from trainstack.kueue.node_affinity import find_untolerated_taint, matches
from trainstack.kueue.quantities import format_readable
from trainstack.kueue.verdict import PodSetAdmission, Reason


def unplaceable_pods(workload: Workload, admissions: Iterable[PodSetAdmission], model: Model) -> list[Reason]:
    """Return a reason for each pod set whose pods no empty node could hold; they would stay Pending.

    Pods without an assigned flavor are compared with all nodes. The result is empty if the nodes are unknown or an
    autoscaler adds nodes.
    """
    if model.nodes is None or model.has_autoscaler:
        return []
    flavors_by_pod_set = {pods.pod_set: tuple(dict.fromkeys(pods.flavors.values())) for pods in admissions}
    return [
        reason
        for pods in workload.pod_sets
        for reason in _placement_reasons(workload, pods, flavors_by_pod_set.get(pods.name, ()), model)
    ]


def nodes_with_labels(labels: Mapping[str, str], nodes: Iterable[ClusterNode]) -> list[ClusterNode]:
    return [node for node in nodes if labels.items() <= node.labels.items()]


def capacity(nodes: Iterable[ClusterNode]) -> dict[str, int]:
    """Return the total allocatable amount of each resource."""
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(node.allocatable)
    return total


def _placement_reasons(
    workload: Workload, pods: PodSet, flavor_names: tuple[str, ...], model: Model
) -> Iterator[Reason]:
    flavors = [(model.flavors or {})[name] for name in flavor_names]
    labels = {key: value for flavor in flavors for key, value in flavor.labels.items()}
    flavor_nodes = nodes_with_labels(labels, model.nodes or ())
    flavor_text = f" of flavor {' and '.join(flavor_names)}" if flavor_names else ""
    pod_text = "pod" if pods.name == "main" else f"{pods.name} pod"

    def reason(message: str, path: str, resource: str = "", missing: int = 0) -> Reason:
        return Reason("shape", message, path, pods.name, flavor_names[0] if flavor_names else "", resource, missing)

    # Each check narrows the nodes; only the first that leaves none is reported, because later ones depend on it.
    if not flavor_nodes:
        # Rule flavor-nodes reports a single flavor without nodes.
        if all(nodes_with_labels(flavor.labels, model.nodes or ()) for flavor in flavors):
            message = f"no node has the labels{flavor_text}" if flavor_names else "the cluster has no nodes"
            yield reason(message, f"{workload.path}.queue")
        return
    selected_nodes = [node for node in flavor_nodes if _selects(pods, node)]
    if not selected_nodes:
        expressions = [requirement for term in pods.affinity for requirement in term]
        selections = [f"{key}={value}" for key, value in pods.selector.items()]
        selections += [f"{requirement.key} {requirement.operator}" for requirement in expressions]
        keys = {*pods.selector, *(requirement.key for requirement in expressions)}
        existing_labels = sorted(
            {f"{key}={node.labels[key]}" for node in flavor_nodes for key in keys if key in node.labels}
        )
        hint = f"; existing labels: {', '.join(existing_labels)}" if existing_labels else ""
        message = f"no node{flavor_text} has the labels that the pods select ({', '.join(sorted(selections))}){hint}"
        yield reason(message, f"{workload.path}.nodeSelector")
        return
    tolerations = (*pods.tolerations, *(toleration for flavor in flavors for toleration in flavor.tolerations))
    tolerated_nodes = [node for node in selected_nodes if find_untolerated_taint(node.taints, tolerations) is None]
    if not tolerated_nodes:
        taints = sorted({f"{taint.key}:{taint.effect}" for node in selected_nodes for taint in node.taints})
        message = (
            f"every node{flavor_text} has a taint that neither the pods nor the flavor tolerate ({', '.join(taints)})"
        )
        yield reason(message, f"{workload.path}.tolerations")
        return
    requests = {resource: number for resource, number in pods.per_pod.items() if number}
    if any(
        all(node.allocatable.get(name, 0) >= number for name, number in requests.items()) for node in tolerated_nodes
    ):
        return
    largest = {name: max(node.allocatable.get(name, 0) for node in tolerated_nodes) for name in requests}
    short_resources = [name for name, number in requests.items() if largest[name] < number]
    for name in short_resources:
        message = (
            f"a {pod_text} requests {format_readable(name, requests[name])} {name};"
            f" the largest node{flavor_text} has {format_readable(name, largest[name])}"
        )
        yield reason(message, pods.resources_path, name, requests[name] - largest[name])
    # Each resource fits some node, but no node has enough of all of them.
    if not short_resources:
        requests_text = ", ".join(
            f"{name}={format_readable(name, number)}" for name, number in sorted(requests.items())
        )
        yield reason(
            f"no single node{flavor_text} has everything that a {pod_text} requests ({requests_text})",
            pods.resources_path,
        )


def _selects(pods: PodSet, node: ClusterNode) -> bool:
    """Whether the scheduler would select the node; an affinity term without expressions matches no node."""
    if not pods.selector.items() <= node.labels.items():
        return False
    return not pods.affinity or any(
        bool(term) and all(matches(requirement, node.labels) for requirement in term) for term in pods.affinity
    )
