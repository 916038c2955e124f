"""The state of a stack that owns an object, from live metadata to a refusal with its remedies."""

from typing import Any

import pytest

from trainstack.guards.other_states import (
    NO_STATE_IDENTITY,
    OwnState,
    TakeoverDecision,
    decide_takeover,
    foreign_deletion_refusal,
    objects_of_other_states,
    stack_rename_refusal,
)
from trainstack.objects.labels import STACK, STATE
from trainstack.objects.ownership import Identity

A, B = "a" * 32, "b" * 32
QUEUE: Identity = ("LocalQueue", "lab", "open")
JOB: Identity = ("Job", "lab", "fit")
CLAIM: Identity = ("PersistentVolumeClaim", "lab", "data")
OWN = OwnState(A, frozenset({QUEUE}))


def make_metadata(state: str | None, stack: str = "lab", **more: Any) -> dict[str, Any]:
    """Return the metadata of a live object of a stack, declared by a state."""
    return {"labels": {STACK: stack}, "annotations": {} if state is None else {STATE: state}, **more}


def make_verdict(others: dict[str, tuple[Identity, ...]], **changes: Any) -> TakeoverDecision:
    """Return the verdict on a change."""
    return decide_takeover(
        others, OWN, "lab", **{"take_over": (), "adopted_objects": (), "retained_objects": (), **changes}
    )


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        (make_metadata(A), None),
        (make_metadata(B), B),
        # Without the annotation; this state has the queue, and not the Job.
        (make_metadata(None), NO_STATE_IDENTITY),
        ({"labels": {STACK: "lab"}, "annotations": None}, NO_STATE_IDENTITY),
        # Of another stack: another check refuses it.
        (make_metadata(B, stack="other"), None),
        ({"labels": None}, None),
        (make_metadata(B, deletionTimestamp="2026-11-22T12:00:00Z"), None),
    ],
)
def test_the_owner_of_an_object(metadata: dict[str, Any], owner: str | None) -> None:
    """Its annotation has the owner; without one the state that has the object is the owner."""
    assert objects_of_other_states({JOB: metadata}, OWN, "lab") == ({} if owner is None else {owner: (JOB,)})
    expected = {} if owner in (None, NO_STATE_IDENTITY) else {owner: (QUEUE,)}
    assert objects_of_other_states({QUEUE: metadata}, OWN, "lab") == expected


def test_the_refusal_names_objects_states_and_remedies() -> None:
    """The refusal has all states, and the first objects of many."""
    many = tuple(("ConfigMap", "lab", f"ledger-{number}") for number in range(7))
    text = make_verdict({B: (CLAIM, JOB), NO_STATE_IDENTITY: many}).refusal
    assert f"this one ({A})" in text
    assert f"state {B} owns PersistentVolumeClaim lab/data, Job lab/fit" in text
    assert "a state without an identity (none) owns ConfigMap lab/ledger-0" in text
    assert "and 2 more" in text
    assert f"`trainstack:cluster: {{takeOver: [{B}, none]}}` into Pulumi.lab.yaml" in text
    assert "pulumi stack import -s lab" in text


def test_take_over_and_adopt_allow_the_change() -> None:
    """`takeOver` allows all objects of a state, `adopt: true` one object. An entry without objects is a warning."""
    verdict = make_verdict({B: (JOB,)}, take_over=(B,))
    assert (verdict.refusal, len(verdict.notes)) == ("", 1)
    assert verdict.notes[0].startswith(f"Job lab/fit: taken over from state {B}")
    assert make_verdict({B: (QUEUE,)}, adopted_objects=(QUEUE,)) == TakeoverDecision()
    assert make_verdict({B: (QUEUE, JOB)}, adopted_objects=(QUEUE,)).refusal
    (note,) = make_verdict({}, take_over=(B,)).notes
    assert note.endswith(f"belongs to state {B}: remove the entry")


def test_objects_that_a_destroy_left_are_taken_over() -> None:
    """The condition is that no object shows that the other state is in use."""
    verdict = make_verdict({B: (CLAIM,)}, retained_objects=(CLAIM,))
    assert (verdict.refusal, len(verdict.notes)) == ("", 1)
    assert make_verdict({B: (CLAIM, JOB)}, retained_objects=(CLAIM,)).refusal


def test_a_destroy_deletes_no_object_that_another_state_took_over() -> None:
    """It deletes only objects that are in this state."""
    assert foreign_deletion_refusal({B: (JOB,)}, OWN, "lab") == ""
    assert f"state {B} owns LocalQueue lab/open" in foreign_deletion_refusal({B: (QUEUE, JOB)}, OWN, "lab")
    assert foreign_deletion_refusal({B: (QUEUE,)}, OWN, "lab", (B,)) == ""


def test_a_renamed_stack_is_refused_with_the_way_back() -> None:
    """The state has objects of another stack, and so has the cluster until their labels are changed."""
    own = OwnState(A, frozenset({JOB, QUEUE}), stack="lab")
    live = {JOB: make_metadata(A), QUEUE: make_metadata(A, stack="new")}
    text = stack_rename_refusal(live, own, "new")
    assert text.startswith(
        "stack 'lab' was renamed to 'new', but its objects have the label trainstack.dev/stack=lab: Job"
    )
    assert "pulumi stack rename lab -s new" in text
    assert "trainstack doctor -s new" in text
    assert stack_rename_refusal(live, own, "lab") == ""
    assert stack_rename_refusal({QUEUE: live[QUEUE]}, own, "new") == ""
    assert stack_rename_refusal(live, OwnState(A, own.object_identities), "new") == ""
