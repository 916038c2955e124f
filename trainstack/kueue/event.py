"""What happens to workloads in their queues."""

from dataclasses import dataclass, field
from typing import Literal

from trainstack.kueue.model import Usage
from trainstack.kueue.verdict import Assigned


class UnsettledError(Exception):
    """Workloads evict each other in a circle, as Kueue then has them do; says which."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a workload."""

    kind: Literal["admitted", "evicted"]
    key: str
    """The workload's, `<namespace>/<name>`."""
    at: float
    """Seconds."""
    cluster_queue: str
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    by: str = ""
    """The workload that an evicted one makes way for."""
