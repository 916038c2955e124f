"""Writes to the API server in addition to the engine's own."""

import json
from collections.abc import Mapping
from typing import Any

import httpx

from trainstack.live.answers import ensure_status, read_write_body
from trainstack.live.client import NOT_FOUND, Api, ClusterError
from trainstack.live.errors import status_message

_BUSY_SECONDS = 30
"""For retries of requests that the API server refuses because it has too many (429)."""


async def send(api: Api, verb: str, path: str, body: Mapping[str, Any], media_type: str) -> tuple[int, str]:
    """Write to an absolute API path; return the response's status and text.

    Raises ClusterError without a response, and for a success or a 404 that is not an API server's.
    """
    headers, content = {"Content-Type": media_type}, json.dumps(body)
    response = await api.exchange(verb, path, headers=headers, content=content, busy_seconds=_BUSY_SECONDS)
    if response.status < httpx.codes.BAD_REQUEST:
        read_write_body(api.description, verb, path, response.status, response.text)
    elif response.status == NOT_FOUND:
        # A proxy's 404 does not mean that the object is gone.
        ensure_status(api.description, path, response.status, response.text)
    return response.status, response.text


async def merge_patch(api: Api, path: str, change: Mapping[str, Any], refusal: str) -> bool:
    """Patch an object; return False if another client has changed it since `change` was calculated.

    An object that does not exist needs no change. Raises ClusterError, which begins with `refusal`, if the API server
    refuses the patch.
    """
    status, text = await send(api, "PATCH", path, change, "application/merge-patch+json")
    if status not in (httpx.codes.OK, NOT_FOUND, httpx.codes.CONFLICT):
        raise ClusterError(f"{refusal} ({status}: {status_message(text)})")
    return status != httpx.codes.CONFLICT
