"""The definitions (CRDs) of operators' releases: a hook applies them, and the engine's state has their revisions.

As resources of their own they would be most of the state and a quarter of a preview (docs/decisions/0023).
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import pulumi

from trainstack.components.objects import in_thread
from trainstack.components.removal import live_metadata
from trainstack.components.writes import merge_patch, send
from trainstack.guards.definition_releases import COMPONENT_TYPE, KIND, Release, takeover_patch
from trainstack.live import paths
from trainstack.live.client import Api, ClusterError, connect, get, run
from trainstack.live.errors import status_message

_CONCURRENCY = 8
_TRIES = 10
"""Attempts if another client changes a definition between the read and the PATCH."""
_DEADLINE_SECONDS = 60
"""How long an `up` waits until the API server serves a new kind."""
_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 60
"""Of a request: a definition has up to 500 KB."""

PreparationSteps = Mapping[str, Sequence[Callable[[], object]]]
"""By the name of a definition, the steps before `up` applies it. A preview does not try to apply these definitions."""


class Definitions(pulumi.ComponentResource):
    """The CustomResourceDefinitions of all operators, before the first operator.

    The engine never deletes them, since that would delete every object of their kinds, also of other teams.
    """

    kinds: pulumi.Output[list[str]]
    """The names of the definitions, `<plural>.<group>`, once they exist."""

    def __init__(
        self,
        name: str,
        args: Mapping[str, Release],
        opts: pulumi.ResourceOptions | None = None,
        *,
        context: str | None = None,
        preparations: PreparationSteps | None = None,
    ) -> None:
        """Apply the definitions of releases, by operator.

        `context` is the kubeconfig's context that is written to, by default the current one.
        """
        super().__init__(COMPONENT_TYPE, name, {}, opts)
        stashes = []
        for operator, release in args.items():
            hook = _definitions_hook(f"{operator}-definitions", release, context, preparations or {})
            binding = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
            stash_options = pulumi.ResourceOptions(parent=self, retain_on_delete=True, hooks=binding)
            stashes.append(pulumi.Stash(f"{operator}-definitions", input=release.stored_value, opts=stash_options))
        names = [manifest["metadata"]["name"] for release in args.values() for manifest in release.manifests]
        self.kinds = pulumi.Output.all(*(stash.input for stash in stashes)).apply(lambda _: names)
        self.register_outputs({"kinds": self.kinds})


def _definitions_hook(
    name: str, release: Release, context: str | None, preparations: PreparationSteps
) -> pulumi.ResourceHook:
    async def run_in_thread(_: pulumi.ResourceHookArgs) -> None:
        await in_thread(lambda: apply_release(release, context, preparations))

    return pulumi.ResourceHook(name, run_in_thread, pulumi.ResourceHookOptions(on_dry_run=True))


def apply_release(release: Release, context: str | None, preparations: PreparationSteps) -> None:
    """Apply the definitions of a release, in a preview as a dry run. Raises ClusterError with all errors."""
    if pulumi.runtime.is_dry_run():
        dry_run_manifests = [
            manifest for manifest in release.manifests if manifest["metadata"]["name"] not in preparations
        ]
        if dry_run_manifests:
            run(_apply(dry_run_manifests, release.manager, context, dry_run=True))
        return
    for manifest in release.manifests:
        for prepare in preparations.get(manifest["metadata"]["name"], ()):
            prepare()
    run(_apply(release.manifests, release.manager, context, dry_run=False))


async def _apply(manifests: Sequence[Mapping[str, Any]], manager: str, context: str | None, *, dry_run: bool) -> None:
    api, limit = await connect(context), asyncio.Semaphore(_CONCURRENCY)
    api.timeout = _TIMEOUT_SECONDS

    async def apply_one(manifest: Mapping[str, Any]) -> str:
        async with limit:
            try:
                await (_dry_run(api, manifest, manager) if dry_run else _write(api, manifest, manager))
            except ClusterError as error:
                return str(error)
        return ""

    if errors := sorted(filter(None, await asyncio.gather(*map(apply_one, manifests)))):
        raise ClusterError("\n".join(errors))


async def _dry_run(api: Api, manifest: Mapping[str, Any], manager: str) -> None:
    metadata = await live_metadata(api, paths.object_path(manifest)) or {}
    # `up` first takes over some fields, which are a conflict until then.
    force = "&force=true" if takeover_patch(metadata, manager) else ""
    await _patch(api, manifest, f"fieldManager={manager}&dryRun=All{force}")


async def _write(api: Api, manifest: Mapping[str, Any], manager: str) -> None:
    await _take_fields_over(api, manifest, manager)
    live, deadline = await _patch(api, manifest, f"fieldManager={manager}"), time.monotonic() + _DEADLINE_SECONDS
    while reason := _unserved_reason(live):
        if time.monotonic() >= deadline:
            raise ClusterError(
                f"{_display_name(manifest)} was applied, but the API server did not serve its kind within "
                f"{_DEADLINE_SECONDS} s: {reason}"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
        live = (await get(api, paths.object_path(manifest))).body


async def _patch(api: Api, manifest: Mapping[str, Any], query: str) -> Mapping[str, Any]:
    """Send a server-side apply, and return the object. Raises ClusterError if the API server refuses it."""
    path = f"{paths.object_path(manifest)}?{query}"
    status, text = await send(api, "PATCH", path, manifest, "application/apply-patch+yaml")
    if status in (httpx.codes.OK, httpx.codes.CREATED):
        body: Mapping[str, Any] = json.loads(text)
        return body
    conflict = "; restore the declared values in the cluster, which `trainstack render` prints"
    remedy = conflict if status == httpx.codes.CONFLICT else ""
    raise ClusterError(f"{_display_name(manifest)} cannot be applied ({status}: {status_message(text)}){remedy}")


async def _take_fields_over(api: Api, manifest: Mapping[str, Any], manager: str) -> None:
    """Take over the fields that were updated in this state's name, and another client's revision."""
    path = paths.object_path(manifest)
    for _ in range(_TRIES):
        metadata = await live_metadata(api, path)
        if metadata is None or not (metadata_patch := takeover_patch(metadata, manager)):
            return
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], **metadata_patch}}
        refusal = f"{_display_name(manifest)} cannot be applied"
        if await merge_patch(api, f"{path}?fieldManager={manager}", change, refusal):
            return
    raise ClusterError(
        f"{_display_name(manifest)} changed {_TRIES} times while this `up` tried to apply it; run `up` again"
    )


def _unserved_reason(live: Mapping[str, Any]) -> str:
    """Return why the API server does not serve a definition's kind; empty if it does."""
    conditions = {found["type"]: found for found in (live.get("status") or {}).get("conditions") or ()}
    if conditions.get("Established", {}).get("status") == "True":
        return ""
    refused = conditions.get("NamesAccepted", {})
    return str(refused.get("message") or "no reason yet") if refused.get("status") == "False" else "no reason yet"


def _display_name(manifest: Mapping[str, Any]) -> str:
    return f"{KIND} {manifest['metadata']['name']}"
