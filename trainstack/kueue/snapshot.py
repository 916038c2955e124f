"""A snapshot for the scheduler: the cohort tree, and the workloads admitted to each cluster queue."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from trainstack.kueue.model import Admitted, ClusterQueue, Flavor, FlavorResource, Model
from trainstack.kueue.resource_node import CohortTree, ResourceNode


class QueueSnapshot:
    def __init__(self, spec: ClusterQueue, node: ResourceNode, model: Model) -> None:
        self.spec = spec
        self.node = node
        self.admitted: dict[str, Admitted] = {}
        """By the workload's key."""
        self.group_of: dict[str, GroupFlavors] = {}
        """By resource."""
        for group in spec.groups:
            flavors = GroupFlavors(
                group.covered, group.flavors, [(model.flavors or {}).get(name) for name in group.flavors]
            )
            self.group_of |= dict.fromkeys(group.covered, flavors)

    @property
    def only_topologies(self) -> bool:
        """Whether all flavors have a topology; then every pod set is treated as requesting one."""
        return all(
            flavor is not None and flavor.topology for group in self.group_of.values() for flavor in group.flavors
        )

    def available(self, fr: FlavorResource) -> int:
        return max(0, self.node.available(fr))


@dataclass(eq=False)
class GroupFlavors:
    """A resource group with its flavors."""

    covered: frozenset[str]
    names: tuple[str, ...]
    flavors: list[Flavor | None]
    """In the order of the names; None for a missing flavor."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The label keys of all flavors."""
        return frozenset(key for flavor in self.flavors if flavor is not None for key in flavor.labels)


class Snapshot:
    def __init__(self, model: Model, admitted: Iterable[Admitted] = ()) -> None:
        self.tree = CohortTree(model)
        self.cluster_queues = {
            name: QueueSnapshot(spec, self.tree.queues[name], model)
            for name, spec in (model.cluster_queues or {}).items()
        }
        for other in admitted:
            if other.cluster_queue in self.cluster_queues:
                self.add(other)

    def add(self, admitted: Admitted) -> None:
        self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key] = admitted
        self.tree.add(admitted.cluster_queue, admitted.usage)

    def remove(self, admitted: Admitted) -> None:
        del self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key]
        self.tree.remove(admitted.cluster_queue, admitted.usage)
