"""The engine's state that owns an object: two checkouts may have two states of a stack of the same name. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, listed, shown

MEMORY = "state-identity"
"""The name of the Stash whose `output` is the identity of the state."""
NO_ID = "none"
"""The owner in `cluster.takeOver` of objects with the stack's label and without an identity: those of an earlier
release."""


@dataclass(frozen=True, kw_only=True)
class StateObject:
    """An object that is a resource of the engine's state."""

    api_version: str
    urn: str
    retained: bool = False
    """Whether the object remains in the cluster when the engine removes it from the state."""
    of_launch: bool = False
    """Whether it is a launch or one of its companions, which are decided about with the runs."""


@dataclass(frozen=True)
class OwnState:
    identity: str
    """Generated once, stored in the state, and set on every object that it declares."""
    held: frozenset[Identity] = frozenset()
    """The objects in the state."""
    revisions: Mapping[str, str] = field(default_factory=dict)
    """The revisions of operators' definitions in the state, by name (guards/definitions.py)."""
    moved: frozenset[str] = frozenset()
    """The definitions that an earlier release of Trainstack stored one by one, until an `up` is complete."""
    objects: Mapping[Identity, StateObject] = field(default_factory=dict)
    """Those of `held` that are resources of their own: all but the definitions of a release."""
    stack: str = ""
    """The stack in the labels of its objects; empty if it has none, or objects of several stacks."""


@dataclass(frozen=True)
class Verdict:
    refusal: str = ""
    """Why the change is refused, with the remedies; empty if it is allowed."""
    notes: tuple[str, ...] = ()
    """Warnings."""


def owner_of(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get(STATE) or NO_ID)


def renamed(live: Mapping[Identity, Mapping[str, Any]], own: OwnState, stack: str) -> str:
    """Return the refusal of any change of a stack that `pulumi stack rename` has renamed, or an empty string.

    `live` is the metadata of the live objects of the state.
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

    Terminating objects are left out, and objects without an identity that this state has.
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
    """Decide about the objects of other states, as `of_others` returns them.

    A state that has only objects that `destroy` leaves in the cluster (`retained`) was destroyed: the stack takes them
    back. `take_over`: the identities whose objects this state takes over. `adopted`: single objects that it takes over.
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
