"""Whose objects are they? Server-side apply would take over whatever bears the name, without a word.

Pure: from the manifests to be declared and the live objects' labels to refusals.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainstack.objects import labels
from trainstack.settings.model import Settings

Identity = tuple[str, str | None, str]
"""Kind, namespace (None where there is none) and name."""
_MAX_LISTED = 5


def identity(manifest: Mapping[str, Any]) -> Identity:
    """What an object is called."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace"), metadata["name"]


def shown(who: Identity) -> str:
    """An object's name for people: `LocalQueue research/open`."""
    kind, namespace, name = who
    return f"{kind} {f'{namespace}/' if namespace else ''}{name}"


def listed(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def adoptions(settings: Settings) -> frozenset[Identity]:
    """The objects that the environment takes over by `adopt: true`."""
    storage, queues = settings.storage, settings.queues
    cluster_wide = (
        ("Namespace", settings.environment.namespaces),
        ("StorageClass", storage.classes),
        ("PersistentVolume", storage.persistent_volumes),
        ("ResourceFlavor", queues.flavors),
        ("Cohort", queues.cohorts),
        ("ClusterQueue", queues.cluster_queues),
        ("WorkloadPriorityClass", queues.priority_classes),
    )
    namespaced = (("PersistentVolumeClaim", storage.volumes), ("LocalQueue", queues.local_queues))
    taken: set[Identity] = {(kind, None, each.name) for kind, several in cluster_wide for each in several if each.adopt}
    taken |= {(kind, each.namespace, each.name) for kind, several in namespaced for each in several if each.adopt}
    return frozenset(taken)


def owner(marks: Mapping[str, str]) -> str | None:
    """The stack that an object's labels name: the one that declares it, or else the one it is prepared for."""
    return marks.get(labels.STACK) or marks.get(labels.PREPARED)


def taken_over(
    manifests: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, str]],
    adopted: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Name every object that this change takes over, which the engine calls created."""
    found = []
    for manifest in manifests:
        who = identity(manifest)
        if who in adopted and who in live and live[who].get(labels.STACK) != stack:
            found.append(f"{shown(who)} is there already and is taken over (adopt: true): the same object stays")
    return tuple(sorted(found))


def refusals(
    manifests: Iterable[Mapping[str, Any]],
    live: Mapping[Identity, Mapping[str, str]],
    adopted: frozenset[Identity],
    stack: str,
) -> tuple[str, ...]:
    """Name every object that is there already and is not this stack's.

    Args:
        manifests: what the stack would declare.
        live: the labels of those of them that exist.
        adopted: those that it may take over.
        stack: this stack.

    """
    found = []
    for manifest in manifests:
        who = identity(manifest)
        mark = owner(live[who]) if who in live else stack
        if mark == stack or who in adopted:
            continue
        whose = f"belongs to stack {mark!r}" if mark else "was made by somebody else"
        found.append(
            f"{shown(who)} exists and {whose}; it is left as it is. Choose another name, remove it from this "
            "environment, or set `adopt: true` on it where the settings have that word, to take it over"
        )
    return tuple(sorted(found))
