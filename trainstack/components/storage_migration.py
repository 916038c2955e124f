"""Migration of stored objects to the version in which the definitions of an installed release store them.

A release that no longer serves a version cannot be installed while its definitions list that version in
`status.storedVersions`: the API server refuses them. Kueue stores v1beta1 up to v0.15, v1beta2 since v0.16, and drops
v1beta1 in v0.20. Source: "Upgrade existing objects to a new stored version" in
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from trainstack.components.writes import send
from trainstack.live import paths
from trainstack.live.client import CONCURRENCY, NOT_FOUND, PAGE_SIZE, Api, ClusterError, connect, get, get_list, run
from trainstack.live.errors import status_message

_MERGE_PATCH = "application/merge-patch+json"


def migrate_stored_objects(definitions: Sequence[Mapping[str, Any]], context: str | None) -> list[str]:
    """Store the objects of definitions in their storage version, and record that in the definitions' status.

    Reads only definitions with several versions. The webhooks of the release must answer, since they convert between
    versions.

    Args:
        definitions: the manifests of a release's CustomResourceDefinitions.
        context: the kubeconfig's context; None: its current one.

    Returns:
        A note for each definition whose objects are still stored in a former version, with the reason.

    """
    candidates = [definition for definition in definitions if len(definition["spec"]["versions"]) > 1]
    return run(_migrate_all(candidates, context)) if candidates else []


async def _migrate_all(definitions: Sequence[Mapping[str, Any]], context: str | None) -> list[str]:
    api, limit = await connect(context), asyncio.Semaphore(CONCURRENCY)
    return [note for note in await asyncio.gather(*(_migrate(api, one, limit) for one in definitions)) if note]


async def _migrate(api: Api, definition: Mapping[str, Any], limit: asyncio.Semaphore) -> str:
    """Migrate the objects of one definition; return why that failed, or an empty string."""
    path, name = paths.object_path(definition), definition["metadata"]["name"]
    async with limit:
        answer = await get(api, path)
    if answer.status == NOT_FOUND:
        return ""
    if not answer.is_success:
        return f"the stored versions of {name} are unknown: reading it was refused ({answer.status})"
    spec = answer.body["spec"]
    storage = next(str(version["name"]) for version in spec["versions"] if version["storage"])
    stored_versions = (answer.body.get("status") or {}).get("storedVersions") or ()
    former_versions = [version for version in stored_versions if version != storage]
    if not former_versions:
        return ""
    try:
        await _rewrite_objects(api, spec, storage, limit)
        # The API server refuses a list without the storage version, which another client may have changed since.
        await _patch(api, f"{path}/status", {"status": {"storedVersions": [storage]}}, limit)
    except ClusterError as error:
        return (
            f"{name} has objects that are stored in {', '.join(former_versions)}, which a later release of the "
            f"operator may not serve: {error}. An `up` with the right to change these objects stores them in {storage}"
        )
    return ""


async def _rewrite_objects(api: Api, spec: Mapping[str, Any], storage: str, limit: asyncio.Semaphore) -> None:
    """Send an empty patch for each object: the API server then stores it in the storage version."""
    root, collection = f"/apis/{spec['group']}/{storage}", spec["names"]["plural"]
    async with limit:
        answer = await get_list(api, f"{root}/{collection}?limit={PAGE_SIZE}", metadata_of_items=True)
    if not answer.is_success:
        raise ClusterError(f"the list of {collection} was refused ({answer.status})")

    async def rewrite(metadata: Mapping[str, Any]) -> None:
        namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        await _patch(api, f"{root}{namespace}/{collection}/{metadata['name']}", {}, limit)

    await asyncio.gather(*(rewrite(item["metadata"]) for item in answer.body["items"]))


async def _patch(api: Api, path: str, change: Mapping[str, Any], limit: asyncio.Semaphore) -> None:
    async with limit:
        status, text = await send(api, "PATCH", path, change, _MERGE_PATCH)
    if status not in (httpx.codes.OK, NOT_FOUND):
        raise ClusterError(f"PATCH {path} was refused ({status}: {status_message(text)})")
