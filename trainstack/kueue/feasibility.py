"""A quick look before an attempt: whether a workload could be admitted at all now.

It may say yes where an attempt then fails, never no where one would succeed. Nearly everything that waits waits for one
resource that is used up; that is seen here at a hundredth of an attempt's cost.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.model import FlavorResource, PodSet, Usage, Workload
from trainstack.kueue.node_affinity import suits, untolerated
from trainstack.kueue.snapshot import ClusterQueueSnapshot, GroupFlavors

Amount = tuple[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be free at the least for a workload to be admitted."""

    priority: int
    created: float
    choices: tuple[tuple[tuple[Amount, ...], ...], ...]
    """Of each entry one flavor, with its amounts, must be free: an entry for each pod set and group. Flavors that never
    have so much are left out, so an empty entry means never."""

    @property
    def flavors(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted({fr[0] for choice in self.choices for amounts in choice for fr, _ in amounts}))


def needs_of(workload: Workload, cq: ClusterQueueSnapshot) -> Needs:
    """The needs of a workload in a queue."""
    choices = tuple(choice for pods in workload.pod_sets for choice in _choices(pods, cq))
    return Needs(workload.priority, workload.created, choices)


def _choices(pods: PodSet, cq: ClusterQueueSnapshot) -> Iterator[tuple[tuple[Amount, ...], ...]]:
    least = pods.count if pods.least is None else max(0, min(pods.least, pods.count))
    requests: Mapping[str, int] = {name: each * least for name, each in pods.per_pod.items()}
    if "pods" in cq.group_of:
        requests = {**requests, "pods": least}
    groups: dict[int, tuple[GroupFlavors, list[str]]] = {}
    for resource in requests:
        group = cq.group_of.get(resource)
        if group is None:
            yield ()
            return
        groups.setdefault(id(group), (group, []))[1].append(resource)
    for group, resources in groups.values():
        flavors = (
            tuple(((flavor.name, resource), requests[resource]) for resource in resources)
            for flavor in group.flavors
            if flavor is not None
            and untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations)) is None
            and suits(pods.selector, pods.affinity, flavor.labels, group.keys)
        )
        yield tuple(found for each in flavors if (found := _scarcest_first(each, cq)) is not None)


def kind_of(needs: Needs) -> Hashable:
    """The same for needs that differ in their amounts and their age alone."""
    choices = tuple(tuple(frozenset(fr for fr, _ in amounts) for amounts in choice) for choice in needs.choices)
    return needs.priority, choices


def floor(every: Sequence[Needs]) -> Needs:
    """Of needs of one kind, what none of them is below: where this could not be admitted, none of them could."""
    if len(every) == 1:
        return every[0]
    choices = tuple(
        tuple(_smallest([each.choices[place][option] for each in every]) for option in range(len(choice)))
        for place, choice in enumerate(every[0].choices)
    )
    return Needs(every[0].priority, min(each.created for each in every), choices)


def _smallest(every: Sequence[tuple[Amount, ...]]) -> tuple[Amount, ...]:
    least = dict(every[0])
    for amounts in every:
        for fr, number in amounts:
            least[fr] = min(least[fr], number)
    return tuple((fr, least[fr]) for fr, _ in every[0])


def _scarcest_first(amounts: tuple[Amount, ...], cq: ClusterQueueSnapshot) -> tuple[Amount, ...] | None:
    """None where the queue never has so much."""
    shares = {each: each[1] / max(1, cq.node.potential_available(each[0])) for each in amounts}
    if any(number > cq.node.potential_available(fr) for fr, number in amounts):
        return None
    return tuple(sorted(amounts, key=shares.__getitem__, reverse=True))


class FeasibilityFilter:
    """What is free in one tree of queues, and who could be evicted; remembered until it changes."""

    def __init__(self, cluster_queues: Iterable[ClusterQueueSnapshot]) -> None:
        """Looks at queues that others change: they say `forget`."""
        self._cluster_queues = {cq.spec.name: cq for cq in cluster_queues}
        self._free: dict[str, dict[FlavorResource, int]] = {name: {} for name in self._cluster_queues}
        self._users: dict[tuple[str, FlavorResource], dict[int, list[tuple[float, int]]]] = {}
        self._borrowing: dict[FlavorResource, set[str]] = {}
        self.changes = 0
        """Counts them."""
        self._changed: dict[str, int] = {}
        """The last change, by flavor."""
        self._refused: set[Hashable] = set()
        """Shapes."""

    def reject(self, shape: Hashable) -> None:
        """A workload was tried with all its flavors, and in vain: so are all of its shape until something changes."""
        self._refused.add(shape)

    def may_admit(self, cq: ClusterQueueSnapshot, shape: Hashable, needs: Needs) -> bool:
        """Whether a workload of this shape could be admitted now, as far as is known."""
        return shape not in self._refused and self.may_fit(cq, needs)

    def forget(self, queue: str, usage: Usage) -> None:
        """Somebody who uses this was admitted to a queue, or was told to go, or has gone."""
        self._refused.clear()
        for free in self._free.values():
            for fr in usage:
                free.pop(fr, None)
        self.changes += 1
        for fr in usage:
            self._users.pop((queue, fr), None)
            self._borrowing.pop(fr, None)
            self._changed[fr[0]] = self.changes

    def same(self, flavors: Iterable[str], since: int) -> bool:
        """Whether the use of these flavors has not changed since so many changes."""
        for name in flavors:  # noqa: SIM110 (this is where the time goes)
            if self._changed.get(name, 0) > since:
                return False
        return True

    def reserves(self, cq: ClusterQueueSnapshot, needs: Needs) -> int | None:
        """Whether a workload that could not be admitted may keep something free for itself all the same.

        Returns the lowest level at which it would borrow, 0 or 1, which is its place in the cycle; None where it keeps
        nothing.
        """
        if cq.spec.preemption.reclaim_within_cohort == "Any" or not all(needs.choices):
            return None
        borrows = any(
            all(any(cq.node.borrows_with(fr, number) for fr, number in amounts) for amounts in choice)
            for choice in needs.choices
        )
        return int(borrows)

    def may_fit(self, cq: ClusterQueueSnapshot, needs: Needs) -> bool:
        """Whether a workload with these needs could be admitted now, as it is or by evictions."""
        free = self._free[cq.spec.name]
        for choice in needs.choices:
            for amounts in choice:
                contested = []
                for fr, number in amounts:
                    there = free.get(fr)
                    if there is None:
                        there = free[fr] = cq.available(fr)
                    if number > there:
                        contested.append((fr, number, there))
                if not contested or self._may_evict(cq, needs, contested):
                    break
            else:
                return False
        return True

    def _may_evict(
        self, cq: ClusterQueueSnapshot, needs: Needs, contested: Sequence[tuple[FlavorResource, int, int]]
    ) -> bool:
        """Whether evictions could give so much, as fitsResourceQuota and classicalPreemptions have it.

        `contested`: what is wanted of one flavor, how much of it, and how much is free.
        """
        policy, node = cq.spec.preemption, cq.node
        others = policy.reclaim_within_cohort != "Never" and self._others_borrow(cq, needs, contested)
        within_nominal = policy.within_cluster_queue
        if not others and within_nominal == "Never":
            return False
        own = [0 if within_nominal == "Never" else self._evictable(cq, fr, needs) for fr, _, _ in contested]
        if policy.borrow_within_cohort or (node.parent is not None and node.parent.parent is not None):
            return others or any(own)
        # In a flat cohort, others give way only to what the queue has itself, and its own workloads for the rest.
        return all(
            number <= node.quota(fr).nominal
            and (number <= free + mine or (others and not node.borrows_with(fr, number - mine)))
            for (fr, number, free), mine in zip(contested, own, strict=True)
        )

    def _others_borrow(
        self, cq: ClusterQueueSnapshot, needs: Needs, contested: Sequence[tuple[FlavorResource, int, int]]
    ) -> bool:
        """Whether workloads that give way to this priority use what is contested, in queues that borrow of it.

        Of several kinds of pods, and of several groups, all that they need may be contested together.
        """
        wanted = [fr for fr, _, _ in contested]
        if len(needs.choices) > 1:
            wanted = [fr for choice in needs.choices for amounts in choice for fr, _ in amounts]
        reclaim = cq.spec.preemption.reclaim_within_cohort
        borrow = {name for fr in wanted for name in self._who_borrows(fr)} - {cq.spec.name}
        if reclaim == "Any":
            return bool(borrow)
        below = needs.priority + (reclaim != "LowerPriority")
        users = (self._users_of(self._cluster_queues[name], fr) for name in borrow for fr in wanted)
        return any(level < below for each in users for level in each)

    def _evictable(self, cq: ClusterQueueSnapshot, fr: FlavorResource, needs: Needs) -> int:
        """How much of it workloads use in a queue that give way to these needs."""
        newer = cq.spec.preemption.within_cluster_queue == "LowerOrNewerEqualPriority"
        used = 0
        for level, users in self._users_of(cq, fr).items():
            if level < needs.priority:
                used += sum(number for _, number in users)
            elif newer and level == needs.priority:
                used += sum(number for created, number in users if created > needs.created)
        return used

    def _users_of(self, cq: ClusterQueueSnapshot, fr: FlavorResource) -> dict[int, list[tuple[float, int]]]:
        """Who uses it in a queue, by priority: since when they wait or waited, and how much."""
        key = (cq.spec.name, fr)
        users = self._users.get(key)
        if users is None:
            users = self._users[key] = {}
            for each in cq.admitted.values():
                if fr in each.usage:
                    users.setdefault(each.workload.priority, []).append((each.workload.created, each.usage[fr]))
        return users

    def _who_borrows(self, fr: FlavorResource) -> set[str]:
        """The queues that use more of it than they have."""
        found = self._borrowing.get(fr)
        if found is None:
            found = self._borrowing[fr] = {
                name for name, cq in self._cluster_queues.items() if cq.node.borrows_with(fr)
            }
        return found
