"""The claim of a launch: one request before the launch is created, which only one of two concurrent `up`s completes."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pulumi

from trainstack.components.objects import in_thread, type_and_name
from trainstack.components.removal import send
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, ClusterError, SharedClients, connect, get
from trainstack.live.errors import status_message
from trainstack.objects.labels import FIELD_MANAGER, LAUNCH, LEDGER, STACK
from trainstack.runs.launches import utc_now
from trainstack.runs.ledgers import LAUNCHED, claim_config_map


@dataclass(frozen=True, kw_only=True)
class Claim:
    launch: Mapping[str, Any]
    """The manifest of the launch."""
    ledger: Mapping[str, Any]
    """The ledger that completes the claim after the launch."""
    version: str | None
    """The resource version of the live ledger: of an earlier launch, or of a claim that was never completed. None if
    the cluster has no ledger."""


def claim_hooks(
    name: str, claims: Iterable[Claim], clients: SharedClients, context: str | None
) -> pulumi.ResourceHookBinding:
    """Claim each launch before the engine creates it; release the claim if the cluster refuses the launch.

    All launches of a group have the same hooks, `<name>-claim` and `<name>-release`: the registration of a hook takes
    as long as that of a resource.
    """
    by_launch = {type_and_name(claim.launch)[1]: claim for claim in claims}
    taken: dict[str, Mapping[str, str]] = {}

    async def release(args: pulumi.ErrorHookArgs) -> bool:
        # The engine also calls this for a refused dry run, in a preview, which takes no claim. An error here would
        # replace the refusal in its report; the claim then stays, as after a kill.
        if args.failed_operation == "create" and args.name in taken:
            with suppress(ClusterError):
                claim = by_launch[args.name]
                await in_thread(lambda: clients.run(_release(claim, taken[args.name], context)))
        return False

    async def take(args: pulumi.ResourceHookArgs) -> None:
        claim = by_launch[args.name]
        taken[args.name] = await in_thread(lambda: clients.run(_take(claim, context)))

    return pulumi.ResourceHookBinding(
        before_create=[pulumi.ResourceHook(f"{name}-claim", take)],
        on_error=[pulumi.ErrorHook(f"{name}-release", release)],
    )


async def _take(claim: Claim, context: str | None) -> Mapping[str, str]:
    """Write the claim. Return its UID and resource version, which identify it."""
    api, path = await connect(context), paths.location(claim.ledger)
    body = claim_config_map(claim.ledger, utc_now())
    query = f"?fieldManager={body['metadata']['annotations'][FIELD_MANAGER]}"
    if claim.version is None:
        status, text = await send(api, "POST", path.rpartition("/")[0] + query, body, "application/json")
    else:
        body["metadata"] = {**body["metadata"], "resourceVersion": claim.version}
        # A merge patch deletes keys whose value is null.
        body["data"] = {**body["data"], LAUNCHED: None}
        status, text = await send(api, "PATCH", path + query, body, "application/merge-patch+json")
    name = claim.ledger["metadata"]["name"]
    if status == httpx.codes.CONFLICT or (status == NOT_FOUND and claim.version is not None):
        raise ClusterError(
            f"another `up` is claiming the launch of {claim.ledger['data']['run']} (ConfigMap {name} was written after "
            "this `up` read it); it is not launched a second time. Run `up` again when the other one has ended. If "
            f"there is no other one, labels of the ConfigMap were removed: restore {LEDGER}="
            f"{claim.ledger['metadata']['labels'][LEDGER]} and {STACK}={claim.ledger['metadata']['labels'][STACK]}"
        )
    if status not in (httpx.codes.OK, httpx.codes.CREATED):
        raise ClusterError(
            f"the launch of {claim.ledger['data']['run']} cannot be claimed ({status}: {status_message(text)}), so it "
            f"was not launched; its claim would be ConfigMap {name}"
        )
    metadata = json.loads(text)["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


async def _release(claim: Claim, taken: Mapping[str, str], context: str | None) -> None:
    """Delete the claim of a launch that was not created."""
    if claim.version is not None:  # it overwrote the ledger of an earlier launch
        return
    api, launch = await connect(context), claim.launch
    metadata = launch["metadata"]
    collection = paths.collection(launch["apiVersion"], launch["kind"], metadata["namespace"])
    selector = quote(f"{LAUNCH}={metadata['labels'][LAUNCH]}")
    answer = await get(api, f"{collection}?labelSelector={selector}", metadata_of_items=True)
    if answer.found and not answer.body.get("items"):
        await send(api, "DELETE", paths.location(claim.ledger), {"preconditions": taken}, "application/json")
