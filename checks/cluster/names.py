"""Is a name free for a launch? Asked before an object with a fixed name is created."""

import time
from collections.abc import Mapping
from typing import Any

from checks.cluster import paths
from checks.cluster.client import ClusterError, read
from checks.cluster.snapshot import there
from manifests.labels import LAUNCH

_PAUSE_SECONDS = 0.5


def wait_until_free(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once no other launch has this object's name: one that was deleted may still be stopping its pods.

    The object itself may be there: an interrupted `up` left it, and the next one takes it over.

    Raises ClusterError when the other one is not being deleted, is not gone in time, or may not be read.
    """
    path, metadata = paths.location(manifest), manifest["metadata"]
    end = time.monotonic() + deadline_seconds
    while True:
        answer = read([path], context)[path]
        if not there(path, answer):
            return
        found = answer.body["metadata"]
        going = "deletionTimestamp" in found
        if not going and found.get("labels", {}).get(LAUNCH) == metadata["labels"][LAUNCH]:
            return
        who = f"{manifest['kind']} {metadata['namespace']}/{metadata['name']}"
        delete = f"kubectl delete {manifest['kind'].lower()} -n {metadata['namespace']} {metadata['name']}"
        if not going:
            raise ClusterError(
                f"{who} is another launch, which this stack's state does not know, so it is not replaced; if it may "
                f"go, delete it ({delete}) and run `up` again"
            )
        if time.monotonic() >= end:
            raise ClusterError(
                f"{who} is still being deleted after {deadline_seconds:.0f} s: see which pods or finalizers hold it, "
                "and run `up` again"
            )
        time.sleep(_PAUSE_SECONDS)
