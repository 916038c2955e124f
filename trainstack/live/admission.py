"""Reads of the objects that an admission depends on: Kueue's objects, Workloads, nodes and priority classes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from trainstack.live import paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, PAGE_SIZE, Api, ClusterError, get_list
from trainstack.live.snapshot import run_namespaces
from trainstack.platform import queues
from trainstack.settings.model import Settings

Body = Mapping[str, Any]
ObjectsByKind = Mapping[str, tuple[Body, ...] | None]
CLUSTER_WIDE: Mapping[str, str] = {
    "AdmissionCheck": queues.API_VERSION,
    "ClusterQueue": queues.API_VERSION,
    "Cohort": queues.API_VERSION,
    "Namespace": "v1",
    "Node": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "ResourceFlavor": queues.API_VERSION,
    "RuntimeClass": "node.k8s.io/v1",
    "WorkloadPriorityClass": queues.API_VERSION,
}
"""The API versions of cluster-scoped kinds. A tenant's profile has no right to read them."""
TOPOLOGY = {"Topology": queues.API_VERSION}
"""A further kind of CLUSTER_WIDE, which is read only if a flavor has a Topology."""
NAMESPACED: Mapping[str, str] = {
    "LimitRange": "v1",
    "LocalQueue": queues.API_VERSION,
    "Workload": queues.API_VERSION,
}
"""The API versions of namespaced kinds."""
_BOUND_PODS_SELECTOR = f"&fieldSelector={quote('spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed')}"
"""The field selector of pods that use the resources of a node."""
_AUTOSCALER_NAMES = ("cluster-autoscaler", "karpenter")


async def read_admission_objects(api: Api, settings: Settings) -> ObjectsByKind:
    """Return the objects that an admission depends on, by kind; None for a kind that was not read.

    For a tenant's profile, only namespaced kinds in its namespaces are read. Raises ClusterError.
    """
    version_and_namespaces_by_kind: dict[str, tuple[str, Sequence[str | None]]] = {
        kind: (version, run_namespaces(settings)) for kind, version in NAMESPACED.items()
    }
    if settings.environment.profile == "owner":
        version_and_namespaces_by_kind |= {kind: (version, (None,)) for kind, version in CLUSTER_WIDE.items()}
    object_lists = await asyncio.gather(
        *(
            _read_all(api, kind, *version_and_namespaces)
            for kind, version_and_namespaces in version_and_namespaces_by_kind.items()
        )
    )
    return {**dict.fromkeys(CLUSTER_WIDE), **dict(zip(version_and_namespaces_by_kind, object_lists, strict=True))}


def declares_topologies(settings: Settings) -> bool:
    return any(flavor.topology for flavor in settings.queues.flavors)


async def read_topologies(
    api: Api, objects: ObjectsByKind, settings: Settings
) -> tuple[ObjectsByKind, tuple[Body, ...] | None]:
    """Return the objects with the Topologies added, and the pods on nodes, if a live or declared flavor has a Topology.

    Otherwise, and for a tenant's profile, return the objects unchanged, and None. Raises ClusterError.
    """
    has_topology = any((body.get("spec") or {}).get("topologyName") for body in objects.get("ResourceFlavor") or ())
    if settings.environment.profile != "owner" or not (has_topology or declares_topologies(settings)):
        return objects, None
    topologies, pods = await asyncio.gather(
        _read_all(api, "Topology", queues.API_VERSION, (None,)),
        _read_all(api, "Pod", "v1", (None,), _BOUND_PODS_SELECTOR),
    )
    return {**objects, "Topology": topologies}, pods


def has_node_autoscaler(deployments: Sequence[Body]) -> bool:
    """Return whether a node autoscaler is among the Deployments. The cluster may then get other nodes."""
    return any(body["metadata"]["name"].startswith(_AUTOSCALER_NAMES) for body in deployments)


async def _read_all(
    api: Api, kind: str, version: str, namespaces: Sequence[str | None], selector: str = ""
) -> tuple[Body, ...] | None:
    """Return all objects of a kind: () if it is not served, None if the user may not read it."""
    bodies: list[Body] = []
    for namespace in namespaces:
        path = paths.collection_path(version, kind, namespace)
        # By default, Kueue retains finished Workloads, so there may be thousands.
        answer = await get_list(api, f"{path}?limit={PAGE_SIZE}{selector}")
        if answer.status == FORBIDDEN:
            return None
        if not answer.is_success and answer.status != NOT_FOUND:
            raise ClusterError(f"the cluster answered {answer.status} to list {path}; try again")
        bodies += answer.items(version, kind)
    return tuple(bodies)
