"""A change that may be a remedy."""

from dataclasses import dataclass

from trainstack.kueue.model import ClusterQueue
from trainstack.kueue.verdict import Change

ANOTHER_QUEUE, ANOTHER_POD, ANOTHER_RESOURCE = 0.0, 0.5, 1.0
"""Sizes of changes that do not change an amount."""


@dataclass(frozen=True, slots=True)
class RemedyCandidate:
    size: float
    """Of a changed amount: relative to what the workload requests."""
    text: str
    changes: tuple[Change, ...]
    queue: ClusterQueue | None = None
    """The cluster queue as its owner would change it; None: the environment's settings are changed."""
