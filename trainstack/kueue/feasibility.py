"""A cheap check, before an attempt, whether a workload could be admitted.

It may let a workload pass whose attempt then fails, but never rejects one whose attempt would succeed. Most pending
workloads wait for one exhausted resource; the check finds that at a hundredth of an attempt's cost.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainstack.kueue.model import FlavorResource, PodSet, Usage, Workload
from trainstack.kueue.node_affinity import find_untolerated_taint, suits
from trainstack.kueue.snapshot import GroupFlavors, QueueSnapshot

Amount = tuple[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Needs:
    """The minimum that must be available to admit a workload."""

    priority: int
    created: float
    choices: tuple[tuple[tuple[Amount, ...], ...], ...]
    """For each pod set and resource group the amounts on each possible flavor, one of which must be available. Flavors
    without enough potential quota are left out; with an empty entry the workload is never admitted."""
    shares_flavors: bool = False
    """Whether several pod sets choose among the same flavors: their attempts may repeat without end."""

    @property
    def flavors(self) -> tuple[str, ...]:
        return tuple(sorted({fr[0] for choice in self.choices for amounts in choice for fr, _ in amounts}))


def needs_of(workload: Workload, cq: QueueSnapshot) -> Needs:
    choices = tuple(choice for pods in workload.pod_sets for choice in _choices(pods, cq))
    users = Counter(
        group
        for pods in workload.pod_sets
        for group in {cq.group_of[name] for name in (*pods.requests, "pods") if name in cq.group_of}
        if pods.count and len(group.names) > 1
    )
    shares_flavors = any(count > 1 for count in users.values())
    return Needs(workload.priority, workload.created, choices, shares_flavors)


def refused_needs(workload: Workload) -> Needs:
    """Return the needs of a workload that Kueue refuses whatever quota is available."""
    return Needs(workload.priority, workload.created, ((),))


def _choices(pods: PodSet, cq: QueueSnapshot) -> Iterator[tuple[tuple[Amount, ...], ...]]:
    count = pods.count if pods.min_count is None else max(0, min(pods.min_count, pods.count))
    requests: Mapping[str, int] = {name: number * count for name, number in pods.per_pod.items()}
    if "pods" in cq.group_of:
        requests = {**requests, "pods": count}
    groups: dict[int, tuple[GroupFlavors, list[str]]] = {}
    for resource, number in requests.items():
        if cq.ignores(resource, number):
            continue
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
            and find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations)) is None
            and suits(pods.selector, pods.affinity, flavor.labels, group.compared_keys(flavor))
        )
        yield tuple(
            ordered_amounts for amounts in flavors if (ordered_amounts := _order_by_scarcity(amounts, cq)) is not None
        )


def kind_of(needs: Needs) -> Hashable:
    """Return a key that is equal for needs that differ only in amounts and creation time."""
    choices = tuple(tuple(frozenset(fr for fr, _ in amounts) for amounts in choice) for choice in needs.choices)
    return needs.priority, needs.shares_flavors, choices


def minimum_needs(needs: Sequence[Needs]) -> Needs:
    """Return the minimum of needs of one kind: if it is not admissible, none of them is."""
    first = needs[0]
    if len(needs) == 1:
        return first
    choices = tuple(
        tuple(_smallest([need.choices[index][option] for need in needs]) for option in range(len(choice)))
        for index, choice in enumerate(first.choices)
    )
    return Needs(first.priority, min(need.created for need in needs), choices, first.shares_flavors)


def _smallest(alternatives: Sequence[tuple[Amount, ...]]) -> tuple[Amount, ...]:
    smallest = dict(alternatives[0])
    for amounts in alternatives:
        for fr, number in amounts:
            smallest[fr] = min(smallest[fr], number)
    return tuple((fr, smallest[fr]) for fr, _ in alternatives[0])


def _order_by_scarcity(amounts: tuple[Amount, ...], cq: QueueSnapshot) -> tuple[Amount, ...] | None:
    """Sort the amounts; None if the queue never has enough quota."""
    if any(number > cq.node.potential_available(fr) for fr, number in amounts):
        return None
    shares = {amount: amount[1] / max(1, cq.node.potential_available(amount[0])) for amount in amounts}
    return tuple(sorted(amounts, key=shares.__getitem__, reverse=True))


class FeasibilityFilter:
    """The available and preemptible quota of one cohort tree, cached until `invalidate`."""

    def __init__(self, cluster_queues: Iterable[QueueSnapshot]) -> None:
        self._cluster_queues = {cq.spec.name: cq for cq in cluster_queues}
        self._free: dict[str, dict[FlavorResource, int]] = {name: {} for name in self._cluster_queues}
        self._users: dict[tuple[str, FlavorResource], dict[int, list[tuple[float, int]]]] = {}
        self._borrowing: dict[FlavorResource, set[str]] = {}
        self.changes = 0
        """The number of invalidations."""
        self._last_changes: dict[str, int] = {}
        """The last change by flavor."""
        self._inadmissible_shapes: set[Hashable] = set()
        """Shapes whose attempt failed since the last change."""

    def reject(self, shape: Hashable) -> None:
        """Record that an attempt with all flavors failed; it fails for the whole shape until the usage changes."""
        self._inadmissible_shapes.add(shape)

    def may_admit(self, cq: QueueSnapshot, shape: Hashable, needs: Needs) -> bool:
        """Whether an attempt could succeed, or be repeated without end, which keeps the workload at the head."""
        return shape not in self._inadmissible_shapes and self.needs_attempt(cq, needs)

    def needs_attempt(self, cq: QueueSnapshot, needs: Needs) -> bool:
        """Whether an attempt could succeed or be repeated without end.

        It is repeated only if two pod sets fit by themselves and keep each other from trying their last flavor at once.
        """
        if not needs.shares_flavors:
            return self.may_fit(cq, needs)
        return sum(self._has_flavor(cq, needs, choice) for choice in needs.choices) > 1

    def invalidate(self, queue: str, usage: Usage) -> None:
        """Record that a workload with this usage was admitted, evicted or finished."""
        self._inadmissible_shapes.clear()
        for free in self._free.values():
            for fr in usage:
                free.pop(fr, None)
        self.changes += 1
        for fr in usage:
            self._users.pop((queue, fr), None)
            self._borrowing.pop(fr, None)
            self._last_changes[fr[0]] = self.changes

    def is_unchanged(self, flavors: Iterable[str], since: int) -> bool:
        for name in flavors:  # noqa: SIM110 (a hot path: `all` with a generator is slower)
            if self._last_changes.get(name, 0) > since:
                return False
        return True

    def reserving_level(self, cq: QueueSnapshot, needs: Needs) -> int | None:
        """Return the lowest borrowing level at which an inadmissible workload could still reserve quota in its cycle.

        0 without borrowing, otherwise 1; None if it reserves nothing.
        """
        if cq.spec.preemption.reclaim_within_cohort == "Any" or not all(needs.choices):
            return None
        borrows = any(
            all(any(cq.node.borrows_with(fr, number) for fr, number in amounts) for amounts in choice)
            for choice in needs.choices
        )
        return int(borrows)

    def may_fit(self, cq: QueueSnapshot, needs: Needs) -> bool:
        """Whether the needs could be met now, with or without preemption."""
        return all(self._has_flavor(cq, needs, choice) for choice in needs.choices)

    def _has_flavor(self, cq: QueueSnapshot, needs: Needs, choice: Iterable[Iterable[Amount]]) -> bool:
        free = self._free[cq.spec.name]
        for amounts in choice:
            contested = []
            for fr, number in amounts:
                available = free.get(fr)
                if available is None:
                    available = free[fr] = cq.available(fr)
                if number > available:
                    contested.append((fr, number, available))
            if not contested or self._may_preempt(cq, needs, contested):
                return True
        return False

    def _may_preempt(
        self, cq: QueueSnapshot, needs: Needs, contested: Sequence[tuple[FlavorResource, int, int]]
    ) -> bool:
        """Whether preemption could free enough, by the rules of fitsResourceQuota, classicalPreemptions and
        fairPreemptions.

        `contested`: the requested and the available amount by flavor and resource.
        """
        policy, node = cq.spec.preemption, cq.node
        others_borrow = policy.reclaim_within_cohort != "Never" and self._others_borrow(cq, needs, contested)
        policy_within_queue = policy.within_cluster_queue
        if not others_borrow and policy_within_queue == "Never":
            return False
        preemptible = [
            0 if policy_within_queue == "Never" else self._preemptible(cq, fr, needs) for fr, _, _ in contested
        ]
        if cq.preempts_while_borrowing or (node.parent is not None and node.parent.parent is not None):
            return others_borrow or any(preemptible)
        # In a flat cohort, reclaiming restores at most the nominal quota; the rest must be preempted within the queue.
        return all(
            number <= node.quota(fr).nominal
            and (
                number <= free + preemptible_number
                or (others_borrow and not node.borrows_with(fr, number - preemptible_number))
            )
            for (fr, number, free), preemptible_number in zip(contested, preemptible, strict=True)
        )

    def _others_borrow(
        self, cq: QueueSnapshot, needs: Needs, contested: Sequence[tuple[FlavorResource, int, int]]
    ) -> bool:
        """Whether borrowing queues have workloads that this priority may reclaim from.

        With several pod sets or resource groups, all that they need may be contested together.
        """
        frs = [fr for fr, _, _ in contested]
        if len(needs.choices) > 1:
            frs = [fr for choice in needs.choices for amounts in choice for fr, _ in amounts]
        reclaim = cq.spec.preemption.reclaim_within_cohort
        borrowing = {name for fr in frs for name in self._borrowing_queues(fr)} - {cq.spec.name}
        if reclaim == "Any":
            return bool(borrowing)
        priority_limit = needs.priority + (reclaim != "LowerPriority")
        users = (self._users_of(self._cluster_queues[name], fr) for name in borrowing for fr in frs)
        return any(priority < priority_limit for by_priority in users for priority in by_priority)

    def _preemptible(self, cq: QueueSnapshot, fr: FlavorResource, needs: Needs) -> int:
        """Return how much the workload may free by preemption within its cluster queue."""
        newer = cq.spec.preemption.within_cluster_queue == "LowerOrNewerEqualPriority"
        preemptible = 0
        for priority, users in self._users_of(cq, fr).items():
            if priority < needs.priority:
                preemptible += sum(number for _, number in users)
            elif newer and priority == needs.priority:
                preemptible += sum(number for created, number in users if created > needs.created)
        return preemptible

    def _users_of(self, cq: QueueSnapshot, fr: FlavorResource) -> dict[int, list[tuple[float, int]]]:
        """Return the creation time and amount of a queue's admitted workloads, by priority."""
        key = (cq.spec.name, fr)
        users = self._users.get(key)
        if users is None:
            users = self._users[key] = {}
            for admitted in cq.admitted.values():
                if fr in admitted.usage:
                    users.setdefault(admitted.workload.priority, []).append(
                        (admitted.workload.created, admitted.usage[fr])
                    )
        return users

    def _borrowing_queues(self, fr: FlavorResource) -> set[str]:
        queue_names = self._borrowing.get(fr)
        if queue_names is None:
            snapshots = self._cluster_queues.items()
            queue_names = self._borrowing[fr] = {name for name, cq in snapshots if cq.node.borrows_with(fr)}
        return queue_names
