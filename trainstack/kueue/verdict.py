"""What is said of a run before it is submitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainstack.kueue.flavor_assigner import Assignment
from trainstack.kueue.model import FlavorResource, Usage

Outcome = Literal["fits", "fits by borrowing", "fits by preempting", "waits", "never fits", "unknown"]
"""From the best to the worst.

- `fits`: quota of its own queue is enough and free;
- `fits by borrowing`: with what its cohort lends;
- `fits by preempting`: once the workloads that the verdict names have given way;
- `waits`: it would fit on an idle cluster, but others use the quota, or the queue is on hold;
- `never fits`: not on an idle cluster either, until something is changed;
- `unknown`: what it depends on may not be read here.
"""

Cause = Literal[
    "quota",
    "uncovered",
    "taint",
    "affinity",
    "topology",
    "flavor-missing",
    "queue-missing",
    "cluster-queue-missing",
    "queue-stopped",
    "queue-closed",
    "check-inactive",
    "queue-inactive",
    "cohort-cycle",
    "pod-refused",
    "in-use",
    "shape",
    "unread",
]


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a pod set gets."""

    pod_set: str
    count: int
    """Fewer than it asks for, where the workload allows that."""
    flavors: Mapping[str, str]
    """By resource."""


def assigned(assignment: Assignment) -> tuple[Assigned, ...]:
    """What an assignment gives to each pod set."""
    return tuple(
        Assigned(each.name, each.count, {resource: given.flavor for resource, given in each.given.items()})
        for each in assignment.placed
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a run is not admitted, or not yet."""

    cause: Cause
    message: str
    """For people, without a full stop: what is missing, of what, and how much there is."""
    path: str
    """The setting that asks for it; of what is wrong with a queue, the queue's setting (or its live object's field)."""
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    missing: int = 0
    """Of `resource`, in the model's integers; 0 where it is no amount that is missing."""
    quota_path: str = ""
    """The setting (or the live object's field) of the quota that is too little."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that would be another."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would make the run fit; tried, and it did."""

    text: str
    """In the imperative: `raise nominalQuota of nvidia.com/gpu on a100 in cluster queue lab from 4 to 6`."""
    changes: tuple[Change, ...]
    outcome: Outcome
    """The verdict with the change: `fits`, or `fits by borrowing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one run."""

    name: str
    namespace: str
    queue: str
    path: str
    """Of the run in the settings; empty for what is no run of this environment."""
    cluster_queue: str
    """Empty where it is not known."""
    outcome: Outcome
    assigned: tuple[Assigned, ...] = ()
    """By pod set, where the outcome begins with `fits`."""
    usage: Usage = field(default_factory=dict)
    """What it would take."""
    borrowed: Mapping[FlavorResource, int] = field(default_factory=dict)
    """How much of that is above the queue's own quota."""
    preempts: tuple[str, ...] = ()
    """The workloads that would have to go, `<namespace>/<name>`."""
    checks: tuple[str, ...] = ()
    """Admission checks that it would still have to pass."""
    reasons: tuple[Reason, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    """The nearest first, at most three; none for what fits."""

    @property
    def fits(self) -> bool:
        """Whether it would be admitted, at whatever price to others."""
        return self.outcome.startswith("fits")
