"""Section `trainstack:storage`: storage classes, volumes on hosts, and the claims that runs mount."""

from typing import Annotated, Literal

from pydantic import Field

from settings.base import DnsLabel, DnsName, Labels, Section, Text
from settings.quantities import Quantity

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a class whose volumes are made by hand."""


class StorageClass(Section):
    """A kind of storage. Source: https://kubernetes.io/docs/concepts/storage/storage-classes/"""

    name: DnsName
    provisioner: Text
    """`kubernetes.io/no-provisioner` for volumes that are declared by hand."""
    parameters: dict[str, str] = Field(default_factory=dict)
    reclaim_policy: Literal["Delete", "Retain"] = "Retain"
    """What becomes of the data when a claim goes. Kubernetes' own default is Delete; here nothing is lost unasked."""
    volume_binding_mode: Literal["Immediate", "WaitForFirstConsumer"] = "WaitForFirstConsumer"
    allow_volume_expansion: bool = False
    adopt: bool = False


class PersistentVolume(Section):
    """A volume on a path of the node, made by hand: the static half of a `manual` class."""

    name: DnsName
    storage_class: DnsName
    size: Quantity
    access_modes: tuple[AccessMode, ...] = Field(min_length=1)
    host_path: str = Field(pattern="^/")
    """A folder of the node. It must be there: what the kubelet makes itself belongs to root, mode 0755."""
    host_path_type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    """What is looked for before a pod mounts it; empty: nothing, as Kubernetes itself does where nothing is said."""
    node: str | None = None
    """The one node that holds the path; None where every node does."""
    labels: Labels = Field(default_factory=dict)
    adopt: bool = False


class Volume(Section):
    """A PersistentVolumeClaim: the storage that runs mount by its name."""

    name: DnsLabel
    namespace: DnsLabel
    storage_class: DnsName
    size: Quantity
    access_modes: tuple[AccessMode, ...] = Field(min_length=1)
    labels: Labels = Field(default_factory=dict)
    selector: Labels = Field(default_factory=dict)
    """Labels that a static volume must bear to be bound to this claim."""
    retain: bool = True
    """Leave the claim, its data and its namespace in the cluster when the stack is destroyed."""
    protect: bool = False
    """Refuse to destroy it at all, until this is false. For production."""
    adopt: bool = False


class Storage(Section):
    """All storage of an environment."""

    classes: tuple[StorageClass, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    volumes: tuple[Volume, ...] = ()
    discard: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+/[a-z0-9-]+$")], ...] = ()
    """Claims, as `<namespace>/<name>`, that this change may delete or replace although their data goes with them."""
