"""The sources of persistent volumes."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainstack.settings.sections.storage import VOLUME_SOURCES, PersistentVolume
from trainstack.settings.values.pod_fields import PERSISTENT_VOLUME, pod_fields

NFS = {"nfs": {"server": "10.0.0.2", "path": "/data"}}


def make_persistent_volume(**changes: Any) -> PersistentVolume:
    """Return a volume without a source."""
    return PersistentVolume(**{"name": "disk", "size": "1Gi", "access_modes": ("ReadWriteMany",), **changes})


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({}, "needs exactly one source: set either hostPath or source"),
    ({"source": NFS, "host_path": "/data"}, "needs exactly one source: set either hostPath or source"),
    ({"source": {}}, "has exactly one type, such as csi or nfs (got none); write one"),
    ({"source": {**NFS, "csi": {}}}, "has exactly one type, such as csi or nfs (got nfs, csi); write one"),
    ({"source": {"hostPath": {"path": "/data"}}}, "has its own key; write hostPath instead of source"),
    ({"source": {"NFS": {"server": "a", "path": "/b"}}}, "have no source NFS; did you mean nfs?"),
    ({"source": {"nfs": {"server": "10.0.0.2"}}}, "source nfs lacks path; add it"),
    ({"source": {"nfs": {"server": "10.0.0.2", "pth": "/data"}}}, "did you mean path?"),
    ({"source": {"nfs": {**NFS["nfs"], "readOnly": "yes"}}}, "must be true or false"),
    ({"source": {"nfs": "10.0.0.2:/data"}}, "must be a map"),
    ({"source": {"nfs": {"server": "a", "path": "b"}}}, "nfs.path is not absolute (value b)"),
    ({"source": {"local": {"path": "/a/../b"}}, "node": "a"}, "local.path contains '..' (value /a/../b)"),
    ({"source": {"csi": {"driver": "a_b", "volumeHandle": "c"}}}, "csi.driver is not the name of a driver (value a_b)"),
    ({"source": NFS, "host_path_type": "Directory"}, "hostPathType is for hostPath: leave it out"),
    ({"source": {"local": {"path": "/disk"}}}, "a local volume is on one node: set node or nodeAffinity"),
    (
        {"source": NFS, "node": "a", "node_affinity": {"required": {"node_selector_terms": ()}}},
        "node_affinity.required.node_selector_terms",
    ),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_a_fault_of_a_source_has_a_remedy(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        make_persistent_volume(**changes)
    assert message in str(error.value)


def test_the_sources_are_those_of_kubernetes() -> None:
    """The other fields of a PersistentVolume's spec are settings of their own, or have one value."""
    others = {"accessModes", "capacity", "claimRef", "hostPath", "mountOptions", "nodeAffinity", "storageClassName"}
    others |= {"persistentVolumeReclaimPolicy", "volumeAttributesClassName", "volumeMode"}
    assert {*VOLUME_SOURCES} == pod_fields()[PERSISTENT_VOLUME].keys() - others
