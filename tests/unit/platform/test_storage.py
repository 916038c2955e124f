"""Storage, as manifests."""

import pytest

from tests.unit.make import make_volume
from trainstack.platform.storage import claim, persistent_volume, storage_class
from trainstack.settings.sections.affinity import NodeRequirement, NodeSelector, NodeTerm
from trainstack.settings.sections.storage import (
    DataSource,
    DataSourceReference,
    PersistentVolume,
    StorageClass,
    TopologyTerm,
    TopologyValues,
    VolumeNodeAffinity,
)

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"}


def test_a_storage_class_has_everything_that_cannot_be_edited_later() -> None:
    """Binding mode, reclaim policy and parameters are written out, even if they are defaults."""
    declared = StorageClass(name="shared", provisioner="rancher.io/local-path", parameters={"kind": "rwx"})
    assert storage_class(declared, "dev") == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "shared", "labels": MARK},
        "provisioner": "rancher.io/local-path",
        "parameters": {"kind": "rwx"},
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": False,
    }


def test_a_volume_on_one_node_is_bound_to_that_node() -> None:
    """The folder must exist: the kubelet creates none."""
    declared = PersistentVolume(
        name="traindb-models-volume",
        storage_class="manual",
        size="10Gi",
        access_modes=("ReadWriteMany",),
        host_path="/home/traindbjst/traindb/models",
        node="node-1",
        labels={"type": "traindb"},
    )
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    assert persistent_volume(declared, "dev") == {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "traindb-models-volume", "labels": {"type": "traindb", **MARK}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "10Gi"},
            "hostPath": {"path": "/home/traindbjst/traindb/models", "type": "Directory"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "manual",
            "volumeMode": "Filesystem",
        },
    }


def test_a_volume_of_any_source_has_the_fields_of_its_type() -> None:
    """It is reserved for a claim, and has no class, so claims of class "" bind to it."""
    term = NodeTerm(match_expressions=(NodeRequirement(key="zone", operator="In", values=("a", "b")),))
    csi = {"driver": "lustre.csi.example.com", "volumeHandle": "fs-1#a", "volumeAttributes": {"mountname": "x"}}
    declared = PersistentVolume(
        name="scratch",
        size="10Ti",
        access_modes=("ReadWriteMany",),
        source={"csi": csi},
        node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,))),
        mount_options=("flock",),
        claim="vision/scratch",
        reclaim_policy="Delete",
    )
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "vision", "name": "scratch"}
    zones = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    assert persistent_volume(declared, "dev")["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "10Ti"},
        "claimRef": reference,
        "csi": csi,
        "mountOptions": ["flock"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}},
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": "Filesystem",
    }


def test_a_class_has_mount_options_and_topologies() -> None:
    zones = TopologyValues(key="topology.kubernetes.io/zone", values=("a", "b"))
    declared = StorageClass(
        name="nfs",
        provisioner="nfs.csi.k8s.io",
        mount_options=("nconnect=8", "vers=4.1"),
        allowed_topologies=(TopologyTerm(match_label_expressions=(zones,)),),
    )
    manifest = storage_class(declared, "dev")
    assert manifest["mountOptions"] == ["nconnect=8", "vers=4.1"]
    assert manifest["allowedTopologies"] == [
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}]}
    ]


@pytest.mark.parametrize(("storage_class_name", "fields"), [(None, {}), ("", {"storageClassName": ""})])
def test_a_claim_without_a_class_is_not_one_of_the_default_class(
    storage_class_name: str | None, fields: dict[str, str]
) -> None:
    spec = claim(make_volume(storage_class=storage_class_name), "dev")["spec"]
    assert {key: value for key, value in spec.items() if key == "storageClassName"} == fields


def test_a_claim_may_name_its_volume_and_the_source_of_its_content() -> None:
    declared = make_volume(
        volume_name="disk",
        data_source=DataSource(api_group="snapshot.storage.k8s.io", kind="VolumeSnapshot", name="s"),
        data_source_ref=DataSourceReference(kind="PersistentVolumeClaim", name="old", namespace="other"),
    )
    spec = claim(declared, "dev")["spec"]
    assert spec["volumeName"] == "disk"
    assert spec["dataSource"] == {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    assert spec["dataSourceRef"] == {"kind": "PersistentVolumeClaim", "name": "old", "namespace": "other"}


def test_a_claim_is_not_waited_for_and_can_pick_a_static_volume() -> None:
    """A claim of a WaitForFirstConsumer class is unbound until its first pod."""
    declared = make_volume(labels={"app": "data"}, selector={"type": "traindb"})
    assert claim(declared, "dev") == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "training",
            "namespace": "research",
            "labels": {"app": "data", **MARK},
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "2Gi"}},
            "selector": {"matchLabels": {"type": "traindb"}},
            "storageClassName": "shared",
            "volumeMode": "Filesystem",
        },
    }


def test_an_adopted_object_has_no_undeclared_fields() -> None:
    """The cases are a class without expansion and a volume whose folder is not checked: any other field is an edit."""
    adopted = StorageClass(name="shared", provisioner="csi.example.org", adopt=True)
    assert "allowVolumeExpansion" not in storage_class(adopted, "dev")
    assert storage_class(adopted, "dev")["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}
    volume = PersistentVolume(
        name="v", storage_class="manual", size="1Gi", access_modes=("ReadWriteOnce",), host_path="/v", host_path_type=""
    )
    assert persistent_volume(volume, "dev")["spec"]["hostPath"] == {"path": "/v", "type": ""}
