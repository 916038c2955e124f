"""Owners of objects, and refusals of changes to other owners' objects. Pure.

A server-side apply would silently take over another owner's object of the same name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainstack.objects import labels
from trainstack.settings.model import Settings
from trainstack.settings.sections.objects import parse_object_names

Identity = tuple[str, str | None, str]
"""Kind, namespace (None for cluster-scoped objects) and name."""
_MAX_LISTED_NAMES = 5


def identity(manifest: Mapping[str, Any]) -> Identity:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace"), metadata["name"]


def format_identity(identity: Identity) -> str:
    """Format an identity for a message: `LocalQueue research/open`."""
    kind, namespace, name = identity
    return f"{kind} {f'{namespace}/' if namespace else ''}{name}"


def kubectl_arguments(identity: Identity) -> str:
    """Format an identity for a kubectl command: `localqueue open -n research`."""
    kind, namespace, name = identity
    return f"{kind.lower()} {name}" + (f" -n {namespace}" if namespace else "")


def format_names(names: Sequence[str], limit: int = _MAX_LISTED_NAMES) -> str:
    """Join the first `limit` names, and count the others: `a, b and 3 more`."""
    unlisted_count = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {unlisted_count} more" if unlisted_count > 0 else "")


def adopted_identities(settings: Settings) -> frozenset[Identity]:
    """Return the identities of the objects that the environment adopts, by `adopt: true` or `objects.adopt`."""
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
    identities: set[Identity] = {
        (kind, None, item.name) for kind, items in cluster_scoped for item in items if item.adopt
    }
    identities |= {(kind, item.namespace, item.name) for kind, items in namespaced for item in items if item.adopt}
    return frozenset(identities) | parse_object_names(settings.objects.adopt)


def owning_stack(live_labels: Mapping[str, str]) -> str | None:
    """Return the stack that declares an object, or the one that it is prepared for; None without either label."""
    return live_labels.get(labels.STACK) or live_labels.get(labels.PREPARED)


def adoption_notes(
    manifests: Iterable[Mapping[str, Any]],
    live_labels: Mapping[Identity, Mapping[str, str]],
    adopted_objects: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Return a note on each object that this change adopts, since the engine reports it as created."""
    existing_adopted = {identity(manifest) for manifest in manifests} & adopted_objects & live_labels.keys()
    new_adoptions = (key for key in existing_adopted if live_labels[key].get(labels.STACK) != stack)
    return tuple(
        sorted(
            f"{format_identity(key)} exists and is adopted (adopt: true); it is not re-created" for key in new_adoptions
        )
    )


def refusals(
    manifests: Iterable[Mapping[str, Any]],
    live_labels: Mapping[Identity, Mapping[str, str]],
    adopted_objects: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Return a refusal for each declared object that exists and has another owner, except for adopted ones.

    `live_labels`: the labels of the declared objects that exist.
    """
    messages = []
    for manifest in manifests:
        key = identity(manifest)
        owner_stack = owning_stack(live_labels[key]) if key in live_labels else stack
        if owner_stack == stack or key in adopted_objects:
            continue
        owner_clause = f"belongs to stack {owner_stack!r}" if owner_stack else "was created by another owner"
        messages.append(
            f"{format_identity(key)} exists and {owner_clause}; nothing was changed. Choose another name, remove it "
            f"from this environment, or {adoption_remedy(manifest)} to adopt it"
        )
    return tuple(sorted(messages))


def adoption_remedy(manifest: Mapping[str, Any]) -> str:
    """Return how the settings adopt an object: `set `adopt: true` on it`."""
    if labels.SECTION in (manifest["metadata"].get("labels") or {}):
        return f"list {format_identity(identity(manifest))!r} in `objects.adopt`"
    return "set `adopt: true` on it, if its settings have that key,"
