"""Who uses what at one moment: the tree of quotas with the workloads that have theirs."""

from collections.abc import Iterable

from trainstack.kueue.model import Admitted, ClusterQueue, Flavor, FlavorResource, Model, ResourceGroup, Workload
from trainstack.kueue.resource_node import CohortTree, ResourceNode


class ClusterQueueSnapshot:
    """A cluster queue at one moment: what it says, its place in the tree, who is admitted."""

    __slots__ = ("_ceilings", "admitted", "group_of", "node", "spec")

    def __init__(self, spec: ClusterQueue, node: ResourceNode, model: Model) -> None:
        """An empty queue."""
        self.spec = spec
        self.node = node
        self.admitted: dict[str, Admitted] = {}
        """By the workload's key."""
        flavors = model.flavors or {}
        self.group_of: dict[str, GroupFlavors] = {}
        """By resource."""
        for group in spec.groups:
            tried = GroupFlavors(group, [flavors.get(name) for name in group.flavors])
            self.group_of |= dict.fromkeys(group.covered, tried)

        self._ceilings: dict[str, int] = {}

    def may_hold(self, workload: Workload) -> bool:
        """Whether the queue could ever hold the largest of a workload's pod sets; a quick look that refuses much."""
        return all(
            number <= self._ceiling(resource)
            for pods in workload.pod_sets
            for resource, number in pods.requests.items()
        )

    @property
    def only_topologies(self) -> bool:
        """Whether all of the queue's flavors have one: then each pod set is taken to ask for it."""
        groups = {id(each): each for each in self.group_of.values()}
        return all(flavor is not None and flavor.topology for each in groups.values() for flavor in each.flavors)

    def _ceiling(self, resource: str) -> int:
        """The most of a resource that any flavor could give; -1 where the queue does not cover it."""
        known = self._ceilings.get(resource)
        if known is None:
            group = self.group_of.get(resource)
            names = group.names if group is not None else ()
            known = max((self.node.potential_available((flavor, resource)) for flavor in names), default=-1)
            self._ceilings[resource] = known
        return known

    def available(self, fr: FlavorResource) -> int:
        """What the queue could use more, never below nothing."""
        return max(0, self.node.available(fr))


class GroupFlavors:
    """A resource group with its flavors at hand."""

    __slots__ = ("covered", "flavors", "keys", "names")

    def __init__(self, group: ResourceGroup, flavors: list[Flavor | None]) -> None:
        """Flavors in the order of the group; None for one that nobody declares."""
        self.covered = group.covered
        self.names = group.flavors
        self.flavors = flavors
        self.keys = frozenset(key for flavor in flavors if flavor is not None for key in flavor.labels)


class SchedulerSnapshot:
    """A model's queues and who is admitted."""

    def __init__(self, model: Model, admitted: Iterable[Admitted] = ()) -> None:
        """The queues of the model, used by these workloads."""
        self.model = model
        self.tree = CohortTree(model)
        self.cluster_queues = {
            name: ClusterQueueSnapshot(each, self.tree.queues[name], model)
            for name, each in (model.cluster_queues or {}).items()
        }
        self._by_node = {id(cq.node): cq for cq in self.cluster_queues.values()}
        for each in admitted:
            if each.cluster_queue in self.cluster_queues:
                self.add(each)

    def cluster_queue_of(self, node: ResourceNode) -> ClusterQueueSnapshot:
        """The queue at a place of the tree."""
        return self._by_node[id(node)]

    def add(self, admitted: Admitted) -> None:
        """Give a workload its quota."""
        self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key] = admitted
        self.tree.add(admitted.cluster_queue, admitted.usage)

    def remove(self, admitted: Admitted) -> None:
        """Take a workload's quota back."""
        del self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key]
        self.tree.remove(admitted.cluster_queue, admitted.usage)
