"""The claim to a launch: taken in the cluster before the launch is made, in one step that only one `up` can win."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pulumi

from checks.cluster import paths
from checks.cluster.client import NOT_FOUND, ClusterError, connect, get, run
from checks.cluster.webhooks import said
from checks.launches import utc_now
from components.removal import send
from manifests.labels import LAUNCH, OWNER
from workloads.records import claim_config_map


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim that `up` takes when it comes to make the launch."""

    ledger: Mapping[str, Any]
    """The ledger that completes the claim after the launch."""
    version: str | None
    """The resource version of the ledger that is in the cluster already: of an earlier launch, or of a claim that was
    never completed. None: there is none."""


def claim_hooks(claim: Claim, launch: Mapping[str, Any], context: str | None) -> pulumi.ResourceHookBinding:
    """Claim a launch before the engine creates it, and give the claim up where the cluster refuses the launch.

    Args:
        claim: what is claimed.
        launch: the object that will be created.
        context: the kubeconfig's context.

    """
    metadata = launch["metadata"]
    name = f"{metadata['namespace']}/{metadata['labels'][LAUNCH]}"

    async def take(_: pulumi.ResourceHookArgs) -> None:
        await asyncio.to_thread(lambda: run(_take(claim, context)))

    async def release(args: pulumi.ErrorHookArgs) -> bool:
        if args.failed_operation == "create":
            await asyncio.to_thread(lambda: run(_release(claim, launch, context)))
        return False

    return pulumi.ResourceHookBinding(
        before_create=[pulumi.ResourceHook(f"{name}-claim", take)],
        on_error=[pulumi.ErrorHook(f"{name}-release", release)],
    )


async def _take(claim: Claim, context: str | None) -> None:
    api, path = await connect(context), paths.location(claim.ledger)
    body = claim_config_map(claim.ledger, utc_now())
    if claim.version is None:
        body["data"] = {key: value for key, value in body["data"].items() if value is not None}
        where = f"{path.rpartition('/')[0]}?fieldManager={OWNER}"
        status, text = await send(api, "POST", where, body, "application/json")
    else:
        body["metadata"] = {**body["metadata"], "resourceVersion": claim.version}
        where = f"{path}?fieldManager={OWNER}"
        status, text = await send(api, "PATCH", where, body, "application/merge-patch+json")
    name = claim.ledger["metadata"]["name"]
    if status in (httpx.codes.CONFLICT, NOT_FOUND):
        raise ClusterError(
            f"another `up` claims the launch of {claim.ledger['data']['run']} at this moment (ConfigMap {name} was "
            "written since this `up` read it); it is not launched a second time. Run `up` again when the other one "
            "has ended"
        )
    if status not in (httpx.codes.OK, httpx.codes.CREATED):
        raise ClusterError(
            f"the launch of {claim.ledger['data']['run']} cannot be claimed ({status}: {said(text)}), so it is not "
            f"launched; ConfigMap {name} records it"
        )


async def _release(claim: Claim, launch: Mapping[str, Any], context: str | None) -> None:
    """Delete the claim of a launch that was not made. One that took an earlier ledger's place stays."""
    if claim.version is not None or "name" not in launch["metadata"]:
        return
    api, path = await connect(context), paths.location(claim.ledger)
    if (await get(api, paths.location(launch), metadata_only=True)).status != NOT_FOUND:
        return
    live = await get(api, path)
    if live.found and "launched" not in live.body["data"]:
        metadata = live.body["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        await send(api, "DELETE", path, {"preconditions": preconditions}, "application/json")
