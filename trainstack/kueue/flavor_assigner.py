"""Assign flavors to a workload's pod sets.

Source: pkg/scheduler/flavorassigner/flavorassigner.go of Kueue v0.15.2. Pod sets, or groups of them, are assigned one
after another; all resources of a resource group that a pod set or a group requests get the same flavor.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from trainstack.kueue.model import FlavorFungibility, FlavorResource, PodSet, Requirement, Workload
from trainstack.kueue.node_affinity import find_untolerated_taint, match_labels
from trainstack.kueue.snapshot import GroupFlavors, QueueSnapshot


class Mode(IntEnum):
    """How a flavor can be assigned; higher is better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """The quota is in use and no workload may be preempted."""
    PREEMPT = 2
    RECLAIM = 3
    """By preempting in other queues only."""
    FIT = 4


@dataclass(frozen=True, slots=True)
class GranularMode:
    mode: Mode
    level: int
    """The borrowing level: how high in the cohort tree quota is borrowed."""


_WORST_MODE, _BEST_MODE = GranularMode(Mode.NO_FIT, 2**31), GranularMode(Mode.FIT, 0)


TriedFlavors = tuple[Mapping[str, int], ...]
"""By pod set, the index of the last tried flavor of each resource; -1: the group's last flavor."""


@dataclass(frozen=True, slots=True)
class FlavorAssignment:
    flavor: str
    mode: Mode
    level: int


@dataclass(slots=True)
class PodSetAssignment:
    name: str
    count: int
    requests: Mapping[str, int]
    flavors: dict[str, FlavorAssignment] = field(default_factory=dict)
    """By resource; empty if a resource group has no flavor for the pod set."""
    tried_flavors: dict[str, int] = field(default_factory=dict)
    fits: bool = True
    """Whether every resource group fits without preemption."""
    lacks_one_topology: bool = False
    """Whether the pods are to be placed in a topology, and their flavors have none or several."""

    @property
    def mode(self) -> Mode:
        if self.lacks_one_topology:
            return Mode.NO_FIT
        if self.fits:
            return Mode.FIT
        return min((assignment.mode for assignment in self.flavors.values()), default=Mode.NO_FIT)


@dataclass(slots=True)
class Assignment:
    pod_sets: list[PodSetAssignment] = field(default_factory=list)
    """Ends with the first pod set for which there is no flavor."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    level: int = 0
    """The borrowing level; 0: nothing is borrowed."""

    @property
    def mode(self) -> Mode:
        return min((pods.mode for pods in self.pod_sets), default=Mode.NO_FIT)

    @property
    def tried_flavors(self) -> TriedFlavors:
        return tuple(pods.tried_flavors for pods in self.pod_sets)

    @property
    def has_untried_flavors(self) -> bool:
        """Whether the next attempt continues with flavors not tried yet. Source: PendingFlavors, workload.go."""
        return any(index != -1 for pods in self.pod_sets for index in pods.tried_flavors.values())

    def contested_resources(self) -> set[FlavorResource]:
        """Return the resources to free by preemption. Source: flavorResourcesNeedPreemption, preemption.go."""
        return {
            (assignment.flavor, resource)
            for pods in self.pod_sets
            for resource, assignment in pods.flavors.items()
            if assignment.mode not in (Mode.FIT, Mode.NO_FIT)
        }


Oracle = Callable[[FlavorResource, int], tuple[Mode, int]]
"""Simulates preemption for an amount of one flavor and resource; returns the mode and the borrowing level after it."""


def assign_flavors(
    workload: Workload,
    cq: QueueSnapshot,
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    tried_flavors: TriedFlavors = (),
) -> Assignment:
    """Assign flavors of a cluster queue to a workload.

    `counts`: reduced pod counts for partial admission. `tried_flavors`: those of the previous attempt's assignment.
    """
    assignment = Assignment()
    for indexes in pod_set_groups(workload):
        first_index = indexes[0]
        group = [workload.pod_sets[index] for index in indexes]
        group_assignments = [
            _pod_set_without_flavors(pods, cq, None if counts is None else counts[index])
            for pods, index in zip(group, indexes, strict=True)
        ]
        _assign_group(
            group,
            group_assignments,
            cq,
            oracle,
            assignment.usage,
            tried_flavors[first_index] if first_index < len(tried_flavors) else {},
        )
        assignment.pod_sets += group_assignments
        for pods in group_assignments:
            for resource, flavor_assignment in pods.flavors.items():
                assignment.level = max(assignment.level, flavor_assignment.level)
                fr = (flavor_assignment.flavor, resource)
                assignment.usage[fr] = assignment.usage.get(fr, 0) + pods.requests[resource]
        if any(pods.requests and not pods.flavors for pods in group_assignments):
            break
    if cq.needs_one_topology:
        _check_topologies(workload, cq, assignment.pod_sets)
    return assignment


def _check_topologies(workload: Workload, cq: QueueSnapshot, assignments: Iterable[PodSetAssignment]) -> None:
    """Source: WorkloadsTopologyRequests and onlyTASFlavor in tas_flavorassigner.go."""
    pod_sets = {pods.name: pods for pods in workload.pod_sets}
    for pods in assignments:
        flavors = {assignment.flavor for assignment in pods.flavors.values()}
        pods.lacks_one_topology = pods.count > 0 and cq.lacks_one_topology(pod_sets[pods.name], flavors)


def pod_set_groups(workload: Workload) -> list[list[int]]:
    """Return the indexes of the pod sets by group, in the order of the first of each group."""
    groups: dict[str | int, list[int]] = {}
    for index, pods in enumerate(workload.pod_sets):
        groups.setdefault(pods.group or index, []).append(index)
    return list(groups.values())


def _pod_set_without_flavors(pods: PodSet, cq: QueueSnapshot, reduced_count: int | None) -> PodSetAssignment:
    """Return a pod set without flavors. `reduced_count`: in partial admission; ignored if the pod set has no pods."""
    count = reduced_count if reduced_count is not None and pods.count else pods.count
    requests = scale_requests(pods, count)
    if "pods" in cq.group_of:
        requests["pods"] = count
    return PodSetAssignment(pods.name, count, requests)


def scale_requests(pods: PodSet, count: int) -> dict[str, int]:
    """Return the requests of `count` pods of a pod set. Source: ScaledTo, pkg/workload/workload.go."""
    if pods.count in (0, count):
        return dict(pods.requests)
    return {resource: total // pods.count * count for resource, total in pods.requests.items()}


def _assign_group(
    group: Sequence[PodSet],
    group_assignments: Sequence[PodSetAssignment],
    cq: QueueSnapshot,
    oracle: Oracle,
    usage: Mapping[FlavorResource, int],
    tried_flavors: Mapping[str, int],
) -> None:
    """Assign the same flavors to all pod sets of a group, by the sum of their requests.

    `tried_flavors`: of the group's first pod set.
    """
    total_requests = Counter[str]()
    for pods in group_assignments:
        total_requests.update(pods.requests)
    assignments: dict[str, FlavorAssignment] = {}
    last_tried: dict[str, int] = {}
    all_fit = True
    # One flavor covers all resources of a group: the first requested resource decides for the others.
    for resource, number in total_requests.items():
        if resource in assignments or cq.ignores(resource, number):
            continue
        resource_group = cq.group_of.get(resource)
        group_flavors: dict[str, FlavorAssignment] = {}
        fits, last_index = False, -1
        if resource_group is not None:
            requests = {
                name: number for name, number in total_requests.items() if name in resource_group.covered_resources
            }
            search = _FlavorSearch(group, cq, resource_group, oracle, usage)
            group_flavors, last_index, fits = search.run(requests, tried_flavors.get(resource, -1) + 1)
        all_fit = all_fit and fits
        if not group_flavors:
            assignments, last_tried = {}, {}
            break
        assignments |= group_flavors
        last_tried |= dict.fromkeys(group_flavors, last_index)
    for pods in group_assignments:
        pods.fits = all_fit
        pods.flavors = {name: assignment for name, assignment in assignments.items() if name in pods.requests}
        pods.tried_flavors = {name: index for name, index in last_tried.items() if name in pods.requests}


@dataclass(slots=True)
class _FlavorSearch:
    """The search for a flavor of one resource group. Source: findFlavorForPodSets."""

    pod_sets: Sequence[PodSet]
    cq: QueueSnapshot
    group: GroupFlavors
    oracle: Oracle
    usage: Mapping[FlavorResource, int]
    """Of the earlier pod sets."""

    def run(self, requests: Mapping[str, int], start: int) -> tuple[dict[str, FlavorAssignment], int, bool]:
        """Return the flavor of each resource, the index of the last tried flavor, and whether the group fits."""
        fungibility = self.cq.spec.fungibility
        best_assignments: dict[str, FlavorAssignment] = {}
        best_mode, last_index = _WORST_MODE, -1
        for index in range(start, len(self.group.names)):
            last_index = index
            match = self._match(index)
            if isinstance(match, Requirement):
                return {}, -1, False  # Kueue ends the search, even if it has found a flavor.
            if not match:
                continue
            assignments, mode = self._assign_flavor(self.group.names[index], requests)
            if not _should_try_next_flavor(mode, fungibility):
                best_assignments, best_mode = assignments, mode
                break
            if is_preferred(mode, best_mode, fungibility):
                best_assignments, best_mode = assignments, mode
        if last_index == len(self.group.names) - 1:
            last_index = -1
        # As in Kueue, a group without flavors is no reason against a fit.
        return best_assignments, last_index, best_mode.mode is Mode.FIT or not self.group.names

    def _match(self, index: int) -> bool | Requirement:
        """Whether the pods may run on the flavor's nodes, or the requirement that Kueue cannot read.

        Source: checkFlavorForPodSets.
        """
        flavor = self.group.flavors[index]
        for pods in self.pod_sets:
            if flavor is None or self.cq.topology_mismatch(flavor, pods, self.group) is not None:
                return False
            if (
                flavor.taints
                and find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations)) is not None
            ):
                return False
            if pods.selector or pods.affinity:
                keys = self.group.compared_keys(flavor)
                if (match := match_labels(pods.selector, pods.affinity, flavor.labels, keys)) is not True:
                    return match
        return True

    def _assign_flavor(
        self, flavor: str, requests: Mapping[str, int]
    ) -> tuple[dict[str, FlavorAssignment], GranularMode]:
        """Return the assignments of one flavor, and the worst mode among the resources."""
        assignments: dict[str, FlavorAssignment] = {}
        worst_mode = _BEST_MODE
        for resource, number in requests.items():
            mode = self._quota_mode((flavor, resource), number)
            if is_preferred(worst_mode, mode, self.cq.spec.fungibility):
                worst_mode = mode
            if worst_mode.mode is Mode.NO_FIT:
                break
            assignments[resource] = FlavorAssignment(flavor, mode.mode, mode.level)
        return assignments, worst_mode

    def _quota_mode(self, fr: FlavorResource, number: int) -> GranularMode:
        """Source: fitsResourceQuota."""
        cq, node = self.cq, self.cq.node
        total_number = self.usage.get(fr, 0) + number
        if total_number > node.potential_available(fr):
            return GranularMode(Mode.NO_FIT, 0)
        level, may_reclaim = node.borrowing_level(fr, total_number)
        if total_number <= cq.available(fr):
            return GranularMode(Mode.FIT, level)
        if total_number <= node.quota(fr).nominal or may_reclaim or cq.preempts_while_borrowing:
            return GranularMode(*self.oracle(fr, total_number))
        return GranularMode(Mode.NO_FIT, level)


def _should_try_next_flavor(mode: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Source: shouldTryNextFlavor."""
    if mode.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return True
    if mode.mode is not Mode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return mode.level > 0 and fungibility.when_can_borrow == "TryNextFlavor"


def is_preferred(first_mode: GranularMode, second_mode: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Whether one mode is better than another. Source: isPreferred.

    `preference: BorrowingOverPreemption` compares the borrowing level before the preemption mode, as in the source.
    """
    if first_mode.mode is Mode.NO_FIT or second_mode.mode is Mode.NO_FIT:
        return second_mode.mode is Mode.NO_FIT and first_mode.mode is not Mode.NO_FIT
    first_lacks_candidates, second_lacks_candidates = (
        mode.mode is Mode.NO_CANDIDATES for mode in (first_mode, second_mode)
    )
    if fungibility.no_candidates_last and first_lacks_candidates != second_lacks_candidates:
        return second_lacks_candidates
    if fungibility.preference == "BorrowingOverPreemption":
        return (-first_mode.level, first_mode.mode) > (-second_mode.level, second_mode.mode)
    return (first_mode.mode, -first_mode.level) > (second_mode.mode, -second_mode.level)
