"""The verdict on a run before it is submitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainstack.kueue.flavor_assigner import Assignment
from trainstack.kueue.model import FlavorResource, Usage

Outcome = Literal["fits", "fits by borrowing", "fits by preempting", "waits", "never fits", "unknown"]
"""From the best to the worst.

- `fits`: the queue's own quota is sufficient and available;
- `fits by borrowing`: with quota that the cohort lends;
- `fits by preempting`: after the listed workloads are preempted;
- `waits`: it fits on an idle cluster, but the quota is in use or the queue is stopped;
- `never fits`: it does not fit on an idle cluster either, until a setting is changed;
- `unknown`: an object that the verdict depends on is not readable, or something that is set is not calculated here.
"""

Cause = Literal[
    "quota",
    "overflow",
    "uncovered",
    "taint",
    "affinity",
    "unreadable-affinity",
    "topology",
    "topology-level",
    "topology-missing",
    "placement",
    "dispatched",
    "flavor-missing",
    "queue-missing",
    "cluster-queue-missing",
    "queue-stopped",
    "queue-closed",
    "check-inactive",
    "queue-inactive",
    "cohort-cycle",
    "pod-refused",
    "pod-sets",
    "namespace-unmanaged",
    "not-ready",
    "blocked",
    "backoff",
    "check-failed",
    "check-retry",
    "in-use",
    "shape",
    "unread",
    "unmodelled",
]


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of a topology, with the pods that are placed in it."""

    levels: tuple[str, ...]
    """Labels of nodes, the widest first."""
    values: tuple[str, ...]
    """Their values."""
    count: int


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    """The admission of one pod set."""

    pod_set: str
    count: int
    """Fewer than requested with partial admission."""
    flavors: Mapping[str, str]
    """By resource."""
    domains: tuple[Domain, ...] = ()
    """Where the pods are placed in the flavor's topology; empty if it has none."""


def pod_set_admissions(assignment: Assignment) -> tuple[PodSetAdmission, ...]:
    return tuple(
        PodSetAdmission(
            pods.name,
            pods.count,
            {resource: flavor_assignment.flavor for resource, flavor_assignment in pods.flavors.items()},
        )
        for pods in assignment.pod_sets
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run is not admitted, or not yet."""

    cause: Cause
    message: str
    """Without a full stop: what is missing or wrong, where, and how much is available."""
    path: str
    """The setting that requests it, or the queue's setting (on a live cluster its field) that is wrong."""
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    missing: int = 0
    """Amount of `resource`; 0 if the cause is not an amount."""
    quota_path: str = ""
    """The setting (on a live cluster the field) of the insufficient quota."""


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    """Of a setting, or of a field of a cluster queue that the environment does not declare."""
    before: Any
    """The value as in the files, with tuples for lists; None: the files do not set it."""
    after: Any
    """None: the setting is removed."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which the run fits, as the same calculation has shown after all of them were made."""

    text: str
    """In the imperative: `raise nominalQuota of nvidia.com/gpu on a100 in cluster queue lab from 4 to 6`."""
    changes: tuple[Change, ...]
    outcome: Outcome
    """Of the run alone on an idle cluster: `fits` or `fits by borrowing`."""
    changes_in: Literal["settings", "cluster"] = "settings"
    """`cluster`: the owner of a cluster queue makes them, which the environment does not declare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    name: str
    namespace: str
    queue: str
    path: str
    """The run's path in the settings; empty for a workload that the environment does not declare."""
    cluster_queue: str
    """Empty if unknown."""
    outcome: Outcome
    assigned: tuple[PodSetAdmission, ...] = ()
    """By pod set, if the outcome begins with `fits`."""
    usage: Usage = field(default_factory=dict)
    borrowed: Mapping[FlavorResource, int] = field(default_factory=dict)
    """The part of the usage above the queue's own quota."""
    preempts: tuple[str, ...] = ()
    """The preempted workloads, `<namespace>/<name>`."""
    checks: tuple[str, ...] = ()
    """Admission checks that remain to be passed."""
    reasons: tuple[Reason, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    """At most three, the smallest change first; empty if the run fits."""
    source: Literal["files", "cluster"] = "files"
    """What the verdict was calculated from: the files alone, or also the objects of the cluster."""
    release: str = ""
    """The release of Kueue that admits the run, such as `v0.20.7`; empty if unknown."""
    rules: str = ""
    """The minor release by whose rules the verdict was calculated, such as `v0.19`; empty for the rules that all
    modeled releases share, for the code of the release, and without calculation."""
    not_compared: str = ""
    """What the rules were not compared with: `v0.20`, or `v0.17 after v0.17.8`; empty if they were with the release."""
    judged_by: str = ""
    """`Kueue v0.15.2` if the verdict is from that release's own code; empty for the simulator's."""
    assumes_defaults: bool = False
    """Whether it assumes the defaults of Kueue's Configuration, which could not be read."""

    @property
    def fits(self) -> bool:
        return self.outcome.startswith("fits")
