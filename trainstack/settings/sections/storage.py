"""Section `trainstack:storage`: storage classes, volumes on hosts, and the claims that runs mount."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainstack.settings.base import Section, Text
from trainstack.settings.values.kubernetes import DnsLabel, DnsName, HostPath, Labels, Provisioner
from trainstack.settings.values.quantities import Quantity, amount

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


def _check_access_modes(modes: tuple[AccessMode, ...]) -> tuple[AccessMode, ...]:
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        raise ValueError("ReadWriteOncePod excludes all other access modes; remove it or the others")
    return modes


def _check_positive(size: str) -> str:
    if amount(size) == 0:
        raise ValueError("a volume's size must be greater than 0; write one such as 10Gi")
    return size


AccessModes = Annotated[tuple[AccessMode, ...], Field(min_length=1), AfterValidator(_check_access_modes)]
"""Source: validateAccessModes in ValidatePersistentVolumeClaimSpec."""
ClaimPath = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A claim by `<namespace>/<name>`."""
Size = Annotated[Quantity, AfterValidator(_check_positive)]
"""Source: ValidatePositiveQuantityValue."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes are created manually."""


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
    adopt: bool = False


class PersistentVolume(Section):
    """A volume on a path of the node, for a class without a provisioner."""

    name: DnsName
    storage_class: DnsName
    size: Size
    access_modes: AccessModes
    host_path: HostPath
    """A folder of the node. It must exist: one that the kubelet creates belongs to root, mode 0755."""
    host_path_type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    """What is checked before a pod mounts the path; empty: nothing, Kubernetes' default."""
    node: DnsName | None = Field(None, max_length=63)
    """The node with the path; None: every node has it."""
    labels: Labels = Field(default_factory=dict)
    adopt: bool = False


class Volume(Section):
    """A PersistentVolumeClaim, which runs mount by its name."""

    name: DnsLabel
    namespace: DnsLabel
    storage_class: DnsName
    size: Size
    access_modes: AccessModes
    labels: Labels = Field(default_factory=dict)
    selector: Labels = Field(default_factory=dict)
    """Labels that a volume must have to be bound to this claim."""
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
