"""Whether a node of the assigned flavors can hold a pod; Kueue itself compares quota only."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trainstack.kueue.model import Model, Node, PodSet, Workload
from trainstack.kueue.node_affinity import matches, untolerated
from trainstack.kueue.quantities import readable
from trainstack.kueue.verdict import Assigned, Reason


def oversized(workload: Workload, assigned: Iterable[Assigned], model: Model) -> list[Reason]:
    """Return a reason for each pod set whose pods no empty node could hold; they would stay Pending.

    Pods without an assigned flavor are compared with all nodes. The result is empty if the nodes are unknown or an
    autoscaler adds nodes.
    """
    if model.nodes is None or model.grows:
        return []
    given = {pods.pod_set: tuple(dict.fromkeys(pods.flavors.values())) for pods in assigned}
    return [
        reason for pods in workload.pod_sets for reason in _too_large(workload, pods, given.get(pods.name, ()), model)
    ]


def nodes_with_labels(labels: Mapping[str, str], nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if labels.items() <= node.labels.items()]


def capacity(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the total allocatable amount of each resource."""
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(node.allocatable)
    return total


def _too_large(workload: Workload, pods: PodSet, names: tuple[str, ...], model: Model) -> Iterator[Reason]:
    flavors = [(model.flavors or {})[name] for name in names]
    labels = {key: value for flavor in flavors for key, value in flavor.labels.items()}
    of_flavor = nodes_with_labels(labels, model.nodes or ())
    which = f" of flavor {' and '.join(names)}" if names else ""
    pod = "pod" if pods.name == "main" else f"{pods.name} pod"

    def reason(message: str, path: str, resource: str = "", missing: int = 0) -> Reason:
        return Reason("shape", message, path, pods.name, names[0] if names else "", resource, missing)

    if not of_flavor:
        # Rule flavor-nodes reports a single flavor without nodes.
        if all(nodes_with_labels(flavor.labels, model.nodes or ()) for flavor in flavors):
            message = f"no node has the labels{which}" if names else "the cluster has no nodes"
            yield reason(message, f"{workload.path}.queue")
        return
    chosen = [node for node in of_flavor if _selects(pods, node)]
    if not chosen:
        expressions = [requirement for term in pods.affinity for requirement in term]
        asked = [f"{key}={value}" for key, value in pods.selector.items()]
        asked += [f"{requirement.key} {requirement.operator}" for requirement in expressions]
        keys = {*pods.selector, *(requirement.key for requirement in expressions)}
        known = sorted({f"{key}={node.labels[key]}" for node in of_flavor for key in keys if key in node.labels})
        existing = f"; existing labels: {', '.join(known)}" if known else ""
        message = f"no node{which} has the labels that the pods select ({', '.join(sorted(asked))}){existing}"
        yield reason(message, f"{workload.path}.nodeSelector")
        return
    tolerations = (*pods.tolerations, *(toleration for flavor in flavors for toleration in flavor.tolerations))
    suited = [node for node in chosen if untolerated(node.taints, tolerations) is None]
    if not suited:
        taints = sorted({f"{taint.key}:{taint.effect}" for node in chosen for taint in node.taints})
        message = f"every node{which} has a taint that neither the pods nor the flavor tolerate ({', '.join(taints)})"
        yield reason(message, f"{workload.path}.tolerations")
        return
    requests = {resource: number for resource, number in pods.per_pod.items() if number}
    if any(all(node.allocatable.get(name, 0) >= number for name, number in requests.items()) for node in suited):
        return
    largest = {name: max(node.allocatable.get(name, 0) for node in suited) for name in requests}
    short = [name for name, number in requests.items() if largest[name] < number]
    for name in short:
        message = (
            f"a {pod} requests {readable(name, requests[name])} {name};"
            f" the largest node{which} has {readable(name, largest[name])}"
        )
        yield reason(message, pods.resources_path, name, requests[name] - largest[name])
    if not short:
        listed = ", ".join(f"{name}={readable(name, number)}" for name, number in sorted(requests.items()))
        yield reason(f"no single node{which} has everything that a {pod} requests ({listed})", pods.resources_path)


def _selects(pods: PodSet, node: Node) -> bool:
    """Whether the scheduler would select the node; an affinity term without expressions matches no node."""
    if not pods.selector.items() <= node.labels.items():
        return False
    return not pods.affinity or any(
        bool(term) and all(matches(requirement, node.labels) for requirement in term) for term in pods.affinity
    )
