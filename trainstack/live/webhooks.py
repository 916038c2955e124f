"""Do an operator's webhooks answer? Asked with a dry run, which the API server stores nowhere."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
from kr8s import APITimeoutError
from kr8s.asyncio import Api

from trainstack.live import paths
from trainstack.live.client import ClusterError, connect, run
from trainstack.objects.labels import OWNER
from trainstack.platform import probes

_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 35


def wait_until_accepted(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once the API server, and every webhook on the way, takes this object in a dry run.

    Raises ClusterError, with the last answer, when that does not happen in time.
    """
    run(_wait(manifest, context, deadline_seconds, _accepted))


async def dry_run(manifests: Sequence[Mapping[str, Any]], context: str | None) -> list[tuple[int, str]]:
    """Send each object as a dry run; the answers' statuses and messages, in their order.

    Status 0 stands for no answer in time. Raises ClusterError when there is no cluster.
    """
    api = await connect(context)
    api.timeout = _TIMEOUT_SECONDS
    return list(await asyncio.gather(*(_create(api, each) for each in manifests)))


async def _create(api: Api, manifest: Mapping[str, Any]) -> tuple[int, str]:
    """Create an object as a dry run.

    A probe is applied, not posted: the API server checks the right to create an object by its name only in an apply, so
    a role can grant that one name.
    """
    metadata = manifest["metadata"]
    verb, query, headers = "POST", "dryRun=All", {}
    path = paths.collection(manifest["apiVersion"], manifest["kind"], metadata.get("namespace"))
    if metadata.get("name") == probes.NAME:
        verb, query, path = "PATCH", f"{query}&fieldManager={OWNER}", f"{path}/{probes.NAME}"
        headers = {"Content-Type": "application/apply-patch+yaml"}
    base, _, last = path.rpartition("/")
    try:
        async with api.call_api(
            verb,
            base=base,
            version="",
            url=f"{last}?{query}",
            raise_for_status=False,
            headers=headers,
            json=dict(manifest),
        ) as response:
            return response.status_code, response.text
    except (httpx.TransportError, APITimeoutError, OSError) as error:
        return 0, str(error) or type(error).__name__


def said(text: str) -> str:
    """The message of an API server's answer."""
    try:
        body = json.loads(text)
    except ValueError:
        return text
    return str(body.get("message", text)) if isinstance(body, dict) else text


def wait_until_runtime_is_seen(trainjob: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once Trainer's webhook and Kueue's know the runtime of this TrainJob, which has just been made.

    They look for it in copies of their own, which are behind the cluster for a moment; and Kueue, where it was started
    before Trainer was installed, notices TrainJobs after up to two minutes. A TrainJob that is refused for another
    reason is for whoever creates it to report.

    Raises ClusterError as `wait_until_accepted` does.
    """
    run(_wait(trainjob, context, deadline_seconds, _judged))


def _accepted(status: int, _text: str) -> bool:
    return status in (httpx.codes.CREATED, httpx.codes.CONFLICT)


def _judged(status: int, text: str) -> bool:
    """Whether an answer is one of the API server or of a webhook that has looked at more than the runtime."""
    refused = status in (httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN, httpx.codes.UNPROCESSABLE_ENTITY)
    return _accepted(status, text) or (refused and "runtime" not in text.lower())


async def _wait(
    manifest: Mapping[str, Any], context: str | None, deadline_seconds: float, enough: Callable[[int, str], bool]
) -> None:
    api = await connect(context)
    # The API server itself gives a webhook up to 30 s.
    api.timeout = _TIMEOUT_SECONDS
    end = time.monotonic() + deadline_seconds
    while True:
        status, text = await _create(api, manifest)
        if enough(status, text):
            return
        answer = f"{status} {text}" if status else text
        if time.monotonic() > end:
            kind = manifest["kind"]
            raise ClusterError(
                f"no webhook answered for a {kind} within {deadline_seconds:.0f} s (last: {answer[:300]}); look at the "
                "controller's pod: kubectl get pods -A, kubectl logs -n <its namespace> <its pod>"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
