"""An entry of a section has every field of the object, or there is none."""

from typing import Any

import pytest

from tests.unit.onboarding.convert.make import CLAIM, read
from trainstack.onboarding.convert.section_entries import build_entry

CLASS = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: csi.example.org\n"


def entry(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the element of an object, and the fields that it would lose."""
    return build_entry(read(text)[0], "vision", "lab")


def test_a_class_has_the_defaults_of_the_api() -> None:
    """Those of the settings differ: they keep volumes, and wait for the first pod."""
    default = 'metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}'
    assert entry(CLASS.replace("metadata: {name: fast}", default)) == (
        {
            "name": "fast",
            "provisioner": "csi.example.org",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "",
    )


def test_a_claim_may_name_its_volume() -> None:
    """A claim of a file is not adopted; a live one is."""
    element, lost = entry(CLAIM.replace("storageClassName: fast", 'storageClassName: "", volumeName: v'))
    assert (element, lost) == (
        {
            "name": "data",
            "namespace": "vision",
            "storageClass": "",
            "size": "10Gi",
            "accessModes": ["ReadWriteMany"],
            "volumeName": "v",
        },
        "",
    )
    live, _ = entry(CLAIM.replace("namespace: vision", "namespace: vision, uid: 0d1f"))
    assert live is not None
    assert live["adopt"] is True


def test_a_folder_of_a_node_is_not_checked_unless_the_file_says_so() -> None:
    """The settings' default is that the folder exists."""
    element, _ = entry(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {capacity: {storage: 1Ti}, "
        "accessModes: [ReadWriteOnce], hostPath: {path: /data}, claimRef: {namespace: vision, name: data}}\n"
    )
    assert element is not None
    assert (element["hostPathType"], element["claim"]) == ("", "vision/data")


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("namespace: vision", "namespace: vision, annotations: {a: b}", "metadata.annotations"),
        ("storageClassName: fast", "volumeMode: Block", "spec.volumeMode"),
        ("accessModes: [ReadWriteMany]", "accessModes: []", "accessModes"),
        ("resources: {requests: {storage: 10Gi}}", "resources: {}", "its form is not that of the API"),
    ],
)
def test_what_an_entry_does_not_have_is_named(old: str, new: str, lost: str) -> None:
    """So that the object is converted in another way, or left out."""
    element, message = entry(CLAIM.replace(old, new))
    assert element is None
    assert lost in message
