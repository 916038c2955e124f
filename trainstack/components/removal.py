"""Writes of a teardown in addition to the engine's own deletions. No finalizer is ever removed."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from trainstack.components.writes import send
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, Api, ClusterError, connect, get, run
from trainstack.live.errors import status_message
from trainstack.objects.labels import DRAINED, FIELD_MANAGER

_PAUSE_SECONDS = 0.5


def hold_and_drain(queue: Mapping[str, Any], context: str | None) -> None:
    """Set a ClusterQueue's stopPolicy to HoldAndDrain; do nothing if it no longer exists.

    The declared manifest `queue` is applied with its own field manager, so that a later `up` finds no field of another
    owner. Raises ClusterError if the cluster or Kueue's webhook refuses.
    """
    run(_hold_and_drain(queue, context))


async def _hold_and_drain(queue: Mapping[str, Any], context: str | None) -> None:
    api, path = await connect(context), paths.object_path(queue)
    live = await get(api, path)
    if live.status == NOT_FOUND:
        return
    # With the UID, the request cannot create another object.
    annotations = {**queue["metadata"]["annotations"], DRAINED: "true"}
    metadata = {**queue["metadata"], "uid": live.body["metadata"]["uid"], "annotations": annotations}
    spec = {**queue["spec"], "stopPolicy": "HoldAndDrain"}
    drained = {"apiVersion": queue["apiVersion"], "kind": queue["kind"], "metadata": metadata, "spec": spec}
    query = f"?fieldManager={metadata['annotations'][FIELD_MANAGER]}&force=true"
    status, text = await send(api, "PATCH", path + query, _whole_numbers(drained), "application/apply-patch+yaml")
    if status not in (httpx.codes.OK, NOT_FOUND):
        raise ClusterError(
            f"ClusterQueue {queue['metadata']['name']} cannot be held ({status}: {status_message(text)}); check that "
            "Kueue is running, since only Kueue removes the finalizers of its queues"
        )


def delete_and_wait(path: str, uid: str, context: str | None, deadline_seconds: float) -> None:
    """Delete the object with this UID, and wait for its deletion. Raises ClusterError after the deadline."""
    run(_delete(path, uid, context))

    def deletion_blocker() -> str:
        metadata = read_metadata(path, context)
        if metadata is None or metadata["uid"] != uid:
            return ""
        return f"held by {', '.join(metadata.get('finalizers') or ['its contents'])}"

    wait_until(f"{path} is deleted", deletion_blocker, deadline_seconds)


async def _delete(path: str, uid: str, context: str | None) -> None:
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
    status, text = await send(await connect(context), "DELETE", path, options, "application/json")
    if status not in (httpx.codes.OK, httpx.codes.ACCEPTED, NOT_FOUND):
        raise ClusterError(f"{path} cannot be deleted ({status}: {status_message(text)})")


def read_metadata(path: str, context: str | None) -> dict[str, Any] | None:
    async def read() -> dict[str, Any] | None:
        return await live_metadata(await connect(context), path)

    return run(read())


async def live_metadata(api: Api, path: str) -> dict[str, Any] | None:
    """Return an object's metadata, or None if the object does not exist. Raises ClusterError if it cannot be read."""
    response = await get(api, path, metadata_only=True)
    if response.status == NOT_FOUND:
        return None
    if not response.is_success:
        raise ClusterError(f"the cluster answered {response.status} to get {path}")
    return dict(response.body["metadata"])


def wait_until(condition: str, blocking_reason: Callable[[], str], deadline_seconds: float) -> None:
    """Return once `blocked_by` returns an empty string. Raises ClusterError with its last result after the deadline."""
    deadline = time.monotonic() + deadline_seconds
    while reason := blocking_reason():
        if time.monotonic() >= deadline:
            raise ClusterError(f"timed out after {deadline_seconds:.0f} s, waiting until {condition}: {reason}")
        time.sleep(_PAUSE_SECONDS)


def _whole_numbers(value: Any) -> Any:
    """Undo the engine's conversion of integers to floats."""
    if isinstance(value, Mapping):
        return {str(key): _whole_numbers(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(element) for element in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
