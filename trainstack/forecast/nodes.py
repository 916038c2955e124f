"""Whether nodes have room for the pods of a run that has its quota: Kueue judges quota, the scheduler judges nodes.

Pods are placed as the scheduler does by default: each on the node that is least allocated in cpu and memory. Simpler
than there: all pods of a run are placed or none, in the order in which the runs were admitted.

Source: https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins (NodeResourcesFit, LeastAllocated)
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.model import Flavor, Node, PodSet, Workload
from trainstack.kueue.node_affinity import suits, untolerated
from trainstack.kueue.verdict import Assigned

_SCORED = ("cpu", "memory")


@dataclass(slots=True)
class _Place:
    """A node with what is left of it."""

    node: Node
    free: dict[str, int]

    def holds(self, pod: Mapping[str, int]) -> bool:
        """Whether one more pod finds room."""
        return all(number <= self.free.get(resource, 0) for resource, number in pod.items())

    def load(self, pod: Mapping[str, int]) -> float:
        """How full it would be, from 0 to 1: the mean of cpu and memory."""
        shares = [
            1 - (self.free.get(each, 0) - pod.get(each, 0)) / self.node.allocatable[each]
            for each in _SCORED
            if self.node.allocatable.get(each)
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Room:
    """The nodes of a cluster and who stands on them."""

    def __init__(
        self, nodes: Iterable[Node], flavors: Mapping[str, Flavor], limited: Collection[str] | None = None
    ) -> None:
        """Empty nodes; those that take no pods are left out.

        `limited`: the flavors whose nodes these are; pods on others find room without end. None: all flavors.
        """
        self._places = [_Place(node, dict(node.allocatable)) for node in nodes if not node.unschedulable]
        self._flavors, self._limited = flavors, limited
        self._taken: dict[str, list[tuple[_Place, dict[str, int]]]] = {}

    def place(self, workload: Workload, assigned: Sequence[Assigned]) -> bool:
        """Give every pod of a workload a node, or none."""
        taken: list[tuple[_Place, dict[str, int]]] = []
        given = {each.pod_set: each for each in assigned}
        for pods in workload.pod_sets:
            got = given[pods.name]
            if self._limited is not None and not {*got.flavors.values()} & {*self._limited}:
                continue
            pod = {**pods.per_pod, "pods": 1}
            places = self._where(pods, got)
            for _ in range(got.count):
                found = min((each for each in places if each.holds(pod)), key=lambda each: each.load(pod), default=None)
                if found is None:
                    self._give_back(taken)
                    return False
                _add(found.free, pod, -1)
                taken.append((found, pod))
        self._taken[workload.key] = taken
        return True

    def leave(self, key: str) -> None:
        """Let the pods of a workload go; it may have none here."""
        self._give_back(self._taken.pop(key, []))

    def _give_back(self, taken: Iterable[tuple[_Place, dict[str, int]]]) -> None:
        for place, pod in taken:
            _add(place.free, pod, 1)

    def _where(self, pods: PodSet, given: Assigned) -> list[_Place]:
        """Nodes that the pods, and the flavors that they got, ask for. Kueue adds a flavor's labels and tolerations."""
        flavors = [self._flavors[name] for name in dict.fromkeys(given.flavors.values()) if name in self._flavors]
        selector = dict(pods.selector)
        tolerations = [*pods.tolerations]
        for flavor in flavors:
            selector |= flavor.labels
            tolerations += flavor.tolerations
        keys = _keys(selector, pods)
        return [
            each
            for each in self._places
            if untolerated(each.node.taints, tolerations) is None
            and suits(selector, pods.affinity, each.node.labels, keys)
        ]


def _keys(selector: Mapping[str, str], pods: PodSet) -> set[str]:
    return {*selector, *(each.key for term in pods.affinity for each in term)}


def _add(free: dict[str, int], pod: Mapping[str, int], times: int) -> None:
    for resource, number in pod.items():
        free[resource] = free.get(resource, 0) + times * number
