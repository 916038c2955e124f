"""Is a name free? Asked before an object is created whose namesake may be there, or is still going."""

import time
from collections.abc import Mapping
from typing import Any

from trainstack.lifecycle.teardown.leftovers import explained
from trainstack.live import paths
from trainstack.live.client import ClusterError, read
from trainstack.live.snapshot import there
from trainstack.objects.labels import LAUNCH, STACK
from trainstack.objects.ownership import identity, shown
from trainstack.runs.launches import utc_now

_PAUSE_SECONDS = 0.5


def wait_until_gone(
    manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180
) -> Mapping[str, Any] | None:
    """Return once nothing that is being deleted has this object's name: the metadata of what has it, None if nothing.

    A launch that was deleted may still be stopping its pods.

    Raises ClusterError when it is not gone in time, or may not be read.
    """
    path = paths.location(manifest)
    end = time.monotonic() + deadline_seconds
    while True:
        answer = read([path], context, metadata_only=True)[path]
        if not there(path, answer):
            return None
        metadata: Mapping[str, Any] = answer.body["metadata"]
        if "deletionTimestamp" not in metadata:
            return metadata
        if time.monotonic() >= end:
            raise ClusterError(
                f"{explained({**manifest, 'metadata': metadata}, utc_now())}, and was waited for; run `up` again when "
                "it is gone"
            )
        time.sleep(_PAUSE_SECONDS)


def wait_until_replaceable(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once what is being deleted under this object's name is gone, and no other stack's is there instead.

    Raises ClusterError when it is not gone in time, may not be read, or somebody else was faster.
    """
    found = wait_until_gone(manifest, context, deadline_seconds)
    if found is not None and (found.get("labels") or {}).get(STACK) != manifest["metadata"]["labels"][STACK]:
        raise ClusterError(
            f"{shown(identity(manifest))} went, and somebody else has made another one, which is left as it is; `up` "
            "says what to do"
        )


def wait_until_free(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once no other launch has this object's name.

    The object itself may be there: an interrupted `up` left it, and the next one takes it over.

    Raises ClusterError when the other one is not being deleted, is not gone in time, or may not be read.
    """
    metadata = manifest["metadata"]
    found = wait_until_gone(manifest, context, deadline_seconds)
    if found is None or found.get("labels", {}).get(LAUNCH) == metadata["labels"][LAUNCH]:
        return
    delete = f"kubectl delete {manifest['kind'].lower()} -n {metadata['namespace']} {metadata['name']}"
    raise ClusterError(
        f"{shown(identity(manifest))} is another launch, which this stack's state does not know, so it is not "
        f"replaced; if it may go, delete it ({delete}) and run `up` again"
    )
