"""An object in the engine's state is deleted only while its live labels show that the stack and the state own it."""

from typing import Any

import pytest

from trainstack.guards.deletions import owner_refusal
from trainstack.objects.ownership import Identity

OWN, OTHER = "a" * 32, "b" * 32
CLAIM: Identity = ("PersistentVolumeClaim", "lab", "data")
CLASS: Identity = ("StorageClass", None, "fast")
URN = "urn:pulumi:lab::trainstack::trainstack:training:Volumes$kubernetes:core/v1:PersistentVolumeClaim::lab/data"
FORGET = f"`pulumi state delete --target-dependents --yes -s lab '{URN}'`"


def refusal(who: Identity = CLAIM, *, stack: str | None = "lab", state: str | None = OWN, **options: Any) -> str:
    """Return the refusal for a live object with these marks."""
    labels = {} if stack is None else {"trainstack.dev/stack": stack}
    annotations = {} if state is None else {"trainstack.dev/state": state}
    metadata = {"labels": labels, "annotations": annotations}
    return owner_refusal(who, metadata, urn=URN, stack="lab", state_identity=OWN, **options)


def test_the_stacks_own_object_is_deleted() -> None:
    """So is one of a state whose objects the stack takes over."""
    assert refusal() == ""
    assert refusal(state=OTHER, take_over=[OTHER]) == ""


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ({"stack": "team"}, "it belongs to stack 'team'"),
        ({"stack": "team", "state": OTHER}, "it belongs to stack 'team'"),
        ({"state": OTHER}, f"state {OTHER} of the stack owns it"),
    ],
)
def test_an_object_of_another_owner_is_not_deleted(marks: dict[str, Any], reason: str) -> None:
    """The remedy leaves the object in the cluster."""
    text = refusal(**marks)
    assert text.startswith(
        "PersistentVolumeClaim lab/data is in the state of stack 'lab', and this change would delete"
    )
    assert reason in text
    assert FORGET in text
    assert "kubectl" not in text


@pytest.mark.parametrize(
    ("who", "marks", "command"),
    [
        (CLAIM, {"stack": None}, "label --overwrite persistentvolumeclaim data -n lab trainstack.dev/stack=lab"),
        (CLAIM, {"stack": ""}, "label --overwrite persistentvolumeclaim data -n lab trainstack.dev/stack=lab"),
        (CLASS, {"state": None}, f"annotate --overwrite storageclass fast trainstack.dev/state={OWN}"),
        (CLASS, {"stack": None, "state": None}, "label --overwrite storageclass fast trainstack.dev/stack=lab"),
    ],
)
def test_an_object_without_its_marks_is_not_deleted(who: Identity, marks: dict[str, Any], command: str) -> None:
    """The remedies restore the mark, or leave the object in the cluster."""
    text = refusal(who, **marks)
    assert f"(kubectl {command})" in text
    assert FORGET in text


def test_metadata_without_labels_has_no_owner() -> None:
    """The API server leaves out empty maps."""
    assert "its label trainstack.dev/stack was removed" in owner_refusal(
        CLAIM, {}, urn=URN, stack="lab", state_identity=OWN
    )
