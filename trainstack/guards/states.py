"""Which state of the stack owns an object? Two checkouts may each have a state of a stack of the same name.

Pure: from the metadata of live objects, and what this state knows, to refusals.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity, shown

MEMORY = "state-identity"
"""The name of the Stash whose `output` is the identity of the state."""
NO_ID = "none"
"""What `cluster.takeOver` calls the objects that bear the stack's mark and no identity: a release before this wrote
them."""
_NAMED_AT_ONCE = 5
"""Objects that a message lists before it counts the rest."""


@dataclass(frozen=True)
class OwnState:
    """The state of the running operation."""

    identity: str
    """Generated once, stored in the state, and set on every object that it declares."""
    held: frozenset[Identity] = frozenset()
    """The objects in the state."""


@dataclass(frozen=True)
class Verdict:
    """What the objects of other states mean for a change."""

    refusal: str = ""
    """Why the change is refused, with the remedies; empty if it is allowed."""
    notes: tuple[str, ...] = ()
    """Warnings."""


def owner_of(metadata: Mapping[str, Any]) -> str:
    """The identity of the state that declared a live object; NO_ID where it bears none."""
    return str((metadata.get("annotations") or {}).get(STATE) or NO_ID)


def of_others(live: Mapping[Identity, Mapping[str, Any]], own: OwnState, stack: str) -> dict[str, tuple[Identity, ...]]:
    """The live objects that bear the mark of this stack and belong to another state of it, by that state's identity.

    What is being deleted is left out, and so is what bears no identity as long as this state holds it.
    """
    found: dict[str, list[Identity]] = {}
    for who in sorted(live, key=shown):
        metadata = live[who]
        owner = owner_of(metadata)
        ours = owner == own.identity or (owner == NO_ID and who in own.held)
        if (metadata.get("labels") or {}).get(STACK) == stack and not ours and "deletionTimestamp" not in metadata:
            found.setdefault(owner, []).append(who)
    return {owner: tuple(several) for owner, several in found.items()}


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

    A state whose objects are all of those that `destroy` retains was destroyed: the stack takes them back.

    Args:
        others: as `of_others` returns them.
        own: this state.
        stack: this stack.
        take_over: the identities whose objects this state takes over.
        adopted: the objects that it takes over by `adopt: true`.
        retained: what `destroy` leaves in the cluster.

    """
    notes = [
        f"trainstack:cluster: takeOver: no object of stack {stack!r} belongs to state {owner}: remove the entry"
        for owner in sorted({*take_over} - others.keys())
    ]
    refused: dict[str, Sequence[Identity]] = {}
    for owner, several in sorted(others.items()):
        rest = [who for who in several if who not in adopted]
        if not rest:
            continue
        if owner in take_over:
            notes.append(f"{_several(rest)}: taken over from {_state(owner)} (cluster.takeOver)")
        elif all(who in retained for who in rest):
            notes.append(f"{_several(rest)}: left by an earlier `destroy` of {_state(owner)}; taken back")
        else:
            refused[owner] = rest
    return Verdict(_refusal(refused, own, stack) if refused else "", tuple(notes))


def taken_away(
    others: Mapping[str, Sequence[Identity]], own: OwnState, stack: str, take_over: Collection[str] = ()
) -> str:
    """The refusal to delete objects that another state now owns; empty if there are none."""
    held = {
        owner: [who for who in several if who in own.held]
        for owner, several in others.items()
        if owner not in take_over
    }
    found = {owner: several for owner, several in sorted(held.items()) if several}
    return _refusal(found, own, stack) if found else ""


def _refusal(refused: Mapping[str, Sequence[Identity]], own: OwnState, stack: str) -> str:
    objects = "; ".join(f"{_state(owner)} owns {_several(several)}" for owner, several in refused.items())
    return (
        f"objects of stack {stack!r} belong to another state of that stack, not to this one ({own.identity}): "
        f"{objects}. Nothing was changed. Work with the state that owns them: use its backend (PULUMI_BACKEND_URL, or "
        f"the checkout that has it), or run `pulumi stack export` there and `pulumi stack import -s {stack}` here. If "
        f"that state is lost or no longer used, take over its objects: add `{entry(refused)}` "
        f"into Pulumi.{stack}.yaml and run the command again; `adopt: true` takes over a single object"
    )


def entry(owners: Iterable[str]) -> str:
    """The setting that takes over the objects of these states, ready to paste."""
    return f"trainstack:cluster: {{takeOver: [{', '.join(owners)}]}}"


def _state(owner: str) -> str:
    return "a state without an identity (none)" if owner == NO_ID else f"state {owner}"


def _several(objects: Sequence[Identity]) -> str:
    more = len(objects) - _NAMED_AT_ONCE
    return ", ".join(map(shown, objects[:_NAMED_AT_ONCE])) + (f" and {more} more" if more > 0 else "")
