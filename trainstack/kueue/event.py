"""Events of workloads in their queues."""

from dataclasses import dataclass, field
from typing import Literal

from trainstack.kueue.model import Usage
from trainstack.kueue.verdict import Assigned


class UnsettledError(Exception):
    """Workloads preempt each other in a cycle, as they would in Kueue."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["admitted", "evicted"]
    key: str
    """The workload's `<namespace>/<name>`."""
    at: float
    """Seconds."""
    cluster_queue: str
    assigned: tuple[Assigned, ...] = ()
    usage: Usage = field(default_factory=dict)
    by: str = ""
    """The preempting workload."""
