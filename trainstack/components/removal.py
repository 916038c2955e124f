"""What a teardown does to the cluster beside the engine's own deletions. No finalizer is ever taken away."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from kr8s import APITimeoutError
from kr8s.asyncio import Api

from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, ClusterError, connect, get, run
from trainstack.live.webhooks import said
from trainstack.objects.labels import FIELD_MANAGER

_PAUSE_SECONDS = 0.5


def hold_and_drain(queue: Mapping[str, Any], context: str | None) -> None:
    """Have Kueue admit nothing more to a ClusterQueue, and evict what holds its quota. One that is gone is left so.

    Args:
        queue: the ClusterQueue as it was declared. It is declared again, by the same field manager, so that a later
            `up` finds no field of another owner.
        context: the kubeconfig's context.

    Raises ClusterError where the cluster or Kueue's webhook refuses.

    """
    run(_hold_and_drain(queue, context))


async def _hold_and_drain(queue: Mapping[str, Any], context: str | None) -> None:
    api, path = await connect(context), paths.location(queue)
    live = await get(api, path)
    if live.status == NOT_FOUND:
        return
    # With the uid it is an edit of this very object, and never the making of another.
    metadata = {**queue["metadata"], "uid": live.body["metadata"]["uid"]}
    wanted = {
        "apiVersion": queue["apiVersion"],
        "kind": queue["kind"],
        "metadata": metadata,
        "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"},
    }
    query = f"?fieldManager={metadata['annotations'][FIELD_MANAGER]}&force=true"
    status, text = await send(api, "PATCH", path + query, _whole_numbers(wanted), "application/apply-patch+yaml")
    if status not in (httpx.codes.OK, NOT_FOUND):
        raise ClusterError(
            f"ClusterQueue {queue['metadata']['name']} cannot be held ({status}: {said(text)}); is Kueue running? Only "
            "Kueue lets its queues go"
        )


def delete(path: str, uid: str, context: str | None, deadline_seconds: float) -> None:
    """Delete one object, by its uid, and return once it is gone. Raises ClusterError when it is not in time."""
    run(_delete(path, uid, context))

    def gone() -> str:
        metadata = read_metadata(path, context)
        if metadata is None or metadata["uid"] != uid:
            return ""
        return f"held by {', '.join(metadata.get('finalizers') or ['what is in it'])}"

    until(f"{path} is gone", gone, deadline_seconds)


async def _delete(path: str, uid: str, context: str | None) -> None:
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
    status, text = await send(await connect(context), "DELETE", path, options, "application/json")
    if status not in (httpx.codes.OK, httpx.codes.ACCEPTED, NOT_FOUND):
        raise ClusterError(f"{path} cannot be deleted ({status}: {said(text)})")


def read_metadata(path: str, context: str | None) -> dict[str, Any] | None:
    """An object's metadata; None where there is none. Raises ClusterError where it cannot be read."""

    async def read() -> dict[str, Any] | None:
        answer = await get(await connect(context), path, metadata_only=True)
        if answer.status == NOT_FOUND:
            return None
        if not answer.found:
            raise ClusterError(f"the cluster answered {answer.status} to get {path}")
        return dict(answer.body["metadata"])

    return run(read())


def until(what: str, holds: Callable[[], str], deadline_seconds: float) -> None:
    """Return once `holds` says nothing any more. Raises ClusterError with what it says when that is not in time."""
    end = time.monotonic() + deadline_seconds
    while said_last := holds():
        if time.monotonic() >= end:
            raise ClusterError(f"not within {deadline_seconds:.0f} s: {what}; {said_last}")
        time.sleep(_PAUSE_SECONDS)


async def send(api: Api, verb: str, path: str, body: Mapping[str, Any], kind: str) -> tuple[int, str]:
    """Write to the cluster; the status and the text of its answer.

    Args:
        api: the client.
        verb: the HTTP method.
        path: an absolute API path, with its query.
        body: what is sent.
        kind: its media type.

    Raises ClusterError where the cluster does not answer.
    """
    base, _, last = path.rpartition("/")
    try:
        async with api.call_api(
            verb,
            base=base,
            version="",
            url=last,
            raise_for_status=False,
            headers={"Content-Type": kind},
            content=json.dumps(body),
        ) as response:
            return response.status_code, response.text
    except (httpx.TransportError, APITimeoutError, OSError) as error:
        raise ClusterError(
            f"the cluster did not answer to {verb} {path}: {str(error) or type(error).__name__}"
        ) from error


def _whole_numbers(value: Any) -> Any:
    """The engine hands every number over as a fraction."""
    if isinstance(value, Mapping):
        return {str(key): _whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def in_a_thread(work: Callable[[], None]) -> None:
    """Do what waits beside the program's event loop, which other hooks need meanwhile."""
    await asyncio.to_thread(work)
