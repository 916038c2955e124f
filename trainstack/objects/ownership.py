"""Owners of objects, and refusals of changes to other owners' objects. Pure.

A server-side apply would silently take over another owner's object of the same name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainstack.objects import labels
from trainstack.settings.model import Settings

Identity = tuple[str, str | None, str]
"""Kind, namespace (None for cluster-scoped objects) and name."""
_MAX_LISTED = 5


def identity(manifest: Mapping[str, Any]) -> Identity:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace"), metadata["name"]


def shown(identity: Identity) -> str:
    """Format an identity for a message: `LocalQueue research/open`."""
    kind, namespace, name = identity
    return f"{kind} {f'{namespace}/' if namespace else ''}{name}"


def kubectl_arguments(identity: Identity) -> str:
    """Format an identity for a kubectl command: `localqueue open -n research`."""
    kind, namespace, name = identity
    return f"{kind.lower()} {name}" + (f" -n {namespace}" if namespace else "")


def listed(names: Sequence[str], most: int = _MAX_LISTED) -> str:
    """Join the first `limit` names, and count the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def adoptions(settings: Settings) -> frozenset[Identity]:
    """Return the identities of the objects that the environment adopts (`adopt: true`)."""
    storage, queues = settings.storage, settings.queues
    cluster_scoped = (
        ("Namespace", settings.environment.namespaces),
        ("StorageClass", storage.classes),
        ("PersistentVolume", storage.persistent_volumes),
        ("ResourceFlavor", queues.flavors),
        ("Cohort", queues.cohorts),
        ("ClusterQueue", queues.cluster_queues),
        ("WorkloadPriorityClass", queues.priority_classes),
        ("Topology", queues.topologies),
        ("AdmissionCheck", queues.admission_checks),
        ("ProvisioningRequestConfig", queues.provisioning_request_configs),
        ("MultiKueueCluster", queues.multi_kueue_clusters),
        ("MultiKueueConfig", queues.multi_kueue_configs),
    )
    namespaced = (("PersistentVolumeClaim", storage.volumes), ("LocalQueue", queues.local_queues))
    adopted: set[Identity] = {(kind, None, item.name) for kind, items in cluster_scoped for item in items if item.adopt}
    adopted |= {(kind, item.namespace, item.name) for kind, items in namespaced for item in items if item.adopt}
    return frozenset(adopted)


def owner(live_labels: Mapping[str, str]) -> str | None:
    """Return the stack that declares an object, or the one that it is prepared for; None without either label."""
    return live_labels.get(labels.STACK) or live_labels.get(labels.PREPARED)


def taken_over(
    manifests: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, str]],
    adopted: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Return a note on each object that this change adopts, since the engine reports it as created."""
    keys = {identity(manifest) for manifest in manifests} & adopted & live.keys()
    adoptions = (key for key in keys if live[key].get(labels.STACK) != stack)
    return tuple(sorted(f"{shown(key)} exists and is adopted (adopt: true); it is not re-created" for key in adoptions))


def refusals(
    manifests: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, str]],
    adopted: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Return a refusal for each declared object that exists and has another owner, except for adopted ones.

    `live_labels`: the labels of the declared objects that exist.
    """
    found = []
    for manifest in manifests:
        key = identity(manifest)
        mark = owner(live[key]) if key in live else stack
        if mark == stack or key in adopted:
            continue
        whose = f"belongs to stack {mark!r}" if mark else "was created by another owner"
        found.append(
            f"{shown(key)} exists and {whose}; nothing was changed. Choose another name, remove it from this "
            "environment, or set `adopt: true` on it, if its settings have that key, to adopt it"
        )
    return tuple(sorted(found))
