"""Do an operator's webhooks answer? Asked with a dry run, which the API server stores nowhere."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx
from kr8s import APITimeoutError

from checks.cluster import paths
from checks.cluster.client import ClusterError, connect, run

_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 35


def wait_until_accepted(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float = 180) -> None:
    """Return once the API server, and every webhook on the way, takes this object in a dry run.

    Raises ClusterError, with the last answer, when that does not happen in time.
    """
    run(_wait(manifest, context, deadline_seconds))


async def _wait(manifest: Mapping[str, Any], context: str | None, deadline_seconds: float) -> None:
    api = await connect(context)
    # The API server itself gives a webhook up to 30 s.
    api.timeout = _TIMEOUT_SECONDS
    collection, _, _ = paths.location(manifest).rpartition("/")
    base, _, last = collection.rpartition("/")
    end = time.monotonic() + deadline_seconds
    while True:
        try:
            async with api.call_api(
                "POST", base=base, version="", url=f"{last}?dryRun=All", raise_for_status=False, json=dict(manifest)
            ) as response:
                answer = f"{response.status_code} {response.text}"
                if response.status_code in (httpx.codes.CREATED, httpx.codes.CONFLICT):
                    return
        except (httpx.TransportError, APITimeoutError, OSError) as error:
            answer = str(error) or type(error).__name__
        if time.monotonic() > end:
            kind = manifest["kind"]
            raise ClusterError(
                f"no webhook answered for a {kind} within {deadline_seconds:.0f} s (last: {answer[:300]}); look at the "
                "controller's pod: kubectl get pods -A, kubectl logs -n <its namespace> <its pod>"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
