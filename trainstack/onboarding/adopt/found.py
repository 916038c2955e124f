"""What a cluster holds of a namespace, as it was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Body = Mapping[str, Any]
"""A live object, whole."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A controller that somebody has installed."""

    name: str
    namespace: str
    version: str
    """The tag of its image."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A namespace's volumes and queues, with everything that they stand on."""

    namespace: str
    claims: tuple[Body, ...] = ()
    foreign_claims: tuple[Body, ...] | None = ()
    """The claims of all other namespaces: a class that they use too is not this namespace's alone. None: not known."""
    persistent_volumes: tuple[Body, ...] = ()
    """All of the cluster."""
    classes: tuple[Body, ...] = ()
    local_queues: tuple[Body, ...] = ()
    cluster_queues: tuple[Body, ...] = ()
    """All of the cluster, as flavors, cohorts and priority classes are."""
    flavors: tuple[Body, ...] = ()
    cohorts: tuple[Body, ...] = ()
    priority_classes: tuple[Body, ...] = ()
    operators: tuple[Operator, ...] = ()
    unreadable: tuple[str, ...] = field(default=())
    """What may not be read, or is served in a version that is not ours, each as a sentence."""
