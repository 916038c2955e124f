"""Section `trainstack:storage`: storage classes, persistent volumes, and the claims that runs mount."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from trainstack.settings.base import ApiFields, Section, Text, check_unique, raise_faults
from trainstack.settings.errors import suggest_name
from trainstack.settings.sections.affinity import NodeSelector
from trainstack.settings.values.kubernetes import (
    Annotations,
    DnsLabel,
    DnsName,
    HostPath,
    LabelKey,
    Labels,
    Provisioner,
)
from trainstack.settings.values.pod_fields import PERSISTENT_VOLUME
from trainstack.settings.values.pod_patch import check_fields
from trainstack.settings.values.quantities import Quantity, amount

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


def _check_access_modes(modes: tuple[AccessMode, ...]) -> tuple[AccessMode, ...]:
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        raise ValueError("ReadWriteOncePod excludes all other access modes; remove it or the others")
    return modes


def _check_source(source: dict[str, Any]) -> dict[str, Any]:
    if len(source) != 1:
        types = ", ".join(source) or "none"
        raise ValueError(f"a source has exactly one type, such as csi or nfs (got {types}); write one")
    ((name, fields),) = source.items()
    if name == "hostPath":
        raise ValueError("a folder of a node has its own key; write hostPath instead of source")
    if name not in VOLUME_SOURCES:
        raise ValueError(f"persistent volumes have no source {name}; {suggest_name(name, VOLUME_SOURCES)}")
    checked = check_fields(PERSISTENT_VOLUME, source)
    if missing := [field for field in _REQUIRED_FIELDS.get(name, ()) if not fields.get(field)]:
        raise ValueError(f"source {name} lacks {', '.join(missing)}; add it")
    if message := _fault_of_source(name, fields):
        raise ValueError(message)
    return checked


def _fault_of_source(name: str, fields: Mapping[str, Any]) -> str:
    """Return the first fault in the values of a source, with its remedy; empty if there is none."""
    path = fields.get("path", "")
    if name == "nfs" and not path.startswith("/"):
        return f"nfs.path is not absolute (value {path}); write an absolute path, beginning with /"
    if name == "local" and ".." in path.split("/"):
        return f"local.path contains '..' (value {path}); write the path without '..'"
    if name == "csi" and not _DRIVER.fullmatch(fields["driver"]):
        return f"csi.driver is not the name of a driver (value {fields['driver']}); write one such as nfs.csi.k8s.io"
    return ""


def _check_positive(size: str) -> str:
    if amount(size) == 0:
        raise ValueError("a volume's size must be greater than 0; write one such as 10Gi")
    return size


_DRIVER = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*")
VOLUME_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte"),
    *("rbd", "scaleIO", "storageos", "vsphereVolume"),
)
"""The sources of persistent volumes except `hostPath`. New drivers are of source `csi`.

Source: PersistentVolumeSource of k8s.io/api/core/v1
"""
_REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "azureFile": ("secretName", "shareName"),
    "csi": ("driver", "volumeHandle"),
    "local": ("path",),
    "nfs": ("server", "path"),
}
"""Source: ValidatePersistentVolumeSpec in k8s.io/kubernetes/pkg/apis/core/validation; others are checked by the API
server alone."""
VolumeSource = Annotated[ApiFields, AfterValidator(_check_source)]
AccessModes = Annotated[tuple[AccessMode, ...], Field(min_length=1), AfterValidator(_check_access_modes)]
"""Source: validateAccessModes in ValidatePersistentVolumeClaimSpec."""
ClaimPath = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A claim by `<namespace>/<name>`."""
Size = Annotated[Quantity, AfterValidator(_check_positive)]
"""Source: ValidatePositiveQuantityValue."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes are created manually."""


class TopologyValues(Section):
    """Values of a label of nodes."""

    key: LabelKey
    values: Annotated[tuple[Text, ...], Field(min_length=1), AfterValidator(check_unique)]


class TopologyTerm(Section):
    """Labels of nodes, with their values."""

    match_label_expressions: Annotated[tuple[TopologyValues, ...], Field(min_length=1)]


class StorageClass(Section):
    """A StorageClass. Source: https://kubernetes.io/docs/concepts/storage/storage-classes/"""

    name: DnsName
    provisioner: Provisioner
    """`kubernetes.io/no-provisioner` for volumes that are created manually."""
    parameters: dict[Text, str] = Field(default_factory=dict)
    reclaim_policy: Literal["Delete", "Retain"] = "Retain"
    """What happens to the data when a claim is deleted. Kubernetes' default is Delete, which loses data."""
    volume_binding_mode: Literal["Immediate", "WaitForFirstConsumer"] = "WaitForFirstConsumer"
    allow_volume_expansion: bool = False
    mount_options: tuple[Text, ...] = ()
    """Options with which the class's volumes are mounted, such as `nconnect=8`."""
    allowed_topologies: tuple[TopologyTerm, ...] = ()
    """Where volumes are provisioned; empty: everywhere."""
    annotations: Annotations = Field(default_factory=dict)
    """Such as `storageclass.kubernetes.io/is-default-class: "true"`, for claims that name no class."""
    adopt: bool = False


class VolumeNodeAffinity(Section):
    """The nodes that can mount a volume."""

    required: NodeSelector


class PersistentVolume(Section):
    """A volume that is created by hand: a folder of a node, or a source of any other type."""

    name: DnsName
    storage_class: DnsName | None = None
    """The class of the claims that may bind to the volume; None: claims of class `""`."""
    size: Size
    access_modes: AccessModes
    host_path: HostPath | None = None
    """A folder of the node. It must exist: one that the kubelet creates belongs to root, mode 0755."""
    host_path_type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    """What is checked before a pod mounts the path; empty: nothing, Kubernetes' default."""
    source: VolumeSource | None = None
    """Any other source as in a PersistentVolume's `spec`, such as `{nfs: {server: 10.0.0.2, path: /data}}`."""
    node: DnsName | None = Field(None, max_length=63)
    """The node with the volume; None: every node can mount it."""
    node_affinity: VolumeNodeAffinity | None = None
    """The nodes that can mount the volume, instead of `node`."""
    mount_options: tuple[Text, ...] = ()
    claim: ClaimPath | None = None
    """The claim, as `<namespace>/<name>`, that the volume is reserved for; None: any claim that matches."""
    reclaim_policy: Literal["Delete", "Retain"] = "Retain"
    """What happens to the volume and its data when its claim is deleted."""
    labels: Labels = Field(default_factory=dict)
    adopt: bool = False

    @model_validator(mode="after")
    def _check_consistency(self) -> "PersistentVolume":
        raise_faults(_faults_of_persistent_volume(self))
        return self


def _faults_of_persistent_volume(volume: PersistentVolume) -> Iterator[str]:
    if (volume.host_path is None) == (volume.source is None):
        yield "a persistent volume needs exactly one source: set either hostPath or source"
    if volume.source is not None:
        if "host_path_type" in volume.model_fields_set:
            yield "hostPathType is for hostPath: leave it out"
        if "local" in volume.source and volume.node is None and volume.node_affinity is None:
            yield "a local volume is on one node: set node or nodeAffinity"
    if volume.node is not None and volume.node_affinity is not None:
        yield "node and nodeAffinity both select nodes: set one of them"


class DataSource(Section):
    """The object that a new volume gets its content from."""

    api_group: str | None = None
    """None: the core group, of PersistentVolumeClaims."""
    kind: Text
    """Such as `PersistentVolumeClaim` or `VolumeSnapshot`."""
    name: DnsName


class DataSourceReference(DataSource):
    """A data source that may be of any kind, and in another namespace."""

    namespace: DnsLabel | None = None


class Volume(Section):
    """A PersistentVolumeClaim, which runs mount by its name."""

    name: DnsLabel
    namespace: DnsLabel
    storage_class: DnsName | Literal[""] | None = None
    """None: the cluster's default class. Empty: no class, for volumes that are created by hand without one."""
    size: Size
    access_modes: AccessModes
    labels: Labels = Field(default_factory=dict)
    selector: Labels = Field(default_factory=dict)
    """Labels that a volume must have to be bound to this claim."""
    volume_name: DnsName | None = None
    """The PersistentVolume to bind to; None: any that matches."""
    data_source: DataSource | None = None
    """A claim or snapshot of the same namespace that is copied into the new volume."""
    data_source_ref: DataSourceReference | None = None
    """As `dataSource`, also for other kinds that a populator knows."""
    retain: bool = True
    """Keep the claim, its data and its namespace in the cluster when the stack is destroyed."""
    protect: bool = False
    """Refuse to delete the claim until this is false. For production."""
    adopt: bool = False


class Storage(Section):
    """All storage of an environment."""

    classes: tuple[StorageClass, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    volumes: tuple[Volume, ...] = ()
    discard: tuple[ClaimPath, ...] = ()
    """Claims, as `<namespace>/<name>`, that this change may delete or replace together with their data."""
