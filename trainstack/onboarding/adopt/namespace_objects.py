"""The live objects of a namespace, and the objects that they refer to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Body = Mapping[str, Any]
"""A live object."""


@dataclass(frozen=True, kw_only=True)
class InstalledOperator:
    """An operator in the cluster."""

    name: str
    namespace: str
    version: str
    """The tag of its image."""


@dataclass(frozen=True, kw_only=True)
class NamespaceObjects:
    """The live objects from which `trainstack adopt` derives settings."""

    namespace: str
    claims: tuple[Body, ...] = ()
    foreign_claims: tuple[Body, ...] | None = ()
    """The claims of all other namespaces, which may share a storage class; None if unknown."""
    persistent_volumes: tuple[Body, ...] = ()
    """All PersistentVolumes of the cluster. The fields of the other cluster-scoped kinds have all objects, too."""
    classes: tuple[Body, ...] = ()
    local_queues: tuple[Body, ...] = ()
    cluster_queues: tuple[Body, ...] = ()
    flavors: tuple[Body, ...] = ()
    cohorts: tuple[Body, ...] = ()
    topologies: tuple[Body, ...] = ()
    admission_checks: tuple[Body, ...] = ()
    provisioning_request_configs: tuple[Body, ...] = ()
    multi_kueue_clusters: tuple[Body, ...] = ()
    multi_kueue_configs: tuple[Body, ...] = ()
    priority_classes: tuple[Body, ...] = ()
    operators: tuple[InstalledOperator, ...] = ()
    read_failures: tuple[str, ...] = field(default=())
    """Messages about lists that the user may not read, and unsupported API versions."""
