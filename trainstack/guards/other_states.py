"""Refusals to change objects of another state: two checkouts may have two states of a stack of one name. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, format_identity, format_names

IDENTITY_RESOURCE_NAME = "state-identity"
"""The name of the Stash whose `output` is the identity of the state."""
NO_STATE_IDENTITY = "none"
"""The state in `cluster.takeOver` of objects that have the stack's label, but no annotation with an identity."""


@dataclass(frozen=True, kw_only=True)
class StateObject:
    """An object that is a resource of the engine's state."""

    api_version: str
    urn: str
    is_retained: bool = False
    """Whether the object remains in the cluster when the engine removes it from the state."""
    belongs_to_launch: bool = False
    """Whether it is a launch or its companion; the decision about the runs covers both."""


@dataclass(frozen=True)
class OwnState:
    """The engine's state of this stack, and the objects in it."""

    identity: str
    """An id that is generated once, stored in the state, and set on every object that the state declares."""
    object_identities: frozenset[Identity] = frozenset()
    """The objects in the state."""
    revisions: Mapping[str, str] = field(default_factory=dict)
    """The revisions of operators' definitions in the state, by name (guards/definition_releases.py)."""
    objects: Mapping[Identity, StateObject] = field(default_factory=dict)
    """The objects that are resources of their own: all except the definitions of a release."""
    stack: str = ""
    """The stack in the labels of its objects; empty if it has no objects, or those of several stacks."""


@dataclass(frozen=True)
class TakeoverDecision:
    """The decision about objects of other states."""

    refusal: str = ""
    """The reason to refuse the change, with the remedies; empty if it is allowed."""
    notes: tuple[str, ...] = ()
    """Warnings."""


def owning_state(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(STATE) or NO_STATE_IDENTITY)


def stack_rename_refusal(live_metadata: Mapping[Identity, Mapping[str, Any]], own_state: OwnState, stack: str) -> str:
    """Return the refusal of any change of a stack that `pulumi stack rename` has renamed, or an empty string.

    `live_metadata`: the metadata of the live objects of the state.
    """
    labeled_objects = [
        key
        for key in sorted(live_metadata, key=format_identity)
        if (live_metadata[key].get("labels") or {}).get(STACK) == own_state.stack
    ]
    if own_state.stack in ("", stack) or not labeled_objects:
        return ""
    return (
        f"stack {own_state.stack!r} was renamed to {stack!r}, but its objects have the label "
        f"{STACK}={own_state.stack}: {format_names([*map(format_identity, labeled_objects)])}. Nothing was changed. "
        f"Rename it back (pulumi stack rename {own_state.stack} -s {stack}), or change the labels with the commands of "
        f"`trainstack doctor -s {stack}`"
    )


def objects_of_other_states(
    live_metadata: Mapping[Identity, Mapping[str, Any]], own_state: OwnState, stack: str
) -> dict[str, tuple[Identity, ...]]:
    """Return the live objects with this stack's label that belong to another state, by that state's identity.

    The result omits terminating objects, and objects without an identity that are in this state.
    """
    objects_by_state: dict[str, list[Identity]] = {}
    for key in sorted(live_metadata, key=format_identity):
        metadata = live_metadata[key]
        owner = owning_state(metadata)
        is_own = owner == own_state.identity or (owner == NO_STATE_IDENTITY and key in own_state.object_identities)
        if (metadata.get("labels") or {}).get(STACK) == stack and not is_own and "deletionTimestamp" not in metadata:
            objects_by_state.setdefault(owner, []).append(key)
    return {owner: tuple(objects) for owner, objects in objects_by_state.items()}


def decide_takeover(
    foreign_objects: Mapping[str, Sequence[Identity]],
    own_state: OwnState,
    stack: str,
    *,
    take_over: Collection[str],
    adopted_objects: Collection[Identity],
    retained_objects: Collection[Identity],
) -> TakeoverDecision:
    """Decide about the objects of other states.

    Args:
        foreign_objects: the result of `objects_of_other_states`.
        own_state: the state of this stack.
        stack: the name of the stack.
        take_over: the identities of the states whose objects this state takes over.
        adopted_objects: single objects that it takes over.
        retained_objects: the objects that `destroy` leaves in the cluster. A state with no other objects was destroyed,
            so the stack takes them back.

    """
    notes = [
        f"trainstack:cluster: takeOver: no object of stack {stack!r} belongs to state {owner}: remove the entry"
        for owner in sorted({*take_over} - foreign_objects.keys())
    ]
    refused_objects: dict[str, Sequence[Identity]] = {}
    for owner, objects in sorted(foreign_objects.items()):
        unadopted_objects = [key for key in objects if key not in adopted_objects]
        if not unadopted_objects:
            continue
        if owner in take_over:
            notes.append(
                f"{format_names([*map(format_identity, unadopted_objects)])}: taken over from {_format_state(owner)} "
                "(cluster.takeOver)"
            )
        elif all(key in retained_objects for key in unadopted_objects):
            notes.append(
                f"{format_names([*map(format_identity, unadopted_objects)])}: left by an earlier `destroy` of "
                f"{_format_state(owner)}; taken back"
            )
        else:
            refused_objects[owner] = unadopted_objects
    return TakeoverDecision(_format_refusal(refused_objects, own_state, stack) if refused_objects else "", tuple(notes))


def foreign_deletion_refusal(
    foreign_objects: Mapping[str, Sequence[Identity]], own_state: OwnState, stack: str, take_over: Collection[str] = ()
) -> str:
    """Return the refusal to delete objects that another state now owns, or an empty string."""
    recorded_objects = {
        owner: [key for key in objects if key in own_state.object_identities]
        for owner, objects in sorted(foreign_objects.items())
        if owner not in take_over
    }
    lost_objects = {owner: objects for owner, objects in recorded_objects.items() if objects}
    return _format_refusal(lost_objects, own_state, stack) if lost_objects else ""


def _format_refusal(refused_objects: Mapping[str, Sequence[Identity]], own_state: OwnState, stack: str) -> str:
    owners_text = "; ".join(
        f"{_format_state(owner)} owns {format_names([*map(format_identity, objects)])}"
        for owner, objects in refused_objects.items()
    )
    return (
        f"objects of stack {stack!r} belong to another state of that stack, not to this one ({own_state.identity}): "
        f"{owners_text}. Nothing was changed. Work with the state that owns them: use its backend (PULUMI_BACKEND_URL, "
        f"or the checkout that has it), or run `pulumi stack export` there and `pulumi stack import -s {stack}` here. "
        f"If that state is lost or no longer used, take over its objects: add `{take_over_setting(refused_objects)}` "
        f"into Pulumi.{stack}.yaml and run the command again; `adopt: true` takes over a single object"
    )


def take_over_setting(owners: Iterable[str]) -> str:
    return f"trainstack:cluster: {{takeOver: [{', '.join(owners)}]}}"


def _format_state(owner: str) -> str:
    return "a state without an identity (none)" if owner == NO_STATE_IDENTITY else f"state {owner}"
