"""Which flavors a workload's pod sets get, and whether at once, by eviction or not at all.

Source: pkg/scheduler/flavorassigner/flavorassigner.go of Kueue v0.15.2. Pod sets are served one after the other; each
resource group gives one flavor to all that a pod set requests of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from trainstack.kueue.model import FlavorFungibility, FlavorResource, PodSet, Taint, Workload
from trainstack.kueue.node_affinity import suits, untolerated
from trainstack.kueue.snapshot import ClusterQueueSnapshot, GroupFlavors


class PreemptionMode(IntEnum):
    """How a flavor could be given, the better the higher."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """There is quota, others use it, and none of them may be evicted."""
    PREEMPT = 2
    RECLAIM = 3
    """By evicting workloads of other queues alone."""
    FIT = 4


@dataclass(frozen=True, slots=True)
class GranularMode:
    """A mode, and how far up the tree quota would be borrowed."""

    mode: PreemptionMode
    level: int


_WORST, _BEST = GranularMode(PreemptionMode.NO_FIT, 2**31), GranularMode(PreemptionMode.FIT, 0)


@dataclass(frozen=True, slots=True)
class FlavorAssignment:
    """A flavor for one resource of a pod set."""

    flavor: str
    mode: PreemptionMode
    level: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a flavor, or a group, does not serve a pod set at once."""

    pod_set: str
    resource: str = ""
    flavor: str = ""
    """Both empty where it is not about one."""
    wanted: int = 0
    """With what the pod sets before it take."""
    before: int = 0
    """What the pod sets before it take."""
    most: int = 0
    """What there is: if nobody used any where it never fits, else now."""
    never: bool = True
    taint: Taint | None = None
    uncovered: bool = False
    topology: bool = False


@dataclass(slots=True)
class PodSetAssignment:
    """A pod set with its flavors."""

    name: str
    count: int
    requests: Mapping[str, int]
    given: dict[str, FlavorAssignment] = field(default_factory=dict)
    """By resource; empty where a group refuses the pod set, or it requests nothing."""
    tried: dict[str, int] = field(default_factory=dict)
    """By resource, the place of the last flavor that was tried; -1: of the group's last one."""
    refused: list[Refused] = field(default_factory=list)
    """Empty: it fits at once."""

    @property
    def mode(self) -> PreemptionMode:
        """The worst of its flavors."""
        if not self.refused:
            return PreemptionMode.FIT
        return min((each.mode for each in self.given.values()), default=PreemptionMode.NO_FIT)


@dataclass(slots=True)
class Assignment:
    """All pod sets, as far as they were served: none after one that was refused."""

    placed: list[PodSetAssignment] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    level: int = 0
    """How far up quota is borrowed; 0: none is."""

    @property
    def mode(self) -> PreemptionMode:
        """The worst of its pod sets."""
        return min((each.mode for each in self.placed), default=PreemptionMode.NO_FIT)

    @property
    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Where the next attempt goes on, by pod set."""
        return tuple(each.tried for each in self.placed)

    @property
    def unfinished(self) -> bool:
        """Whether there are flavors that the next attempt would begin with. Source: PendingFlavors, workload.go."""
        return any(place != -1 for each in self.placed for place in each.tried.values())

    def contested(self) -> set[FlavorResource]:
        """What others would have to give back. Source: flavorResourcesNeedPreemption, preemption.go."""
        return {
            (given.flavor, resource)
            for each in self.placed
            for resource, given in each.given.items()
            if given.mode not in (PreemptionMode.FIT, PreemptionMode.NO_FIT)
        }


Oracle = Callable[[FlavorResource, int], tuple[PreemptionMode, int]]
"""Tells for one flavor and resource, and the amount, who could be evicted, and the level of borrowing afterwards."""


def assign(
    workload: Workload,
    cq: ClusterQueueSnapshot,
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    tried: Sequence[Mapping[str, int]] = (),
) -> Assignment:
    """Serve a workload from a queue.

    Args:
        workload: its pod sets.
        pool: the queue.
        oracle: see there.
        counts: of the pod sets, where it is to be admitted with fewer; None: all.
        tried: where the attempt before this one ended.

    """
    result = Assignment()
    for index, pods in enumerate(workload.pod_sets):
        count = pods.count if counts is None else counts[index]
        requests = scaled(pods, count)
        if "pods" in cq.group_of:
            requests["pods"] = count
        placed = PodSetAssignment(pods.name, count, requests)
        result.placed.append(placed)
        before = tried[index] if index < len(tried) else {}
        _serve(pods, placed, cq, oracle, result.usage, before)
        for resource, given in placed.given.items():
            result.level = max(result.level, given.level)
            fr = (given.flavor, resource)
            result.usage[fr] = result.usage.get(fr, 0) + requests[resource]
        if requests and not placed.given:
            break
    return result


def scaled(pods: PodSet, count: int) -> dict[str, int]:
    """What so many pods of the set request. Source: ScaledTo, pkg/workload/workload.go."""
    if pods.count in (0, count):
        return dict(pods.requests)
    return {resource: total // pods.count * count for resource, total in pods.requests.items()}


def _serve(
    pods: PodSet,
    placed: PodSetAssignment,
    cq: ClusterQueueSnapshot,
    oracle: Oracle,
    usage: Mapping[FlavorResource, int],
    tried: Mapping[str, int],
) -> None:
    for resource in placed.requests:
        if resource in placed.given:
            continue
        group = cq.group_of.get(resource)
        if group is None:
            placed.refused.append(Refused(pods.name, resource, uncovered=True))
            placed.given, placed.tried = {}, {}
            return
        wanted = {name: number for name, number in placed.requests.items() if name in group.covered}
        search = _Search(pods, cq, group, oracle, usage)
        given, place, refused = search.run(wanted, tried.get(resource, -1) + 1)
        placed.refused += refused
        if not given:
            placed.given, placed.tried = {}, {}
            return
        placed.given |= given
        placed.tried |= dict.fromkeys(given, place)


class _Search:
    """The search of one group's flavors for one pod set. Source: findFlavorForPodSets."""

    def __init__(
        self,
        pods: PodSet,
        cq: ClusterQueueSnapshot,
        group: GroupFlavors,
        oracle: Oracle,
        usage: Mapping[FlavorResource, int],
    ) -> None:
        self._pods, self._cq, self._group, self._oracle, self._usage = pods, cq, group, oracle, usage
        self._refused: list[Refused] = []

    def run(self, wanted: Mapping[str, int], start: int) -> tuple[dict[str, FlavorAssignment], int, list[Refused]]:
        """The flavors, the place where the search ended, and why not at once; no reasons where it is."""
        fungibility = self._cq.spec.fungibility
        best: dict[str, FlavorAssignment] = {}
        grade, place = _WORST, -1
        for index in range(start, len(self._group.names)):
            place = index
            if not self._stands(index):
                continue
            found, this = self._grade(self._group.names[index], wanted)
            if not _goes_on(this, fungibility):
                best, grade = found, this
                break
            if preferred(this, grade, fungibility):
                best, grade = found, this
        if place == len(self._group.names) - 1:
            place = -1
        return best, place, [] if grade.mode is PreemptionMode.FIT else self._refused

    def _stands(self, index: int) -> bool:
        """Whether the pods may stand on the nodes of a flavor. Source: checkFlavorForPodSets."""
        flavor, pods, name = self._group.flavors[index], self._pods, self._group.names[index]
        if flavor is None:
            self._refused.append(Refused(pods.name, flavor=name))
            return False
        if (flavor.topology is None) == pods.topology and not self._cq.only_topologies:
            self._refused.append(Refused(pods.name, flavor=name, topology=True))
            return False
        if flavor.taints:
            taint = untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations))
            if taint is not None:
                self._refused.append(Refused(pods.name, flavor=name, taint=taint))
                return False
        if (pods.selector or pods.affinity) and not suits(
            pods.selector, pods.affinity, flavor.labels, self._group.keys
        ):
            self._refused.append(Refused(pods.name, flavor=name))
            return False
        return True

    def _grade(self, flavor: str, wanted: Mapping[str, int]) -> tuple[dict[str, FlavorAssignment], GranularMode]:
        """How a flavor would serve all that is wanted of the group: as its worst resource."""
        found: dict[str, FlavorAssignment] = {}
        worst = _BEST
        for resource, number in wanted.items():
            this = self._quota((flavor, resource), number)
            if preferred(worst, this, self._cq.spec.fungibility):
                worst = this
            if worst.mode is PreemptionMode.NO_FIT:
                break
            found[resource] = FlavorAssignment(flavor, this.mode, this.level)
        return found, worst

    def _quota(self, fr: FlavorResource, number: int) -> GranularMode:
        """Source: fitsResourceQuota."""
        cq, node = self._cq, self._cq.node
        before = self._usage.get(fr, 0)
        total = before + number
        most = node.potential_available(fr)
        if total > most:
            self._refused.append(Refused(self._pods.name, fr[1], fr[0], total, before, most))
            return GranularMode(PreemptionMode.NO_FIT, 0)
        level, somebody_above = node.level(fr, total)
        free = cq.available(fr)
        if total <= free:
            return GranularMode(PreemptionMode.FIT, level)
        self._refused.append(Refused(self._pods.name, fr[1], fr[0], total, before, free, never=False))
        if total <= node.quota(fr).nominal or somebody_above or cq.spec.preemption.borrow_within_cohort:
            return GranularMode(*self._oracle(fr, total))
        return GranularMode(PreemptionMode.NO_FIT, level)


def _goes_on(grade: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Whether the next flavor is tried too. Source: shouldTryNextFlavor."""
    if grade.mode in (PreemptionMode.NO_FIT, PreemptionMode.NO_CANDIDATES):
        return True
    if (
        grade.mode in (PreemptionMode.PREEMPT, PreemptionMode.RECLAIM)
        and fungibility.when_can_preempt == "TryNextFlavor"
    ):
        return True
    return grade.level > 0 and fungibility.when_can_borrow == "TryNextFlavor"


def preferred(one: GranularMode, other: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Whether one grade is better than another. Source: isPreferred.

    By default the mode counts first. `preference: BorrowingOverPreemption` lets the level count first there, as the
    source has it.
    """
    if one.mode is PreemptionMode.NO_FIT or other.mode is PreemptionMode.NO_FIT:
        return other.mode is PreemptionMode.NO_FIT and one.mode is not PreemptionMode.NO_FIT
    if fungibility.preference == "BorrowingOverPreemption":
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)
