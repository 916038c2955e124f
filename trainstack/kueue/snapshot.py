"""A snapshot for the scheduler: the cohort tree, and the workloads admitted to each cluster queue."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from trainstack.kueue.model import AdmittedWorkload, ClusterQueue, Flavor, FlavorResource, Model, PodSet, Workload
from trainstack.kueue.resource_node import CohortTree, ResourceNode


class QueueSnapshot:
    def __init__(self, spec: ClusterQueue, node: ResourceNode, model: Model) -> None:
        self.spec = spec
        self.node = node
        self.preempts_while_borrowing = spec.preemption.borrow_within_cohort or (
            bool(model.fair_sharing) and spec.preemption.reclaim_within_cohort != "Never"
        )
        """Source: canPreemptWhileBorrowing, flavorassigner.go."""
        self.topologies = model.topologies
        self.sorts_by_priority = model.gates.is_enabled("PrioritySortingWithinCohort")
        """Whether the heads of a cohort's queues are ordered by priority before time."""
        self.admitted: dict[str, AdmittedWorkload] = {}
        """By the workload's key."""
        self.group_of: dict[str, GroupFlavors] = {}
        """By resource."""
        for group in spec.groups:
            flavors = GroupFlavors(
                group.covered_resources,
                group.flavors,
                [(model.flavors or {}).get(name) for name in group.flavors],
                compares_own_keys=model.release.compares_own_label_keys,
            )
            # The first group wins, as in Kueue; the API server refuses a second one that covers the resource.
            self.group_of = dict.fromkeys(group.covered_resources, flavors) | self.group_of
        self.topology_flavors = frozenset(
            flavor.name for group in self.group_of.values() for flavor in group.flavors if flavor and flavor.topology
        )
        """The flavors with a topology."""
        self.forgets_pods = model.release.forgets_pods
        self.needs_one_topology = model.release.needs_one_topology
        self._skips_zero_requests = model.release.skips_zero_requests
        self._ignores_undeclared = model.ignores_undeclared
        self._quota_only_flavors = model.release.quota_only_flavors
        self._ceilings: dict[str, int] = {}

    def may_hold(self, workload: Workload) -> bool:
        """Whether each request alone could fit on an idle cluster: a cheap check that excludes most queues."""
        return all(
            number <= self._ceiling(resource) or self.ignores(resource, number)
            for pods in workload.pod_sets
            for resource, number in pods.requests.items()
        )

    def ignores(self, resource: str, number: int) -> bool:
        """Whether a request needs no flavor: no group covers the resource, and Kueue ignores such requests, or those of
        nothing."""
        if resource in self.group_of:
            return False
        return self._ignores_undeclared or (self._skips_zero_requests and number == 0)

    def uncovered_resources(self, requests: Mapping[str, int]) -> list[str]:
        """Return the requested resources that need a flavor and have no group, by name."""
        uncovered_names = requests.keys() - self.group_of.keys()
        return sorted(name for name in uncovered_names if not self.ignores(name, requests[name]))

    @property
    def has_only_topologies(self) -> bool:
        """Whether all flavors have a topology; then every pod set is treated as requesting one."""
        return all(
            flavor is not None and flavor.topology for group in self.group_of.values() for flavor in group.flavors
        )

    def places(self, pods: PodSet) -> bool:
        """Whether Kueue places the pods in a topology: on their request, or because all flavors have one."""
        return pods.requests_topology or (bool(self.topology_flavors) and self.has_only_topologies)

    def lacks_one_topology(self, pods: PodSet, flavors: Collection[str]) -> bool:
        """Whether pods that are to be placed in a topology get flavors of none or of several, which Kueue refuses."""
        return self.needs_one_topology and self.places(pods) and len(self.topology_flavors & {*flavors}) != 1

    def topology_mismatch(
        self, flavor: Flavor, pods: PodSet, group: "GroupFlavors"
    ) -> Literal["none", "only", "level"] | None:
        """Return why topologies exclude a flavor of a group for a pod set; None if they do not.

        `none`: the pods request a topology, and the flavor has none; `only`: the reverse; `level`: its topology does
        not have a level that they request. Source: checkPodSetAndFlavorMatchForTAS, tas_flavorassigner.go.
        """
        if not pods.requests_topology:
            return "only" if flavor.topology is not None and not self.has_only_topologies else None
        if flavor.topology is None:
            return (
                None if self._quota_only_flavors and group.covered_resources.isdisjoint(pods.own_resources) else "none"
            )
        levels = (self.topologies or {}).get(flavor.topology)
        return "level" if levels is not None and not set(pods.levels) <= set(levels) else None

    def _ceiling(self, resource: str) -> int:
        """Return the most of a resource on any one flavor; -1 if the queue does not cover it."""
        if resource not in self._ceilings:
            group = self.group_of.get(resource)
            potential = (self.node.potential_available((flavor, resource)) for flavor in (group.names if group else ()))
            self._ceilings[resource] = max(potential, default=-1)
        return self._ceilings[resource]

    def available(self, fr: FlavorResource) -> int:
        return max(0, self.node.available(fr))


@dataclass(eq=False)
class GroupFlavors:
    """A resource group with its flavors."""

    covered_resources: frozenset[str]
    names: tuple[str, ...]
    flavors: list[Flavor | None]
    """In the order of the names; None for a missing flavor."""
    compares_own_keys: bool = False
    """Whether selectors and affinities are compared with each flavor's own labels alone."""

    def compared_keys(self, flavor: Flavor) -> Collection[str]:
        """Return the label keys that selectors and affinities are compared with on a flavor; others are ignored."""
        return flavor.labels.keys() if self.compares_own_keys else self.keys

    @cached_property
    def keys(self) -> frozenset[str]:
        """The label keys of all flavors."""
        return frozenset(key for flavor in self.flavors if flavor is not None for key in flavor.labels)


class Snapshot:
    def __init__(self, model: Model, admitted: Iterable[AdmittedWorkload] = ()) -> None:
        self.tree = CohortTree(model)
        self.fair_sharing = model.fair_sharing
        self.reclaims_nominal_quota = model.gates.is_enabled("FairSharingPreemptWithinNominal")
        """Whether a queue within its nominal quota preempts whatever the shares are."""
        self.counts_unlendable = model.release.counts_unlendable
        self.panics_without_cohort = model.release.panics_without_cohort
        self.keeps_scan_progress = model.gates.is_enabled("FlavorFungibilityPreserveScanProgress")
        """Whether the search for flavors continues after an attempt that failed because of other workloads, or after a
        change of usage. Otherwise it begins with the first flavor again."""
        self.nominal_first = (
            model.release.nominal_first if model.gates.is_enabled("FairSharingPrioritizeNonBorrowing") else "never"
        )
        self.undecided = ""
        """Why a search for preemption targets has no certain result in Kueue; the caller resets it."""
        self.cluster_queues = {
            name: QueueSnapshot(spec, self.tree.queues[name], model)
            for name, spec in (model.cluster_queues or {}).items()
        }
        self._by_node = {id(cq.node): cq for cq in self.cluster_queues.values()}
        for admitted_workload in admitted:
            if admitted_workload.cluster_queue in self.cluster_queues:
                self.add(admitted_workload)

    def cluster_queue_of(self, node: ResourceNode) -> QueueSnapshot:
        return self._by_node[id(node)]

    def add(self, admitted: AdmittedWorkload) -> None:
        self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key] = admitted
        self.tree.add(admitted.cluster_queue, admitted.usage)

    def remove(self, admitted: AdmittedWorkload) -> None:
        del self.cluster_queues[admitted.cluster_queue].admitted[admitted.workload.key]
        self.tree.remove(admitted.cluster_queue, admitted.usage)
