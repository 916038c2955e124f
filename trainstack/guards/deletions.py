"""Refusals to delete objects in the engine's state that have another owner by now. Pure.

The engine deletes every object in its state that the program no longer declares, whatever the live owner.
"""

from collections.abc import Collection, Mapping
from typing import Any

from trainstack.guards.states import NO_ID, OwnState, owner_of
from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, kubectl_arguments, shown


def owner_refusal(
    who: Identity,
    metadata: Mapping[str, Any],
    *,
    urn: str,
    stack: str,
    state: str,
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
    label, owner = (metadata.get("labels") or {}).get(STACK), owner_of(metadata)
    if label == stack and owner in (state, *take_over):
        return ""
    restore = ""
    # A missing label or annotation may be an edit of this stack's object, so the refusal shows how to restore it.
    if label == stack and owner != NO_ID:
        whose = f"state {owner} of the stack owns it"
    elif label and label != stack:
        whose = f"it belongs to stack {label!r}"
    else:
        mark, value, verb = (STATE, state, "annotate") if label else (STACK, stack, "label")
        whose = f"its {'annotation' if label else 'label'} {mark} was removed, so its owner is unknown"
        restore = (
            f"If it is this stack's object, restore it (kubectl {verb} --overwrite {kubectl_arguments(who)} "
            f"{mark}={value}). Otherwise, "
        )
    return (
        f"{shown(who)} is in the state of stack {stack!r}, and this change would delete it, but {whose}. "
        f"{restore or 'To keep it, '}remove it from this stack's state, which leaves it in the cluster: "
        f"{forget_command(urn, stack)}"
    )


def owner_refusals(
    live: Mapping[Identity, Mapping[str, Any]], own: OwnState, stack: str, take_over: Collection[str] = ()
) -> list[str]:
    """Return a refusal for each object in the state that the engine would delete although another owner has it.

    `live_metadata`: the metadata of live objects that are resources of the state.
    """
    refusals = (
        owner_refusal(who, metadata, urn=own.objects[who].urn, stack=stack, state=own.identity, take_over=take_over)
        for who, metadata in live.items()
        if "deletionTimestamp" not in metadata and not own.objects[who].retained
    )
    return sorted(filter(None, refusals))


def forget_command(urn: str, stack: str) -> str:
    """Return the command that removes a resource from the engine's state, and keeps its object in the cluster.

    The command also removes the resources that depend on it; the next `up` takes their objects over again.
    """
    return f"`pulumi state delete --target-dependents --yes -s {stack} '{urn}'`"
