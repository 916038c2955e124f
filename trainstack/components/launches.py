"""Launches: the objects that train, whichever of runs or sweeps they are of, and the ledgers that remember them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from trainstack.components.claims import Claim, claim_hooks
from trainstack.components.objects import Object, declare, not_tried
from trainstack.components.removal import in_a_thread
from trainstack.declared.launches import LaunchGroup
from trainstack.live.names import wait_until_free
from trainstack.live.webhooks import wait_until_runtime_is_seen
from trainstack.objects.labels import LAUNCH
from trainstack.runs.records import Ledger

_LAUNCH_LABEL = f'metadata.labels["{LAUNCH}"]'


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How launches are created on a cluster that may have some of them already."""

    context: str | None = None
    """The kubeconfig's context; None: the current one."""
    live: Mapping[str, str] = field(default_factory=dict)
    """By launch name: the object that the cluster has, as `<namespace>/<name>`."""
    immutable: bool = False
    """Ignore changes of launches with derived names, for programs that do not read the cluster. A change of the sets
    may renumber a trial, which is not in its name, and must not replace its object."""
    claims: Mapping[str, Claim] = field(default_factory=dict)
    """By launch name: what is claimed in the cluster before the object is created."""
    generating: pulumi.ProviderResource | None = None
    """For objects whose names the API server chooses, which server-side apply cannot create."""


def declare_launches(
    group: LaunchGroup, options: LaunchOptions, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> pulumi.Output[list[str]]:
    """Declare each launch, then its ledger, which completes the claim that precedes the launch.

    Returns the launched objects as `<namespace>/<name>`.
    """
    launched: dict[str, Object] = {}
    names: list[pulumi.Input[str]] = []
    for each in group.launches:
        metadata, launch = each.launch["metadata"], each.launch_name
        companions = _companions(each, options.context, parent)
        manifest = _not_tried_over_another(each.launch, options.live)
        resource_options = _options(each.launch, options)
        (launched[launch],) = declare([manifest], parent, [*after, *companions], resource_options)
        names.append(f"{metadata['namespace']}/{metadata['name']}" if "name" in metadata else launched[launch].id)
    for launch, ledger in group.config_maps.items():
        declare([ledger], parent, [launched[launch]] if launch in launched else [])
    return pulumi.Output.all(*names)


def _companions(ledger: Ledger, context: str | None, parent: pulumi.Resource) -> list[Object]:
    if not ledger.companions:
        return []
    name = f"{ledger.namespace}/{ledger.launch_name}-seen"
    # Webhooks look for what a launch refers to in a copy of their own, which is a moment behind the cluster.
    hook = pulumi.ResourceHook(name, lambda _: wait_until_runtime_is_seen(ledger.launch, context))
    opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(after_create=[hook]))
    return declare(ledger.companions, parent, opts=opts)


def _not_tried_over_another(manifest: Mapping[str, Any], live: Mapping[str, str]) -> Mapping[str, Any]:
    """The object, in a preview with an unknown label where it replaces another launch of its name.

    A preview does not delete, so the other one is still there.
    """
    metadata = manifest["metadata"]
    place = f"{metadata['namespace']}/{metadata.get('name')}"
    if not pulumi.runtime.is_dry_run() or live.get(metadata["labels"][LAUNCH]) == place or place not in live.values():
        return manifest
    return {**manifest, "metadata": not_tried(metadata)}


def _options(manifest: Mapping[str, Any], args: LaunchOptions) -> pulumi.ResourceOptions:
    """How a launch is made, by how it is named.

    A derived name carries every field, so another launch is another object; it never waits for its predecessor, whose
    quota it may need.
    """
    metadata = manifest["metadata"]
    launch = metadata["labels"][LAUNCH]
    # A launch is never edited. The commit that it is recorded with is not in its name: where no ledger tells the old
    # one, an edit of that alone would replace an active Job.
    final = launch in args.live or (args.immutable and metadata.get("name") == launch)
    kept = ["metadata", "spec"] if final else []
    naming = _naming_options(manifest, args, kept)
    if launch not in args.claims:
        return naming
    claimed = pulumi.ResourceOptions(hooks=claim_hooks(args.claims[launch], manifest, args.context))
    return pulumi.ResourceOptions.merge(naming, claimed)


def _naming_options(manifest: Mapping[str, Any], args: LaunchOptions, kept: Sequence[str]) -> pulumi.ResourceOptions:
    metadata = manifest["metadata"]
    launch = metadata["labels"][LAUNCH]
    if "generateName" in metadata:
        # What an interrupted `up` made and did not write down is taken over by its label; of what is in the state it is
        # the same object, and no import.
        return pulumi.ResourceOptions(provider=args.generating, import_=args.live.get(launch), ignore_changes=[*kept])
    if metadata["name"] == launch:
        return pulumi.ResourceOptions(ignore_changes=[*kept])

    async def until_free(_: pulumi.ResourceHookArgs) -> None:
        await in_a_thread(lambda: wait_until_free(manifest, args.context))

    hook = pulumi.ResourceHook(f"{metadata['namespace']}/{launch}-name-is-free", until_free)
    return pulumi.ResourceOptions(
        ignore_changes=[*kept],
        replace_on_changes=[_LAUNCH_LABEL],
        delete_before_replace=True,
        hooks=pulumi.ResourceHookBinding(before_create=[hook]),
    )
