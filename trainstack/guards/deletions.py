"""Refusals to delete objects in the engine's state that have another owner by now. Pure.

The engine deletes every object in its state that the program no longer declares, whatever the live owner.
"""

from collections.abc import Collection, Mapping
from typing import Any

from trainstack.guards.other_states import NO_STATE_IDENTITY, OwnState, owning_state
from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, format_identity, kubectl_arguments


def owner_refusal(
    object_identity: Identity,
    metadata: Mapping[str, Any],
    *,
    urn: str,
    stack: str,
    state_identity: str,
    take_over: Collection[str] = (),
) -> str:
    """Return a refusal to delete a live object, or an empty string if the stack and the state own it.

    Args:
        object_identity: the object.
        metadata: the metadata of the live object, which is not terminating.
        urn: the URN of its resource in the engine's state.
        stack: the name of the stack.
        state_identity: the identity of the engine's state.
        take_over: the identities of the states whose objects this state takes over.

    """
    stack_label, owner = (metadata.get("labels") or {}).get(STACK), owning_state(metadata)
    if stack_label == stack and owner in (state_identity, *take_over):
        return ""
    restore_hint = ""
    # A missing label or annotation may be an edit of this stack's object, so the refusal shows how to restore it.
    if stack_label == stack and owner != NO_STATE_IDENTITY:
        owner_clause = f"state {owner} of the stack owns it"
    elif stack_label and stack_label != stack:
        owner_clause = f"it belongs to stack {stack_label!r}"
    else:
        metadata_key, value, verb = (STATE, state_identity, "annotate") if stack_label else (STACK, stack, "label")
        owner_clause = (
            f"its {'annotation' if stack_label else 'label'} {metadata_key} was removed, so its owner is unknown"
        )
        restore_hint = (
            f"If it is this stack's object, restore it (kubectl {verb} --overwrite "
            f"{kubectl_arguments(object_identity)} {metadata_key}={value}). Otherwise, "
        )
    return (
        f"{format_identity(object_identity)} is in the state of stack {stack!r}, and this change would delete it, but "
        f"{owner_clause}. {restore_hint or 'To keep it, '}remove it from this stack's state, which leaves it in the "
        f"cluster: {forget_command(urn, stack)}"
    )


def owner_refusals(
    live_metadata: Mapping[Identity, Mapping[str, Any]],
    own_state: OwnState,
    stack: str,
    take_over: Collection[str] = (),
) -> list[str]:
    """Return a refusal for each object in the state that the engine would delete although another owner has it.

    `live_metadata`: the metadata of live objects that are resources of the state.
    """
    refusals = (
        owner_refusal(
            key,
            metadata,
            urn=own_state.objects[key].urn,
            stack=stack,
            state_identity=own_state.identity,
            take_over=take_over,
        )
        for key, metadata in live_metadata.items()
        if "deletionTimestamp" not in metadata and not own_state.objects[key].is_retained
    )
    return sorted(filter(None, refusals))


def forget_command(urn: str, stack: str) -> str:
    """Return the command that removes a resource from the engine's state, and keeps its object in the cluster.

    The command also removes the resources that depend on it; the next `up` takes their objects over again.
    """
    return f"`pulumi state delete --target-dependents --yes -s {stack} '{urn}'`"
