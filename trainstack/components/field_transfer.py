"""Transfer of an object's fields from another state to this one, before the engine writes the object.

Each state has its own field manager, so the API server refuses the engine's server-side apply to an object of another
state. The transfer is one request, which only one of two concurrent `up`s can complete.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from trainstack.components.objects import blocking_hook, type_and_name, with_unknown_label
from trainstack.components.removal import live_metadata
from trainstack.components.writes import merge_patch
from trainstack.guards.field_managers import has_fields_of_other_states, managed_fields_after_transfer
from trainstack.guards.other_states import owning_state
from trainstack.live import paths
from trainstack.live.client import ClusterError, connect, run
from trainstack.objects.labels import STATE, field_manager
from trainstack.objects.ownership import format_identity, identity

_TRIES = 10
"""Attempts if another client, usually a controller, changes the object between the read and the PATCH."""


def take_fields_over(
    takeovers: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], state_identity: str, context: str | None
) -> None:
    """Transfer the fields of objects before the engine creates or updates them. Call it before they are declared.

    `takeovers` are the manifests, with the live metadata that the decision is based on; `state_identity` is this
    state's identity. A preview skips the API server's dry run, which would report the conflict that `up` resolves.
    """
    owners_by_resource = {
        type_and_name(manifest): (manifest, owning_state(metadata)) for manifest, metadata in takeovers
    }

    def add_transfer_hook(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if (args.type_, args.name) not in owners_by_resource:
            return None
        manifest, owner = owners_by_resource[args.type_, args.name]
        name = f"{args.type_}::{args.name}-fields"
        hook = blocking_hook(name, lambda: transfer_fields(manifest, owner, state_identity, context))
        binding = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
        declared_metadata: Any = args.props["metadata"]
        metadata = with_unknown_label(declared_metadata) if pulumi.runtime.is_dry_run() else declared_metadata
        return pulumi.ResourceTransformationResult(
            {**args.props, "metadata": metadata},
            # This hook is the last: the object's own hooks may wait for the deletion of another object of its name.
            pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(hooks=binding)),
        )

    if owners_by_resource:
        pulumi.runtime.register_stack_transformation(add_transfer_hook)


def transfer_fields(manifest: Mapping[str, Any], owner: str, state_identity: str, context: str | None) -> None:
    """Transfer the fields of an object from the state `owner` to this state. Raises ClusterError."""
    run(_transfer(manifest, owner, state_identity, context))


async def _transfer(manifest: Mapping[str, Any], owner: str, state_identity: str, context: str | None) -> None:
    api, path = await connect(context), paths.object_path(manifest)
    manager, name = field_manager(state_identity), format_identity(identity(manifest))
    for _ in range(_TRIES):
        metadata = await live_metadata(api, path)
        if metadata is None:
            return
        live_owner = owning_state(metadata)
        if live_owner not in (owner, state_identity):
            raise ClusterError(
                f"{name}: state {live_owner} of this stack took it over while this `up` was running, so this `up` did "
                "not write it. Run `up` again to see the remedies"
            )
        if not has_fields_of_other_states(metadata, manager):
            return
        change = {
            # A concurrent write makes this patch a conflict, and the loop checks the owner again.
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {STATE: state_identity},
            "managedFields": managed_fields_after_transfer(metadata["managedFields"], manager),
        }
        if await merge_patch(
            api, f"{path}?fieldManager={manager}", {"metadata": change}, f"{name} cannot be taken over"
        ):
            return
    raise ClusterError(f"{name} changed {_TRIES} times while this `up` tried to take it over; run `up` again")
