"""The paths of a cluster's files, all below its state folder."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

CGROUP_PREFIX = "trainstack-"
KUBELET_ROOT = "/var/lib/kubelet"
"""The kubelet's root inside the cluster, for any state folder: paths of sockets are short."""
HIDDEN = ("/var/lib/cni", KUBELET_ROOT, "/var/log/containers")
"""Folders with fixed paths in the kubelet and in CNI: each cluster covers them with its own, in memory."""
HIDDEN_MARK = "user.trainstack"
"""Extended attribute of a folder that exists only to be covered; the last cluster to stop removes it."""

PRIVATE = 0o700
"""The mode of folders for this account alone."""
_SCRATCH = re.compile(r"\.[a-z.]+\.\d+$")
"""Name of a file that is being written: `.spec.json.4711`."""


class _Entry:
    def __init__(self, *names: str) -> None:
        self.names = names

    def __get__(self, layout: "Layout", owner: type) -> Path:
        return layout.state.joinpath(*self.names)


@dataclass(frozen=True)
class Layout:
    state: Path

    spec = _Entry("spec.json")
    driver = _Entry("driver.json")
    """The record of a kind cluster; a native cluster has none."""
    run = _Entry("run.json")
    """Identity of the supervisor; exists while it should be running."""
    slot = _Entry("slot")
    """Number of the last start's slot: the next start prefers it, so that kubeconfigs stay valid."""
    status = _Entry("status.json")
    lock = _Entry("lock")
    """Locked by the process that starts or stops this cluster."""
    kubeconfig = _Entry("kubeconfig")
    """The administrator's kubeconfig, certificates embedded, mode 0600."""
    certs = _Entry("certs")
    """Certificates and keys, mode 0700."""
    config = _Entry("config")
    """Generated configuration, replaced at each start."""
    log = _Entry("log")
    previous_log = _Entry("log-previous")
    audit = _Entry("log", "audit.log")
    """The API server's audit log, one JSON object a line; only if the spec enables it."""
    audit_policy = _Entry("config", "audit-policy.json")
    etcd = _Entry("etcd")
    containerd = _Entry("containerd")
    """Pulled images and container layers."""
    kubelet = _Entry("kubelet")
    """Mounted at KUBELET_ROOT inside the cluster."""
    pod_logs = _Entry("pod-logs")
    """Container logs as `kubectl logs` reads them."""
    volumes = _Entry("volumes")
    """Dynamic volumes, unless the spec names another folder."""
    node_folders = _Entry("node-folders")
    """The node's folders: the node's /a/b is a/b here."""
    kubeconfigs = _Entry("kubeconfigs")
    """Issued kubeconfigs of service accounts, mode 0700."""
    tmp = _Entry("tmp")
    """Temporary files of the components; emptied at each start."""

    @classmethod
    def of(cls, state: Path) -> "Layout":
        """Return the layout of a state folder, also given by a relative path or a link."""
        return cls(Path(os.path.realpath(state)))

    @property
    def identity(self) -> str:
        """Identifies this cluster on any machine, also after a reset."""
        return "local-" + hashlib.sha256(f"{platform.node()}:{self.state}".encode()).hexdigest()[:16]

    @property
    def cgroup(self) -> str:
        """Name of this cluster's folder in every cgroup hierarchy."""
        return CGROUP_PREFIX + hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    def contents(self) -> set[str]:
        """Return the names in the state folder, without files that are being written."""
        return {path.name for path in self.state.iterdir() if not _SCRATCH.match(path.name)}

    def remnants(self) -> set[str]:
        """Return names without data of value, which components recreate if their folder is deleted."""
        return {path.name for path in (self.lock, self.status, self.containerd, self.kubelet, self.pod_logs)}

    def known(self) -> set[str]:
        """Return every name that a cluster creates in its folder."""
        return {entry.names[0] for entry in vars(Layout).values() if isinstance(entry, _Entry)}

    def make_state(self) -> None:
        """Create the state folder, closed to other accounts: pods of any user write to the volumes in it.

        Pods reach their volumes by mounts, not through this folder.
        """
        self.state.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if self.state.stat().st_mode & 0o777 != PRIVATE:
            self.state.chmod(PRIVATE)

    def make(self) -> None:
        """Create the folders that must exist before the first component starts."""
        self.make_state()
        for folder in (self.config, self.log, self.etcd, self.containerd, self.kubelet, self.pod_logs, self.tmp):
            folder.mkdir(exist_ok=True)
        self.certs.mkdir(mode=0o700, exist_ok=True)
        self.etcd.chmod(0o700)
