"""Launches: the objects that train, whichever of runs or sweeps they are of, and the ledgers that remember them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from trainstack.components.claims import Claim, claim_hooks
from trainstack.components.objects import Object, declare, not_tried
from trainstack.components.removal import in_a_thread
from trainstack.objects.labels import LAUNCH

_LAUNCH_LABEL = f'metadata.labels["{LAUNCH}"]'


@dataclass(frozen=True, kw_only=True)
class Launches:
    """What `declare_launches` declares."""

    launches: Sequence[Mapping[str, Any]]
    """The objects, of whichever kind."""
    companions: Mapping[str, Sequence[Mapping[str, Any]]]
    """By launch name: the objects that it refers to, and which must be there before it."""
    ledgers: Mapping[str, Mapping[str, Any]]
    """By launch name: the ConfigMap that remembers it."""
    live: Mapping[str, str]
    """By launch name: the object that is there already, as `<namespace>/<name>`."""
    seen: Callable[[Mapping[str, Any]], None]
    """Takes a launch whose companions were made; returns once the cluster's webhooks know these."""
    generating: pulumi.ProviderResource | None
    """For objects whose names the API server chooses, which server-side apply cannot create; None where there are
    none."""
    claims: Mapping[str, Claim]
    """By launch name: what `up` takes before it makes the object."""
    context: str | None
    """The kubeconfig's context."""
    name_is_free: Callable[[Mapping[str, Any]], None]
    """Returns once no other launch has the name of this object; raises when that one does not go."""


def declare_launches(
    args: Launches, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> pulumi.Output[list[str]]:
    """Declare each launch, then its ledger, which completes the claim that precedes the launch.

    The launched objects are returned as `<namespace>/<name>`.
    """
    launched: dict[str, Object] = {}
    names: list[pulumi.Input[str]] = []
    for manifest in args.launches:
        metadata = manifest["metadata"]
        launch = metadata["labels"][LAUNCH]
        others = _companions(args, manifest, parent)
        shown = _not_tried_over_another(manifest, args.live)
        (launched[launch],) = declare([shown], parent, [*after, *others], _options(manifest, args))
        names.append(f"{metadata['namespace']}/{metadata['name']}" if "name" in metadata else launched[launch].id)
    for launch, ledger in args.ledgers.items():
        declare([ledger], parent, [launched[launch]] if launch in launched else [])
    return pulumi.Output.all(*names)


def _companions(args: Launches, manifest: Mapping[str, Any], parent: pulumi.Resource) -> list[Object]:
    launch = manifest["metadata"]["labels"][LAUNCH]
    companions = args.companions.get(launch, ())
    if not companions:
        return []
    # Webhooks look for what a launch refers to in a copy of their own, which is a moment behind the cluster.
    hook = pulumi.ResourceHook(f"{manifest['metadata']['namespace']}/{launch}-seen", lambda _: args.seen(manifest))
    opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(after_create=[hook]))
    return declare(companions, parent, opts=opts)


def _not_tried_over_another(manifest: Mapping[str, Any], live: Mapping[str, str]) -> Mapping[str, Any]:
    """The object, in a preview with an unknown label where it replaces another launch of its name.

    A preview does not delete, so the other one is still there.
    """
    metadata = manifest["metadata"]
    place = f"{metadata['namespace']}/{metadata.get('name')}"
    if not pulumi.runtime.is_dry_run() or live.get(metadata["labels"][LAUNCH]) == place or place not in live.values():
        return manifest
    return {**manifest, "metadata": not_tried(metadata)}


def _options(manifest: Mapping[str, Any], args: Launches) -> pulumi.ResourceOptions:
    """How a launch is made, by how it is named.

    A derived name carries every field, so another launch is another object; it never waits for its predecessor, whose
    quota it may need.
    """
    metadata = manifest["metadata"]
    launch = metadata["labels"][LAUNCH]
    # A launch is never edited. The commit that it is recorded with is not in its name: where no ledger tells the old
    # one, an edit of that alone would replace an active Job.
    kept = ["metadata", "spec"] if launch in args.live else []
    claimed = pulumi.ResourceOptions(hooks=claim_hooks(args.claims[launch], manifest, args.context))
    return pulumi.ResourceOptions.merge(_naming_options(manifest, args, kept), claimed)


def _naming_options(manifest: Mapping[str, Any], args: Launches, kept: Sequence[str]) -> pulumi.ResourceOptions:
    metadata = manifest["metadata"]
    launch = metadata["labels"][LAUNCH]
    if "generateName" in metadata:
        # What an interrupted `up` made and did not write down is taken over by its label; of what is in the state it is
        # the same object, and no import.
        return pulumi.ResourceOptions(provider=args.generating, import_=args.live.get(launch), ignore_changes=[*kept])
    if metadata["name"] == launch:
        return pulumi.ResourceOptions(ignore_changes=[*kept])

    async def until_free(_: pulumi.ResourceHookArgs) -> None:
        await in_a_thread(lambda: args.name_is_free(manifest))

    hook = pulumi.ResourceHook(f"{metadata['namespace']}/{launch}-name-is-free", until_free)
    return pulumi.ResourceOptions(
        ignore_changes=[*kept],
        replace_on_changes=[_LAUNCH_LABEL],
        delete_before_replace=True,
        hooks=pulumi.ResourceHookBinding(before_create=[hook]),
    )
