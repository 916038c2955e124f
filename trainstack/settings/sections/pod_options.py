"""Scratch volumes and Linux capabilities of a run's pods."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from trainstack.settings.base import Section, raise_faults
from trainstack.settings.values.kubernetes import DnsName, MountPath, unknown_word_message
from trainstack.settings.values.quantities import Quantity, amount

_CAPABILITIES = (
    *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN"),
    *("DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE"),
    *("LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST"),
    *("NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT"),
    *("SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME"),
    *("SYS_TTY_CONFIG", "WAKE_ALARM", "ALL"),
)


def _check_capability(text: str) -> str:
    if text not in _CAPABILITIES:
        raise ValueError(unknown_word_message(text, _CAPABILITIES))
    return text


Capability = Annotated[str, AfterValidator(_check_capability)]
"""A Linux capability without its prefix `CAP_`, or `ALL`. Source: capabilities(7)."""


class Scratch(Section):
    """An empty volume of each pod, deleted with the pod."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=44)
    """Containers of a `podPatch` mount the volume by this name, unless the pod has another volume of the name."""
    mount_path: MountPath
    size: Quantity | None = None
    """The size of a claim, or the limit from which the kubelet evicts the pod; None: no limit. It requests nothing:
    request `ephemeral-storage` (or `memory`) for it under `resources`."""
    medium: Literal["Memory"] | None = None
    """`Memory`: a tmpfs, which counts as memory of the container. None: the node's disk."""
    storage_class: DnsName | None = None
    """Creates a claim of this StorageClass for each pod (a generic ephemeral volume) in place of an emptyDir."""

    @model_validator(mode="after")
    def _check_consistency(self) -> "Scratch":
        faults = []
        if self.storage_class is not None and self.medium is not None:
            faults.append("a claim of a StorageClass has no medium: leave out medium or storageClass")
        if self.storage_class is not None and (self.size is None or not amount(self.size)):
            faults.append("a claim of a StorageClass needs a size: set size")
        raise_faults(faults)
        return self


class Capabilities(Section):
    """Linux capabilities of the main container, relative to what its security context grants."""

    add: tuple[Capability, ...] = ()
    drop: tuple[Capability, ...] = ()

    @model_validator(mode="after")
    def _check_disjoint(self) -> "Capabilities":
        common = sorted({*self.add} & {*self.drop})
        raise_faults([f"add and drop both list {', '.join(common)}: leave them out of one"] if common else [])
        return self
