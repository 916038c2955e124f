"""Where a cluster's files lie: every path below its state folder."""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

CGROUP_PREFIX = "trainstack-"
"""What the name of every cluster's cgroup begins with."""
KUBELET_ROOT = "/var/lib/kubelet"
"""The kubelet's root inside the cluster, whatever the state folder is called: paths of sockets are short."""
HIDDEN = ("/var/lib/cni", KUBELET_ROOT, "/var/log/containers")
"""Folders whose paths are fixed in the kubelet and in CNI: each cluster covers them with one of its own, in memory."""
HIDDEN_MARK = "user.trainstack"
"""Extended attribute of a folder that was made only to be covered; the last cluster to stop removes it."""

_SCRATCH = re.compile(r"\.[a-z.]+\.\d+$")
"""What a file is called that is being written: `.spec.json.4711`."""


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster."""

    state: Path
    """The state folder, absolute."""

    @classmethod
    def of(cls, state: Path) -> "Layout":
        """Layout of a state folder given in any form."""
        return cls(Path(os.path.realpath(state)))

    @property
    def key(self) -> str:
        """Eight hex digits that tell this cluster's cgroups from another's."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def identity(self) -> str:
        """What tells this cluster from all others, of other machines too, and is the same after each reset."""
        return "local-" + hashlib.sha256(f"{platform.node()}:{self.state}".encode()).hexdigest()[:16]

    @property
    def cgroup(self) -> str:
        """Name of this cluster's folder in every cgroup hierarchy."""
        return f"{CGROUP_PREFIX}{self.key}"

    @property
    def spec(self) -> Path:
        """Choices of the last start."""
        return self.state / "spec.json"

    @property
    def run(self) -> Path:
        """Identity of the running supervisor; present while one should be running."""
        return self.state / "run.json"

    @property
    def slot(self) -> Path:
        """Number of the last start's slot: the next start takes the same, so that kubeconfigs stay right."""
        return self.state / "slot"

    @property
    def status(self) -> Path:
        """What the supervisor knows of its components."""
        return self.state / "status.json"

    @property
    def lock(self) -> Path:
        """Held by whoever starts or stops this cluster."""
        return self.state / "lock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, certificates embedded, mode 0600."""
        return self.state / "kubeconfig"

    @property
    def certs(self) -> Path:
        """Certificates and keys, mode 0700."""
        return self.state / "certs"

    @property
    def config(self) -> Path:
        """Rendered configuration; made anew at each start."""
        return self.state / "config"

    @property
    def log(self) -> Path:
        """One `<component>.log` each."""
        return self.state / "log"

    @property
    def audit(self) -> Path:
        """What the API server was asked, one JSON object a line; only where the spec says so."""
        return self.log / "audit.log"

    @property
    def audit_policy(self) -> Path:
        """What of it is written."""
        return self.config / "audit-policy.json"

    @property
    def etcd(self) -> Path:
        """The API's data."""
        return self.state / "etcd"

    @property
    def containerd(self) -> Path:
        """Pulled images and container layers."""
        return self.state / "containerd"

    @property
    def kubelet(self) -> Path:
        """What lies at KUBELET_ROOT inside the cluster."""
        return self.state / "kubelet"

    @property
    def pod_logs(self) -> Path:
        """Container logs as `kubectl logs` reads them."""
        return self.state / "pod-logs"

    @property
    def volumes(self) -> Path:
        """Dynamic volumes, unless the spec names another folder."""
        return self.state / "volumes"

    @property
    def node_folders(self) -> Path:
        """What lies in the node's folders: /a/b of the node is a/b here."""
        return self.state / "node-folders"

    @property
    def kubeconfigs(self) -> Path:
        """Kubeconfigs of service accounts that were handed out, mode 0700."""
        return self.state / "kubeconfigs"

    @property
    def tmp(self) -> Path:
        """Scratch of the components; emptied at each start."""
        return self.state / "tmp"

    @property
    def previous_log(self) -> Path:
        """The logs of the start before."""
        return self.state / "log-previous"

    def contents(self) -> set[str]:
        """Names in the state folder, but for files that are being written."""
        return {path.name for path in self.state.iterdir() if not _SCRATCH.match(path.name)}

    def remnants(self) -> set[str]:
        """What running components make again in a folder that was deleted under them; nothing that anybody misses."""
        return {path.name for path in (self.lock, self.status, self.containerd, self.kubelet, self.pod_logs)}

    def known(self) -> set[str]:
        """Every name that a cluster makes in its folder."""
        paths = (
            *(self.spec, self.run, self.slot, self.kubeconfig, self.certs, self.config, self.log),
            *(self.previous_log, self.etcd, self.volumes, self.node_folders, self.kubeconfigs, self.tmp),
        )
        return {path.name for path in paths} | self.remnants()

    def make(self) -> None:
        """Create what must exist before the first component starts."""
        self.state.mkdir(parents=True, exist_ok=True)
        for folder in (self.config, self.log, self.etcd, self.containerd, self.kubelet, self.pod_logs, self.tmp):
            folder.mkdir(exist_ok=True)
        self.certs.mkdir(mode=0o700, exist_ok=True)
        self.etcd.chmod(0o700)
