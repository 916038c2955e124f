"""The common part of classical preemption and fair sharing: the preemptor, its candidates, and whether it fits.

Source: pkg/scheduler/preemption/preemption.go and common/ of Kueue v0.15.2.
"""

from collections.abc import Collection
from dataclasses import dataclass

from trainstack.kueue.model import AdmittedWorkload, FlavorResource, Policy, Usage, Workload
from trainstack.kueue.snapshot import QueueSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class PreemptionContext:
    workload: Workload
    cq: QueueSnapshot
    contested_resources: Collection[FlavorResource]
    """The resources to free by preemption."""
    usage: Usage
    """The whole usage of the workload."""

    def may_preempt(self, candidate: AdmittedWorkload, policy: Policy) -> bool:
        """Source: SatisfiesPreemptionPolicy and WorkloadUsesResources."""
        preemptor, victim = self.workload, candidate.workload
        lower = preemptor.priority > victim.priority
        newer = preemptor.priority == victim.priority and preemptor.created < victim.created
        if policy == "Any" or lower or (newer and policy == "LowerOrNewerEqualPriority"):
            return not candidate.usage.keys().isdisjoint(self.contested_resources)
        return False

    def fits(self, *, borrowing: bool) -> bool:
        """Source: workloadFits."""
        node = self.cq.node
        return not any(
            (not borrowing and node.borrows_with(fr, number)) or number > self.cq.available(fr)
            for fr, number in self.usage.items()
        )

    def fill_back(
        self, snapshot: Snapshot, targets: list[AdmittedWorkload], *, borrowing: bool
    ) -> list[AdmittedWorkload]:
        """Add removed workloads back, latest first, while the preemptor still fits; return the others.

        Source: fillBackWorkloads.
        """
        remaining_targets = list(targets)
        for index in range(len(remaining_targets) - 2, -1, -1):
            snapshot.add(remaining_targets[index])
            if self.fits(borrowing=borrowing):
                remaining_targets[index] = remaining_targets[-1]
                remaining_targets.pop()
            else:
                snapshot.remove(remaining_targets[index])
        return remaining_targets


def preemption_order(candidate: AdmittedWorkload, group: int) -> tuple[bool, int, int, float, str, str]:
    """Return the order of a candidate: evicted workloads first, then by group, priority, latest reservation and UID.

    Source: CandidatesOrdering.
    """
    workload = candidate.workload
    # The key orders workloads that have no UID yet.
    return not candidate.is_evicted, group, workload.priority, -candidate.reserved_at, workload.uid, workload.key
