"""The paths of a cluster's files, all below its state folder."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

CGROUP_PREFIX = "trainstack-"
KUBELET_ROOT = "/var/lib/kubelet"
"""The kubelet's root inside the cluster, for any state folder: the kernel limits the length of a socket's path."""
COVERED_FOLDERS = ("/var/lib/cni", KUBELET_ROOT, "/var/log/containers")
"""Folders whose paths are fixed in the kubelet and in CNI: a cluster covers them with folders of its own, in memory."""
MOUNT_POINT_ATTRIBUTE = "user.trainstack"
"""Extended attribute of a folder that exists only as a mount point: the last cluster that stops removes the folder."""

PRIVATE = 0o700
"""The mode of folders that only this account may open."""
_TEMPORARY_NAME = re.compile(r"\.[a-z.]+\.\d+$")
"""Name of a file that `write_atomically` has not completed, such as `.spec.json.4711`."""


class _StatePath:
    """Descriptor of a path below the state folder."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __get__(self, layout: "Layout", owner: type) -> Path:
        return layout.state.joinpath(*self.names)


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster's files."""

    state: Path

    spec = _StatePath("spec.json")
    driver = _StatePath("driver.json")
    """The record of a kind cluster; a native cluster has none."""
    run = _StatePath("run.json")
    """The record of the start; exists until the cluster is stopped."""
    slot = _StatePath("slot")
    """Number of the last start's address slot: the next start prefers it, so that kubeconfigs remain valid."""
    status = _StatePath("status.json")
    lock = _StatePath("lock")
    """Locked by the process that starts or stops this cluster."""
    kubeconfig = _StatePath("kubeconfig")
    """The administrator's kubeconfig, certificates embedded, mode 0600."""
    certs = _StatePath("certs")
    """Certificates and keys, mode 0700."""
    config = _StatePath("config")
    """Generated configuration, replaced at each start."""
    log = _StatePath("log")
    previous_log = _StatePath("log-previous")
    audit = _StatePath("log", "audit.log")
    """The API server's audit log, one JSON object per line; only if the spec enables it."""
    audit_policy = _StatePath("config", "audit-policy.json")
    etcd = _StatePath("etcd")
    containerd = _StatePath("containerd")
    """Pulled images and container layers."""
    kubelet = _StatePath("kubelet")
    """Mounted at KUBELET_ROOT inside the cluster."""
    pod_logs = _StatePath("pod-logs")
    """Container logs, which `kubectl logs` reads."""
    volumes = _StatePath("volumes")
    """Dynamic volumes, unless the spec names another folder."""
    node_folders = _StatePath("node-folders")
    """The node's folders: this folder's a/b is mounted at /a/b on the node."""
    kubeconfigs = _StatePath("kubeconfigs")
    """Issued kubeconfigs of service accounts, mode 0700."""
    tmp = _StatePath("tmp")
    """Temporary files of the components; emptied at each start."""

    @classmethod
    def of(cls, state: Path) -> "Layout":
        """Return the layout of a state folder, whose path may be relative or a link."""
        return cls(Path(os.path.realpath(state)))

    @property
    def identity(self) -> str:
        """An id of this cluster among those of all machines, which a reset does not change."""
        return "local-" + hashlib.sha256(f"{platform.node()}:{self.state}".encode()).hexdigest()[:16]

    @property
    def cgroup(self) -> str:
        """Name of this cluster's folder in every cgroup hierarchy."""
        return CGROUP_PREFIX + hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    def contents(self) -> set[str]:
        """Return the names in the state folder, without incomplete files."""
        return {path.name for path in self.state.iterdir() if not _TEMPORARY_NAME.match(path.name)}

    def disposable_names(self) -> set[str]:
        """Return the names without valuable data, which components recreate after the deletion of their folder."""
        return {path.name for path in (self.lock, self.status, self.containerd, self.kubelet, self.pod_logs)}

    def file_names(self) -> set[str]:
        """Return every name that a cluster creates in its folder."""
        return {entry.names[0] for entry in vars(Layout).values() if isinstance(entry, _StatePath)}

    def make_state_folder(self) -> None:
        """Create the state folder, closed to other accounts, because its volumes are writable for everyone.

        Pods access their volumes by mounts, not through this folder.
        """
        self.state.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if self.state.stat().st_mode & 0o777 != PRIVATE:
            self.state.chmod(PRIVATE)

    def make_folders(self) -> None:
        """Create the folders that must exist before the first component starts."""
        self.make_state_folder()
        for folder in (self.config, self.log, self.etcd, self.containerd, self.kubelet, self.pod_logs, self.tmp):
            folder.mkdir(exist_ok=True)
        self.certs.mkdir(mode=0o700, exist_ok=True)
        self.etcd.chmod(0o700)
