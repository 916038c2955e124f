"""An `up` needs no refresh if the live objects match the engine's state."""

from typing import Any

import pytest

from tests.unit.lifecycle.recovery.test_diagnosis import make_identity, make_pending, make_resource, make_state
from trainstack.lifecycle.drift import has_drifted
from trainstack.objects.labels import RUN, STACK
from trainstack.objects.ownership import Identity

QUEUE: Identity = ("LocalQueue", "lab", "open")
SECRET: Identity = ("Secret", "lab", "key")
JOB: Identity = ("Job", "lab", "digits-0f3c9a1b2d-aaaaaa")


def make_metadata(**changes: Any) -> dict[str, Any]:
    """Return the metadata of an object as the engine recorded it, with changes."""
    recorded = {"uid": "1", "resourceVersion": "5", "generation": 1, "labels": {STACK: "lab"}}
    return {key: value for key, value in {**recorded, **changes}.items() if value is not None}


def make_recorded(who: Identity, **changes: Any) -> dict[str, Any]:
    """Return a resource of the state with the live object's metadata in its outputs."""
    return make_resource(who, outputs={"metadata": make_metadata()}, **changes)


def test_the_program_compares_the_definitions_of_releases() -> None:
    """A refresh would not read them: the state has only their revisions."""
    urn = "urn:pulumi:lab::trainstack::trainstack:platform:Definitions$pulumi:index:Stash::kueue-definitions"
    release = {"input": {"definitions": {"a.example.org": "0" * 16}}}
    stash = {"urn": urn, "custom": True, "type": "pulumi:index:Stash", "outputs": release}
    state = make_state(stash)
    assert [recorded.identity[2] for recorded in state.objects] == ["a.example.org"]
    assert not has_drifted(state, {})


@pytest.mark.parametrize(
    ("who", "changes", "drifted"),
    [
        (SECRET, {}, False),
        (SECRET, {"resourceVersion": "6"}, True),
        (SECRET, {"uid": "2"}, True),
        (SECRET, {"deletionTimestamp": "2026-11-22T12:00:00Z"}, True),
        # The queue's status.
        (QUEUE, {"resourceVersion": "6"}, False),
        (QUEUE, {"resourceVersion": "6", "generation": 2}, True),
        (QUEUE, {"resourceVersion": "6", "labels": {STACK: "lab", "team": "a"}}, True),
        (QUEUE, {"resourceVersion": "6", "labels": None}, True),
        (QUEUE, {"resourceVersion": "6", "annotations": {"note": "x"}}, True),
        (QUEUE, {"resourceVersion": "6", "annotations": {}}, False),
        (QUEUE, {"resourceVersion": "6", "finalizers": ["x/y"]}, True),
        (QUEUE, {"resourceVersion": "6", "ownerReferences": [{"uid": "9"}]}, True),
        # Kueue admits a launch, which is never edited.
        (JOB, {"resourceVersion": "6", "generation": 2}, False),
        (JOB, {"uid": "2"}, True),
        (JOB, {"deletionTimestamp": "2026-11-22T12:00:00Z"}, True),
    ],
)
def test_which_differences_count_as_drift(who: Identity, changes: dict[str, Any], drifted: bool) -> None:
    """Any new resourceVersion counts, except of an object whose controller writes its status."""
    labels = {RUN: "digits-0f3c9a1b2d"} if who == JOB else {}
    resource = make_recorded(who, inputs={"metadata": {"labels": labels}})
    assert has_drifted(make_state(make_identity("a"), resource), {who: make_metadata(**changes)}) == drifted


def test_a_missing_object_is_drift() -> None:
    assert has_drifted(make_state(make_recorded(SECRET), make_recorded(QUEUE)), {SECRET: make_metadata()})


@pytest.mark.parametrize(
    "changes",
    [
        {"initErrors": ["timed out"]},
        {"delete": True},
        {"outputs": {"metadata": "encrypted"}},
        {"outputs": None},
    ],
    ids=str,
)
def test_an_unfinished_or_encrypted_resource_needs_a_refresh(changes: dict[str, Any]) -> None:
    """The resource cannot be compared."""
    resource = {**make_recorded(SECRET), **changes}
    assert has_drifted(make_state(resource), {SECRET: make_metadata()})


def test_a_resource_of_another_provider_needs_a_refresh() -> None:
    """The program of a project may declare some, whose objects only their provider can read."""
    bucket = {"urn": "urn:pulumi:lab::trainstack::aws:s3/bucket:Bucket::data", "type": "aws:s3/bucket:Bucket"}
    assert has_drifted(make_state({**bucket, "custom": True, "id": "data"}), {})


def test_a_pending_operation_needs_a_refresh() -> None:
    """The engine was interrupted."""
    assert has_drifted(make_state(pending=(make_pending(SECRET),)), {})
    assert not has_drifted(make_state(), {})
