"""Changes of objects since the engine recorded them: without any, an `up` requires no refresh. Pure."""

from collections.abc import Mapping
from typing import Any

from trainstack.lifecycle.recovery.state import EngineState, RecordedObject
from trainstack.objects.launch_kinds import STANDARD_LAUNCH_KINDS
from trainstack.objects.ownership import Identity

_WITH_GENERATION = frozenset(
    ("AdmissionCheck", "ClusterQueue", "Cohort", "CustomResourceDefinition", "Deployment", "LocalQueue")
) | {"CronJob", "DaemonSet", "MultiKueueCluster", "StatefulSet"}
"""Kinds whose controllers update the status continually, but whose `generation` the API server increments with every
change of other fields than status and metadata. Other kinds, such as PriorityClasses, have a constant generation."""
_DECLARED_METADATA = ("generation", "labels", "annotations", "finalizers", "ownerReferences")


def has_drifted(state: EngineState, live_metadata: Mapping[Identity, Mapping[str, Any]]) -> bool:
    """Return whether a refresh might find a difference.

    `live_metadata` is the metadata of the objects of `state` that exist. The result is also True after an interruption,
    which a refresh may have to resolve, and with resources of other providers.
    """
    if state.pending_operations or state.replaced_objects or state.foreign_resource_urns:
        return True
    return any(
        _has_changed(recorded, live_metadata.get(recorded.identity))
        for recorded in state.objects
        if not recorded.is_in_release
    )


def _has_changed(recorded: RecordedObject, live: Mapping[str, Any] | None) -> bool:
    if live is None or "deletionTimestamp" in live or live["uid"] != recorded.uid or recorded.errors:
        return True
    if recorded.is_launch and recorded.kind in STANDARD_LAUNCH_KINDS:
        # Only Kueue and its controller change a launch: the program never edits a live one.
        return False
    recorded_metadata = recorded.metadata
    if recorded_metadata.get("resourceVersion") == live["resourceVersion"]:
        return False
    return recorded.kind not in _WITH_GENERATION or any(
        (recorded_metadata.get(key) or None) != (live.get(key) or None) for key in _DECLARED_METADATA
    )
