"""Waits for the deletion of a terminating object whose name a new object uses."""

import time
from collections.abc import Mapping
from typing import Any

from trainstack.lifecycle.teardown.leftovers import explain_leftover
from trainstack.live import paths
from trainstack.live.client import ClusterError, read
from trainstack.live.snapshot import exists
from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import format_identity, identity
from trainstack.runs.launches import utc_now

_PAUSE_SECONDS = 0.5


def _wait_for_deletion(
    manifest: Mapping[str, Any], context: str | None, deadline_seconds: float
) -> Mapping[str, Any] | None:
    """Wait while a terminating object has this name. Return the metadata of the object that has the name then, or None.

    Raises ClusterError after the deadline, or if the object cannot be read.
    """
    path = paths.object_path(manifest)
    deadline = time.monotonic() + deadline_seconds
    while True:
        answer = read([path], context, metadata_only=True)[path]
        if not exists(path, answer):
            return None
        metadata: Mapping[str, Any] = answer.body["metadata"]
        if "deletionTimestamp" not in metadata:
            return metadata
        if time.monotonic() >= deadline:
            raise ClusterError(
                f"{explain_leftover({**manifest, 'metadata': metadata}, utc_now())}; `up` stopped waiting. Run `up` "
                "again after its deletion"
            )
        time.sleep(_PAUSE_SECONDS)


def wait_until_replaceable(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Wait for the deletion of the terminating object that has this object's name.

    Raises ClusterError after the deadline, if the object cannot be read, or if another owner re-created it.
    """
    live_metadata = _wait_for_deletion(manifest, context, deadline_seconds)
    if (
        live_metadata is not None
        and (live_metadata.get("labels") or {}).get(STACK) != manifest["metadata"]["labels"][STACK]
    ):
        raise ClusterError(
            f"{format_identity(identity(manifest))} was deleted and has been re-created by another owner; nothing was "
            "changed. Run `up` again to see the remedies"
        )


def wait_until_name_is_free(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Wait until no other launch has this object's name.

    The launch's own object may exist if an interrupted `up` created it; the next `up` adopts it. Raises ClusterError
    after the deadline, if the object cannot be read, or if it belongs to another launch and is not terminating.
    """
    metadata = manifest["metadata"]
    live_metadata = _wait_for_deletion(manifest, context, deadline_seconds)
    if live_metadata is None or live_metadata.get("labels", {}).get(LAUNCH) == metadata["labels"][LAUNCH]:
        return
    delete = f"kubectl delete {manifest['kind'].lower()} -n {metadata['namespace']} {metadata['name']}"
    raise ClusterError(
        f"{format_identity(identity(manifest))} is another launch that is not in this stack's state, so it is not "
        f"replaced; if it is not needed, delete it ({delete}) and run `up` again"
    )
