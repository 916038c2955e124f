"""The launched objects of runs and sweeps, and the ledgers that record them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pulumi

from trainstack.components.launch_claims import LaunchClaim, claim_hooks
from trainstack.components.objects import Object, blocking_hook, declare_objects, with_unknown_label
from trainstack.live.client import SharedClients
from trainstack.live.deletion_waits import wait_until_name_is_free
from trainstack.live.webhooks import wait_until_runtime_is_visible
from trainstack.objects.labels import LAUNCH
from trainstack.runs.ledgers import Ledger
from trainstack.stack_objects.launch_groups import LaunchGroup

_LAUNCH_LABEL = f'metadata.labels["{LAUNCH}"]'


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    context: str | None = None
    """The kubeconfig's context; None: the current one."""
    live_objects: Mapping[str, str] = field(default_factory=dict)
    """The live objects as `<namespace>/<name>`, by launch name."""
    ignores_changes: bool = False
    """Ignore changes of launches with derived names, and of their companions, for programs that do not read the
    cluster. A change of the sets may renumber a trial, which is not in its name, and must not replace its object."""
    claims: Mapping[str, LaunchClaim] = field(default_factory=dict)
    """The claims that precede the creation of the objects, by launch name."""
    generating_provider: pulumi.ProviderResource | None = None
    """The provider of objects with generated names, which server-side apply cannot create."""

    @cached_property
    def clients(self) -> SharedClients:
        """Of the claims, which are many requests at once."""
        return SharedClients()


def declare_launches(
    group: LaunchGroup, options: LaunchOptions, parent: pulumi.Resource, dependencies: Sequence[pulumi.Resource]
) -> pulumi.Output[list[str]]:
    """Declare each launch, then its ledger, which completes the claim that precedes the launch.

    Returns the launched objects as `<namespace>/<name>`.
    """
    claim_options, confirm_options = pulumi.ResourceOptions(), pulumi.ResourceOptions()
    if options.claims:
        name = f"sweep-{group.sweep}" if group.sweep else "runs"
        hooks = claim_hooks(name, options.claims.values(), options.clients, options.context)
        claim_options.hooks, confirm_options.hooks = hooks.launch, hooks.ledger
    resources: dict[str, Object] = {}
    names: list[pulumi.Input[str]] = []
    for ledger in group.launches:
        metadata, launch_name = ledger.launch["metadata"], ledger.launch_name
        companions = _companions(ledger, options, parent)
        manifest = _without_dry_run_over_another(ledger.launch, options.live_objects)
        resource_options = _launch_resource_options(ledger.launch, options)
        if launch_name in options.claims:
            resource_options = pulumi.ResourceOptions.merge(resource_options, claim_options)
        (resources[launch_name],) = declare_objects([manifest], parent, [*dependencies, *companions], resource_options)
        names.append(f"{metadata['namespace']}/{metadata['name']}" if "name" in metadata else resources[launch_name].id)
    for launch_name, config_map in group.ledger_config_maps.items():
        declare_objects(
            [config_map],
            parent,
            [resources[launch_name]] if launch_name in resources else [],
            confirm_options,
        )
    return pulumi.Output.all(*names)


def _companions(ledger: Ledger, options: LaunchOptions, parent: pulumi.Resource) -> list[Object]:
    if not ledger.companions:
        return []
    name = f"{ledger.namespace}/{ledger.launch_name}-seen"
    # The caches in which webhooks look up a launch's references are briefly behind the cluster.
    hook = pulumi.ResourceHook(name, lambda _: wait_until_runtime_is_visible(ledger.launch, options.context))
    opts = pulumi.ResourceOptions(
        hooks=pulumi.ResourceHookBinding(after_create=[hook]),
        ignore_changes=["metadata", "spec"] if options.ignores_changes else None,
    )
    return declare_objects(ledger.companions, parent, opts=opts)


def _without_dry_run_over_another(manifest: Mapping[str, Any], live_objects: Mapping[str, str]) -> Mapping[str, Any]:
    # In a preview, the launch that this one replaces still has its name.
    metadata = manifest["metadata"]
    name = f"{metadata['namespace']}/{metadata.get('name')}"
    if (
        not pulumi.runtime.is_dry_run()
        or live_objects.get(metadata["labels"][LAUNCH]) == name
        or name not in live_objects.values()
    ):
        return manifest
    return {**manifest, "metadata": with_unknown_label(metadata)}


def _launch_resource_options(manifest: Mapping[str, Any], options: LaunchOptions) -> pulumi.ResourceOptions:
    metadata = manifest["metadata"]
    launch_name = metadata["labels"][LAUNCH]
    # A launch is never edited. Its name does not depend on the recorded commit: without a ledger of the old commit, a
    # change of the commit alone would replace an active Job.
    is_final = launch_name in options.live_objects or (options.ignores_changes and metadata.get("name") == launch_name)
    ignored_fields = ["metadata", "spec"] if is_final else []
    if "generateName" in metadata:
        # An object that an interrupted `up` created but did not record is imported. The import of an object that is in
        # the state has no effect.
        return pulumi.ResourceOptions(
            provider=options.generating_provider,
            import_=options.live_objects.get(launch_name),
            ignore_changes=ignored_fields,
        )
    if metadata["name"] == launch_name:
        # A derived name has a hash of all fields: another launch is another object, and does not wait for this one,
        # whose quota it may need.
        return pulumi.ResourceOptions(ignore_changes=ignored_fields)
    name = f"{metadata['namespace']}/{launch_name}-name-is-free"
    hook = blocking_hook(name, lambda: wait_until_name_is_free(manifest, options.context))
    return pulumi.ResourceOptions(
        ignore_changes=ignored_fields,
        replace_on_changes=[_LAUNCH_LABEL],
        delete_before_replace=True,
        hooks=pulumi.ResourceHookBinding(before_create=[hook]),
    )
