"""Dry runs, which show whether an operator's webhooks are available and accept an object."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from trainstack.live import paths
from trainstack.live.answers import read_write_body
from trainstack.live.client import Api, ClusterError, PermanentError, connect, run
from trainstack.live.errors import UnexpectedAnswerError
from trainstack.objects.labels import OWNER
from trainstack.platform import probes

_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 35


def wait_until_accepted(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once the API server and all webhooks accept a dry run of this object.

    Raises ClusterError with the last response after the deadline.
    """
    run(_wait(manifest, context, deadline_seconds, _is_accepted))


async def dry_run(manifests: Sequence[Mapping[str, Any]], context: str | None) -> list[tuple[int, str]]:
    """Create each object in a dry run. Return the responses' statuses and texts in the same order.

    Status 0: no response, with the error as text. Raises ClusterError if the cluster cannot be reached.
    """
    api = await connect(context)
    api.timeout = _TIMEOUT_SECONDS
    return list(await asyncio.gather(*(_dry_run_create(api, manifest) for manifest in manifests)))


async def _dry_run_create(api: Api, manifest: Mapping[str, Any]) -> tuple[int, str]:
    metadata = manifest["metadata"]
    verb, query, headers = "POST", "dryRun=All", {"Content-Type": "application/json"}
    path = paths.collection_path(manifest["apiVersion"], manifest["kind"], metadata.get("namespace"))
    # RBAC restricts `create` to a name only for server-side apply, so a role can grant the name of the probe alone.
    if metadata.get("name") == probes.NAME:
        verb, query, path = "PATCH", f"{query}&fieldManager={OWNER}", f"{path}/{probes.NAME}"
        headers = {"Content-Type": "application/apply-patch+yaml"}
    try:
        reply = await api.exchange(verb, f"{path}?{query}", headers=headers, content=json.dumps(manifest))
    except (PermanentError, UnexpectedAnswerError):
        raise
    except ClusterError as error:
        return 0, str(error)
    if reply.status < httpx.codes.BAD_REQUEST:
        read_write_body(api.description, verb, path, reply.status, reply.text)
    return reply.status, reply.text


def wait_until_runtime_is_visible(
    trainjob: Mapping[str, Any], context: str | None, deadline_seconds: float = 180
) -> None:
    """Return once the webhooks of Trainer and Kueue find the new runtime of this TrainJob.

    Their caches lag behind the API server, and a Kueue that was started before Trainer was installed supports TrainJobs
    only after up to two minutes. A refusal for another reason ends the wait: the creation of the TrainJob reports it.
    Raises ClusterError as `wait_until_accepted` does.
    """
    run(_wait(trainjob, context, deadline_seconds, _is_runtime_visible))


def _is_accepted(status: int, _text: str) -> bool:
    return status in (httpx.codes.CREATED, httpx.codes.CONFLICT)


def _is_runtime_visible(status: int, text: str) -> bool:
    is_refused = status in (httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN, httpx.codes.UNPROCESSABLE_ENTITY)
    return _is_accepted(status, text) or (is_refused and "runtime" not in text.lower())


async def _wait(
    manifest: Mapping[str, Any], context: str | None, deadline_seconds: float, is_complete: Callable[[int, str], bool]
) -> None:
    api = await connect(context)
    # The API server's own timeout for a webhook is at most 30 s.
    api.timeout = _TIMEOUT_SECONDS
    deadline = time.monotonic() + deadline_seconds
    while True:
        status, text = await _dry_run_create(api, manifest)
        if is_complete(status, text):
            return
        response = f"{status} {text}" if status else text
        if time.monotonic() > deadline:
            raise ClusterError(
                f"no webhook answered for a {manifest['kind']} within {deadline_seconds:.0f} s "
                f"(last: {response[:300]}); inspect the controller's pod: "
                "kubectl get pods -A, kubectl logs -n <its namespace> <its pod>"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
