"""The claim of a launch: one request before the launch is created, which only one of two concurrent `up`s completes.

A claim ends in one of three ways: the launch's ledger completes it, a refusal of the launch releases it, or the next
`up` takes it over, once the launch can no longer appear.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pulumi

from trainstack.components.creation_errors import is_refusal
from trainstack.components.objects import in_thread, type_and_name
from trainstack.components.writes import send
from trainstack.live import paths
from trainstack.live.client import NOT_FOUND, Api, ClusterError, SharedClients, connect, get
from trainstack.live.errors import status_message
from trainstack.objects.labels import CLAIM, FIELD_MANAGER, LAUNCH, LEDGER, STACK
from trainstack.objects.ownership import format_identity, identity
from trainstack.runs import ledgers
from trainstack.runs.launches import LATE_SECONDS, ended_claim_refusal
from trainstack.runs.ledgers import claim_config_map, is_claim


@dataclass(frozen=True, kw_only=True)
class LaunchClaim:
    launch: Mapping[str, Any]
    """The manifest of the launch."""
    ledger: Mapping[str, Any]
    """The ledger that completes the claim after the launch."""
    ledger_version: str | None
    """The resource version of the live ledger: of an earlier launch, or of a claim that was never completed. None if
    the cluster has no ledger."""
    unconfirmed_claims: tuple[ledgers.Claim, ...] = ()
    """The claims that earlier `up`s left of this run, or of trials of this launch. Their launches may still appear."""
    is_live: bool = False
    """Whether the cluster has the launch."""
    is_recorded: bool = False
    """Whether the engine's state has the launch."""

    @property
    def run_id(self) -> str:
        return str(self.ledger["data"]["run"])

    @property
    def name(self) -> str:
        """The Pulumi name of the launch."""
        return type_and_name(self.launch)[1]

    @property
    def display_name(self) -> str:
        return f"{self.launch['kind']} {self.name}"


@dataclass(frozen=True, kw_only=True)
class ClaimHooks:
    launch: pulumi.ResourceHookBinding
    """Of each launch."""
    ledger: pulumi.ResourceHookBinding
    """Of each ledger."""


@dataclass(frozen=True)
class _WrittenClaim:
    """A claim that this process has written."""

    uid: str
    version: str
    """Its resource version."""
    previous_config_map: Mapping[str, Any] | None
    """The ConfigMap that it changed."""


def claim_hooks(name: str, claims: Iterable[LaunchClaim], clients: SharedClients, context: str | None) -> ClaimHooks:
    """Claim each launch before the engine creates it, and release the claim if the cluster refuses the launch.

    All launches of a group have the same hooks, `<name>-claim`, `<name>-release` and `<name>-confirm`: the registration
    of a hook takes as long as that of a resource.
    """
    claim_group = _ClaimGroup([*claims], clients, context)
    confirm = pulumi.ResourceHook(f"{name}-confirm", claim_group.confirm)
    return ClaimHooks(
        launch=pulumi.ResourceHookBinding(
            before_create=[pulumi.ResourceHook(f"{name}-claim", claim_group.take)],
            on_error=[pulumi.ErrorHook(f"{name}-release", claim_group.release)],
        ),
        ledger=pulumi.ResourceHookBinding(before_create=[confirm], before_update=[confirm]),
    )


class _ClaimGroup:
    def __init__(self, claims: Iterable[LaunchClaim], clients: SharedClients, context: str | None) -> None:
        self.clients, self.context = clients, context
        self.claims = {claim.name: claim for claim in claims}
        self.claims_by_ledger = {type_and_name(claim.ledger)[1]: claim for claim in self.claims.values()}
        # The cluster was read before.
        self.read_at = time.monotonic()
        # By the names of the launches that this process creates; None: the launch needs no claim.
        self.written_claims: dict[str, _WrittenClaim | None] = {}

    async def take(self, args: pulumi.ResourceHookArgs) -> None:
        claim = self.claims[args.name]
        if (seconds := self._wait_seconds(claim)) > 0:
            pulumi.log.info(
                f"{claim.run_id}: an `up` that was interrupted, or got no answer, may have sent the request for its "
                f"launch. In {seconds:.0f} s the request can no longer take effect; then the run is launched"
            )
            await asyncio.sleep(seconds)
        elapsed = timedelta(seconds=time.monotonic() - self.read_at)
        self.written_claims[args.name] = await in_thread(lambda: self.clients.run(_take(claim, elapsed, self.context)))

    def _wait_seconds(self, claim: LaunchClaim) -> float:
        ages = [(unconfirmed.age or timedelta()).total_seconds() for unconfirmed in claim.unconfirmed_claims]
        return LATE_SECONDS - min(ages) - (time.monotonic() - self.read_at) if ages else 0

    async def release(self, args: pulumi.ErrorHookArgs) -> bool:
        # The engine also calls this for a refused dry run, in a preview, which takes no claim.
        written = self.written_claims.pop(args.name, None) if args.failed_operation == "create" else None
        if written is not None:
            claim = self.claims[args.name]
            if is_refusal(args.errors[-1]):
                # An error here would replace the refusal in its report; the claim then stays, as after a kill.
                with suppress(ClusterError):
                    await in_thread(lambda: self.clients.run(_release(claim, written, self.context)))
            else:
                pulumi.log.warn(
                    f"the cluster did not refuse {claim.display_name}, so it may still appear, and its claim "
                    f"({format_identity(identity(claim.ledger))}) stays. Run `up` again: it waits until {LATE_SECONDS} "
                    "s after the claim, and launches the run if it was not launched"
                )
        return False

    async def confirm(self, args: pulumi.ResourceHookArgs) -> None:
        """Raise ClusterError before a ledger that records a launch which this process has not created."""
        claim = self.claims_by_ledger.get(args.name)
        if claim is not None and not claim.is_live and claim.name not in self.written_claims:
            raise ClusterError(
                f"{format_identity(identity(claim.ledger))} would record the launch of {claim.run_id}, but this change "
                f"has not created {claim.display_name}. If `--exclude` or `--target` leaves it out, leave the ledger "
                "out too (`--exclude-dependents`), or neither. If only the engine's state has it, run `up --refresh`"
            )


async def _take(claim: LaunchClaim, elapsed: timedelta, context: str | None) -> _WrittenClaim | None:
    """Write the claim, unless the cluster has the launch. `elapsed`: since the cluster was read."""
    api = await connect(context)
    if claim.is_live:
        await _refuse_second_launch(api, claim)
        return None
    for unconfirmed in claim.unconfirmed_claims:
        await _refuse_late_launch(api, unconfirmed, elapsed)
    path, body = paths.object_path(claim.ledger), claim_config_map(claim.ledger, secrets.token_hex(8))
    query = f"?fieldManager={body['metadata']['annotations'][FIELD_MANAGER]}"
    previous_config_map: Mapping[str, Any] | None = None
    if claim.ledger_version is None:
        status, text = await send(api, "POST", path.rpartition("/")[0] + query, body, "application/json")
    else:
        previous_config_map = (await get(api, path)).body
        body["metadata"] = {**body["metadata"], "resourceVersion": claim.ledger_version}
        body["data"] = _merge_patch(previous_config_map.get("data"), body["data"])
        status, text = await send(api, "PATCH", path + query, body, "application/merge-patch+json")
    if status == httpx.codes.CONFLICT or (status == NOT_FOUND and claim.ledger_version is not None):
        raise ClusterError(_concurrent_up_refusal(claim))
    if status not in (httpx.codes.OK, httpx.codes.CREATED):
        raise ClusterError(
            f"the launch of {claim.run_id} cannot be claimed ({status}: {status_message(text)}), so it was not "
            f"launched; its claim would be ConfigMap {claim.ledger['metadata']['name']}"
        )
    metadata = json.loads(text)["metadata"]
    return _WrittenClaim(metadata["uid"], metadata["resourceVersion"], previous_config_map)


def _concurrent_up_refusal(claim: LaunchClaim) -> str:
    metadata = claim.ledger["metadata"]
    return (
        f"another `up` is claiming the launch of {claim.run_id} (ConfigMap {metadata['name']} was written after this "
        "`up` read it); it is not launched a second time. Run `up` again when the other one has ended. If there is no "
        f"other one, labels of the ConfigMap were removed: restore {LEDGER}={metadata['labels'][LEDGER]} and "
        f"{STACK}={metadata['labels'][STACK]}"
    )


def _merge_patch(old: Mapping[str, str] | None, new: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch deletes keys whose value is null, and keeps those that it does not have."""
    return {**dict.fromkeys(old or {}), **new}


async def _refuse_second_launch(api: Api, claim: LaunchClaim) -> None:
    """Raise ClusterError unless the engine only takes over a live launch that its state does not have."""
    if claim.is_recorded:
        raise ClusterError(
            f"{claim.display_name} is the launch of run {claim.run_id}; it is not created a second time. Leave out "
            "`--replace`, or run `pulumi state untaint`; to train again, raise the run's `attempt`"
        )
    if not await _exists(api, claim.launch, claim.launch["metadata"]["labels"][LAUNCH]):
        raise ClusterError(
            f"{claim.display_name} was removed while this `up` ran; it is not created a second time. Run `up` again"
        )


async def _refuse_late_launch(api: Api, unconfirmed: ledgers.Claim, elapsed: timedelta) -> None:
    """Raise ClusterError if the launch of an earlier claim exists by now, or may have existed."""
    ledger, age = unconfirmed.ledger, unconfirmed.age
    if await _exists(api, ledger.launch, ledger.launch_name):
        raise ClusterError(
            f"launch {ledger.launch_name} of {ledger.run_id}, which an earlier `up` requested, has appeared; it is not "
            "launched a second time. Run `up` again"
        )
    if age is not None and age.total_seconds() < LATE_SECONDS:
        # It may have appeared and ended since the cluster was read.
        unconfirmed = replace(unconfirmed, read=unconfirmed.read and unconfirmed.read + elapsed)
    status, text = await send(
        api, "POST", f"{_collection(ledger.launch)}?dryRun=All", ledger.launch, "application/json"
    )
    stored = json.loads(text) if status == httpx.codes.CREATED else None
    if refusal := ended_claim_refusal(unconfirmed, stored):
        raise ClusterError(refusal)


async def _exists(api: Api, launch: Mapping[str, Any], launch_name: str) -> bool:
    """Whether the cluster has the launch, perhaps with a generated name. Raises ClusterError if that is unknown."""
    selector = quote(f"{LAUNCH}={launch_name}")
    response = await get(api, f"{_collection(launch)}?labelSelector={selector}", metadata_of_items=True)
    if not response.is_success and response.status != NOT_FOUND:
        raise ClusterError(f"the cluster answered {response.status} to list {_collection(launch)}; nothing is launched")
    return bool(response.body.get("items"))


def _collection(launch: Mapping[str, Any]) -> str:
    return paths.collection_path(launch["apiVersion"], launch["kind"], launch["metadata"]["namespace"])


async def _release(claim: LaunchClaim, written: _WrittenClaim, context: str | None) -> None:
    """Undo the claim of a launch that was not created."""
    api, path = await connect(context), paths.object_path(claim.ledger)
    if await _exists(api, claim.launch, claim.launch["metadata"]["labels"][LAUNCH]):
        return
    if written.previous_config_map is None or (claim.unconfirmed_claims and is_claim(written.previous_config_map)):
        preconditions = {"uid": written.uid, "resourceVersion": written.version}
        await send(api, "DELETE", path, {"preconditions": preconditions}, "application/json")
        return
    # The ledger of an earlier launch.
    annotations = {CLAIM: (written.previous_config_map["metadata"].get("annotations") or {}).get(CLAIM)}
    restoration = {
        "metadata": {"annotations": annotations, "resourceVersion": written.version},
        "data": _merge_patch(claim.ledger["data"], written.previous_config_map.get("data") or {}),
    }
    query = f"?fieldManager={claim.ledger['metadata']['annotations'][FIELD_MANAGER]}"
    await send(api, "PATCH", path + query, restoration, "application/merge-patch+json")
