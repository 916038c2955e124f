"""Node shapes: whether a node of the flavors that pods are given could hold one of them. Kueue judges quota alone."""

from collections.abc import Iterable, Iterator, Mapping

from trainstack.kueue.model import Flavor, Model, Node, PodSet, Requirement, Toleration, Workload
from trainstack.kueue.node_affinity import holds, untolerated
from trainstack.kueue.quantities import readable
from trainstack.kueue.verdict import Assigned, Reason


def oversized(workload: Workload, assigned: Iterable[Assigned], model: Model) -> list[Reason]:
    """Pods that no node could hold, were it empty; they would be admitted and stay Pending.

    Args:
        workload: whose pods they are.
        assigned: the flavors that they are given; without any, all nodes count that the pods may stand on.
        model: with the nodes; where they are not known, or are made on demand, nothing is found.

    """
    if model.nodes is None or model.grows:
        return []
    given = {each.pod_set: tuple(dict.fromkeys(each.flavors.values())) for each in assigned}
    return [
        reason for pods in workload.pod_sets for reason in _too_large(workload, pods, given.get(pods.name, ()), model)
    ]


def nodes_with_labels(labels: Mapping[str, str], nodes: Iterable[Node]) -> list[Node]:
    """The nodes that bear these labels."""
    return [node for node in nodes if labels.items() <= node.labels.items()]


def capacity(nodes: Iterable[Node]) -> dict[str, int]:
    """What nodes have together, by resource."""
    total: dict[str, int] = {}
    for node in nodes:
        for resource, number in node.allocatable.items():
            total[resource] = total.get(resource, 0) + number
    return total


def _too_large(workload: Workload, pods: PodSet, names: tuple[str, ...], model: Model) -> Iterator[Reason]:
    flavors = [(model.flavors or {})[name] for name in names]
    of_flavor = nodes_with_labels(
        {key: value for each in flavors for key, value in each.labels.items()}, model.nodes or ()
    )
    where = f" of flavor {' and '.join(names)}" if names else ""

    def reason(message: str, path: str, resource: str = "", missing: int = 0) -> Reason:
        return Reason("shape", message, path, pods.name, names[0] if names else "", resource, missing)

    if not of_flavor:
        # A flavor that stands for no node is another finding; here it is two that stand for none together.
        if all(nodes_with_labels(each.labels, model.nodes or ()) for each in flavors):
            yield reason(f"no node is{where}" if names else "the cluster has no node", f"{workload.path}.queue")
        return
    chosen = [node for node in of_flavor if _selects(pods, node)]
    if not chosen:
        asked = [f"{key}={value}" for key, value in pods.selector.items()]
        asked += [f"{each.key} {each.operator}" for term in pods.affinity for each in term]
        keys = {*pods.selector, *(each.key for term in pods.affinity for each in term)}
        known = sorted({f"{key}={node.labels[key]}" for node in of_flavor for key in keys if key in node.labels})
        there = f"; there are {', '.join(known)}" if known else ""
        message = f"no node{where} has the labels that its pods select ({', '.join(sorted(asked))}){there}"
        yield reason(message, f"{workload.path}.nodeSelector")
        return
    tolerations = (*pods.tolerations, *_given(flavors))
    suited = [node for node in chosen if untolerated(node.taints, tolerations) is None]
    if not suited:
        taints = sorted({f"{taint.key}:{taint.effect}" for node in chosen for taint in node.taints})
        message = f"each node{where} has a taint that neither the pods nor the flavor tolerate ({', '.join(taints)})"
        yield reason(message, f"{workload.path}.tolerations")
        return
    wanted = {resource: number for resource, number in pods.per_pod.items() if number}
    if any(all(node.allocatable.get(each, 0) >= number for each, number in wanted.items()) for node in suited):
        return
    short = [each for each, number in wanted.items() if all(node.allocatable.get(each, 0) < number for node in suited)]
    for each in short:
        most = max(node.allocatable.get(each, 0) for node in suited)
        message = (
            f"a {_named(pods)} asks for {readable(each, wanted[each])} {each}; a node{where} has"
            f" {readable(each, most)} at most"
        )
        yield reason(message, pods.resources_path, each, wanted[each] - most)
    if not short:
        said = ", ".join(f"{each}={readable(each, number)}" for each, number in sorted(wanted.items()))
        yield reason(f"no node{where} has at once what a {_named(pods)} asks for ({said})", pods.resources_path)


def _given(flavors: Iterable[Flavor]) -> list[Toleration]:
    return [each for flavor in flavors for each in flavor.tolerations]


def _selects(pods: PodSet, node: Node) -> bool:
    """Whether the scheduler would take the node by its labels."""
    if not pods.selector.items() <= node.labels.items():
        return False
    return not pods.affinity or any(_all_hold(term, node) for term in pods.affinity)


def _all_hold(term: Iterable[Requirement], node: Node) -> bool:
    requirements = list(term)
    return bool(requirements) and all(holds(each, node.labels) for each in requirements)


def _named(pods: PodSet) -> str:
    return "pod" if pods.name == "main" else f"{pods.name} pod"
