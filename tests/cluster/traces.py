"""The traces that a local cluster could leave on this machine, to compare before and after."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster import cgroups
from trainstack.local_cluster.processes import start_time
from trainstack.local_cluster.state_folder import MOUNT_POINT_ATTRIBUTE, Layout

SYSCTLS = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
)
FIXED_PATHS = (
    "/etc/cni",
    "/etc/kubernetes",
    "/opt/containerd",
    "/run/cni",
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Where the components would write by default."""


@dataclass(frozen=True)
class Traces:
    """Everything on this machine that is related to a cluster in one state folder."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    cgroups: frozenset[str]
    firewall: str
    sysctls: tuple[str, ...]
    paths: frozenset[str]
    """The existing `FIXED_PATHS` and their direct children."""


@dataclass(frozen=True)
class ProcessNamespaces:
    """Identifies the processes inside a cluster."""

    namespaces: frozenset[str] = frozenset()
    """Its pid and network namespaces. The kernel may give their numbers to another cluster once they are gone."""
    until: int = 0
    """In clock ticks since boot: a process that started later belongs to another cluster."""


NOT_RUNNING = ProcessNamespaces()


def _processes(layout: Layout, within: ProcessNamespaces) -> frozenset[str]:
    """Return the processes that name the state folder, or are in its cgroup or inside the cluster."""
    found = set()
    for entry in Path("/proc").iterdir():
        # A dead process that its parent has not collected yet (after a crash that is process 1) holds nothing.
        if not entry.name.isdigit() or (started := start_time(int(entry.name))) is None:
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            own = {str((entry / "ns" / kind).readlink()) for kind in ("pid", "net")}
            inside = started <= within.until and not own.isdisjoint(within.namespaces)
            cgroup = (entry / "cgroup").read_text()
        except OSError:
            continue
        if str(layout.state) in command or layout.cgroup in cgroup or inside:
            found.add(f"{entry.name} {command}")
    return frozenset(found)


def process_namespaces(pid: int) -> ProcessNamespaces:
    """Return the namespaces of the cluster with this process, and the current time."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    return ProcessNamespaces(frozenset(str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("pid", "net")), now)


def _others(layout: Layout) -> set[str]:
    """Return the cgroup names of the other clusters that run on this machine."""
    return {*cgroups.cluster_names(cgroups.read_hierarchies())} - {layout.cgroup}


def _links(others: set[str]) -> frozenset[str]:
    """Return the names of this machine's links, except those of other running clusters."""
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout)
    return frozenset(link["ifname"] for link in links if link.get("ifalias") not in others)


def _groups(name: str) -> frozenset[str]:
    """Return the cgroups with this name. Unlike Path.rglob, os.walk ignores folders that disappear during the walk."""
    walk = os.walk("/sys/fs/cgroup")
    return frozenset(str(Path(folder, name)) for folder, names, _ in walk if name in names)


def _covered(folder: Path, others: set[str]) -> bool:
    """Return whether another running cluster created this folder as a mount point."""
    return not {f"{MOUNT_POINT_ATTRIBUTE}.{name}" for name in others}.isdisjoint(os.listxattr(folder))


def collect_traces(state: Path, inside: ProcessNamespaces = NOT_RUNNING) -> Traces:
    """Return the current traces on this machine; `inside` is known while the cluster runs."""
    layout = Layout.of(state)
    others = _others(layout)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    firewall = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    values = [Path("/proc/sys", name) for name in SYSCTLS]
    return Traces(
        processes=_processes(layout, inside),
        mounts=frozenset(line for line in mounts if str(layout.state) in line or "trainstack" in line),
        links=_links(others),
        cgroups=_groups(layout.cgroup),
        firewall="\n".join(line for line in firewall.splitlines() if not line.startswith("#")),
        sysctls=tuple(f"{path}={path.read_text().strip()}" for path in values if path.exists()),
        paths=frozenset(
            str(path)
            for fixed in map(Path, FIXED_PATHS)
            if fixed.is_dir() and not _covered(fixed, others)
            for path in (fixed, *fixed.iterdir())
        ),
    )
