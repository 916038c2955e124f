"""Refusals to change objects of another state: two checkouts may have two states of a stack of one name. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, listed, shown

MEMORY = "state-identity"
"""The name of the Stash whose `output` is the identity of the state."""
NO_ID = "none"
"""The state in `cluster.takeOver` of objects that have the stack's label but no identity, from earlier releases."""


@dataclass(frozen=True, kw_only=True)
class StateObject:
    """An object that is a resource of the engine's state."""

    api_version: str
    urn: str
    retained: bool = False
    """Whether the object remains in the cluster when the engine removes it from the state."""
    of_launch: bool = False
    """Whether it is a launch or its companion; the decision about the runs covers both."""


@dataclass(frozen=True)
class OwnState:
    """The engine's state of this stack, and the objects in it."""

    identity: str
    """An id that is generated once, stored in the state, and set on every object that the state declares."""
    held: frozenset[Identity] = frozenset()
    """The objects in the state."""
    revisions: Mapping[str, str] = field(default_factory=dict)
    """The revisions of operators' definitions in the state, by name (guards/definitions.py)."""
    moved: frozenset[str] = frozenset()
    """The names of definitions that an earlier release stored as one resource each, until an `up` is complete."""
    objects: Mapping[Identity, StateObject] = field(default_factory=dict)
    """The objects that are resources of their own: all except the definitions of a release."""
    stack: str = ""
    """The stack in the labels of its objects; empty if it has no objects, or those of several stacks."""


@dataclass(frozen=True)
class Verdict:
    """The decision about objects of other states."""

    refusal: str = ""
    """The reason to refuse the change, with the remedies; empty if it is allowed."""
    notes: tuple[str, ...] = ()
    """Warnings."""


def owner_of(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(STATE) or NO_ID)


def renamed(live: Mapping[Identity, Mapping[str, Any]], own: OwnState, stack: str) -> str:
    """Return the refusal of any change of a stack that `pulumi stack rename` has renamed, or an empty string.

    `live_metadata`: the metadata of the live objects of the state.
    """
    marked = [who for who in sorted(live, key=shown) if (live[who].get("labels") or {}).get(STACK) == own.stack]
    if own.stack in ("", stack) or not marked:
        return ""
    return (
        f"stack {own.stack!r} was renamed to {stack!r}, but its objects have the label {STACK}={own.stack}: "
        f"{listed([*map(shown, marked)])}. Nothing was changed. Rename it back (pulumi stack rename {own.stack} -s "
        f"{stack}), or change the labels with the commands of `trainstack doctor -s {stack}`"
    )


def of_others(live: Mapping[Identity, Mapping[str, Any]], own: OwnState, stack: str) -> dict[str, tuple[Identity, ...]]:
    """Return the live objects with this stack's label that belong to another state, by that state's identity.

    The result omits terminating objects, and objects without an identity that are in this state.
    """
    found: dict[str, list[Identity]] = {}
    for who in sorted(live, key=shown):
        metadata = live[who]
        owner = owner_of(metadata)
        is_own = owner == own.identity or (owner == NO_ID and who in own.held)
        if (metadata.get("labels") or {}).get(STACK) == stack and not is_own and "deletionTimestamp" not in metadata:
            found.setdefault(owner, []).append(who)
    return {owner: tuple(objects) for owner, objects in found.items()}


def judge(
    others: Mapping[str, Sequence[Identity]],
    own: OwnState,
    stack: str,
    *,
    take_over: Collection[str],
    adopted: Collection[Identity],
    retained: Collection[Identity],
) -> Verdict:
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
        for owner in sorted({*take_over} - others.keys())
    ]
    refused: dict[str, Sequence[Identity]] = {}
    for owner, objects in sorted(others.items()):
        rest = [who for who in objects if who not in adopted]
        if not rest:
            continue
        if owner in take_over:
            notes.append(f"{listed([*map(shown, rest)])}: taken over from {_state(owner)} (cluster.takeOver)")
        elif all(who in retained for who in rest):
            notes.append(f"{listed([*map(shown, rest)])}: left by an earlier `destroy` of {_state(owner)}; taken back")
        else:
            refused[owner] = rest
    return Verdict(_refusal(refused, own, stack) if refused else "", tuple(notes))


def taken_away(
    others: Mapping[str, Sequence[Identity]], own: OwnState, stack: str, take_over: Collection[str] = ()
) -> str:
    """Return the refusal to delete objects that another state now owns, or an empty string."""
    held = {
        owner: [who for who in objects if who in own.held]
        for owner, objects in sorted(others.items())
        if owner not in take_over
    }
    found = {owner: objects for owner, objects in held.items() if objects}
    return _refusal(found, own, stack) if found else ""


def _refusal(refused: Mapping[str, Sequence[Identity]], own: OwnState, stack: str) -> str:
    owned = "; ".join(f"{_state(owner)} owns {listed([*map(shown, objects)])}" for owner, objects in refused.items())
    return (
        f"objects of stack {stack!r} belong to another state of that stack, not to this one ({own.identity}): "
        f"{owned}. Nothing was changed. Work with the state that owns them: use its backend (PULUMI_BACKEND_URL, or "
        f"the checkout that has it), or run `pulumi stack export` there and `pulumi stack import -s {stack}` here. If "
        f"that state is lost or no longer used, take over its objects: add `{entry(refused)}` "
        f"into Pulumi.{stack}.yaml and run the command again; `adopt: true` takes over a single object"
    )


def entry(owners: Iterable[str]) -> str:
    return f"trainstack:cluster: {{takeOver: [{', '.join(owners)}]}}"


def _state(owner: str) -> str:
    return "a state without an identity (none)" if owner == NO_ID else f"state {owner}"
