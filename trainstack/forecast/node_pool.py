"""The nodes on which admitted runs are placed: Kueue compares quota, the scheduler of Kubernetes compares nodes.

Each pod is placed on the node with the least allocated cpu and memory, which is the default of Kubernetes. Unlike in
Kubernetes, either all pods of a run are placed or none, in the order in which the runs were admitted.

Source: https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins (NodeResourcesFit, LeastAllocated)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.model import ClusterNode, Flavor, PodSet, Workload
from trainstack.kueue.node_affinity import find_untolerated_taint, suits
from trainstack.kueue.verdict import PodSetAdmission


@dataclass(slots=True)
class _NodeUsage:
    """A node with its free resources."""

    node: ClusterNode
    free: dict[str, int]

    def fits(self, pod: Mapping[str, int]) -> bool:
        return all(number <= self.free.get(resource, 0) for resource, number in pod.items())

    def load(self, pod: Mapping[str, int]) -> float:
        """Return the allocated share with one more pod, from 0 to 1: the mean of cpu and memory."""
        shares = [
            1 - (self.free.get(name, 0) - pod.get(name, 0)) / self.node.allocatable[name]
            for name in ("cpu", "memory")
            if self.node.allocatable.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def add(self, pod: Mapping[str, int], count: int) -> None:
        for resource, number in pod.items():
            self.free[resource] = self.free.get(resource, 0) - count * number


class NodePool:
    def __init__(
        self, nodes: Iterable[ClusterNode], flavors: Mapping[str, Flavor], only_flavors: Collection[str] | None = None
    ) -> None:
        """Create a pool of empty nodes; unschedulable nodes are left out.

        `only_flavors`: the flavors that these nodes belong to; pods on other flavors always fit. None: all flavors.
        """
        self._nodes = [_NodeUsage(node, dict(node.allocatable)) for node in nodes if not node.unschedulable]
        self._flavors, self._only_flavors = flavors, only_flavors
        self._placements_by_workload: dict[str, list[tuple[_NodeUsage, dict[str, int]]]] = {}

    def place(self, workload: Workload, assignments: Sequence[PodSetAdmission]) -> bool:
        """Place all pods of a workload, or none; return whether they are placed."""
        placements: list[tuple[_NodeUsage, dict[str, int]]] = []
        assignments_by_pod_set = {pods.pod_set: pods for pods in assignments}
        for pods in workload.pod_sets:
            assignment = assignments_by_pod_set[pods.name]
            if self._only_flavors is not None and not {*assignment.flavors.values()} & {*self._only_flavors}:
                continue
            pod = {**pods.per_pod, "pods": 1}
            nodes = self._matching_nodes(pods, assignment)
            for _ in range(assignment.count):
                node = min((node for node in nodes if node.fits(pod)), key=lambda node: node.load(pod), default=None)
                if node is None:
                    self._remove_placements(placements)
                    return False
                node.add(pod, 1)
                placements.append((node, pod))
        self._placements_by_workload[workload.key] = placements
        return True

    def remove(self, key: str) -> None:
        """Remove the pods of a workload, if it is placed."""
        self._remove_placements(self._placements_by_workload.pop(key, []))

    def _remove_placements(self, placements: Iterable[tuple[_NodeUsage, dict[str, int]]]) -> None:
        for node, pod in placements:
            node.add(pod, -1)

    def _matching_nodes(self, pods: PodSet, assignment: PodSetAdmission) -> list[_NodeUsage]:
        """Return the nodes for the pods, which Kueue gives the node labels and tolerations of their flavors."""
        selector, tolerations = dict(pods.selector), [*pods.tolerations]
        for name in dict.fromkeys(assignment.flavors.values()):
            if name in self._flavors:
                selector |= self._flavors[name].labels
                tolerations += self._flavors[name].tolerations
        keys = {*selector, *(requirement.key for term in pods.affinity for requirement in term)}
        return [
            usage
            for usage in self._nodes
            if find_untolerated_taint(usage.node.taints, tolerations) is None
            and suits(selector, pods.affinity, usage.node.labels, keys)
        ]
