"""A cluster's folder in every cgroup hierarchy (v1, v2 or both).

Two kubelets on one machine must not share `/kubepods`, and `down` must find a cluster's processes after a crash. So
they run in `<hierarchy>/<name>/`: components in `supervisor`, pods in `kubepods`.
"""

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.errors import ClusterError
from trainstack.local_cluster.layout import CGROUP_PREFIX
from trainstack.local_cluster.processes import wait_until

LEAF = "supervisor"
INIT = "init"
"""The child of a container's root cgroup to which its processes are moved."""
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")
"""The controllers that the kubelet needs on cgroup v2."""

VACATE_SECONDS = 5.0
"""Timeout of the move, which forks of the moved processes may delay."""


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy."""

    root: Path
    version: int
    """The cgroup version, 1 or 2."""


def parse(mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies in the text of /proc/self/mountinfo."""
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, root = after.split()[0], Path(before.split()[4])
        if kind in ("cgroup", "cgroup2"):
            found[root] = Hierarchy(root, 1 if kind == "cgroup" else 2)
    return list(found.values())


def hierarchies() -> list[Hierarchy]:
    """Read the mounted hierarchies. Raises LocalClusterError without any."""
    found = parse(Path("/proc/self/mountinfo").read_text())
    if not found:
        raise ClusterError("No cgroup file system is mounted; the local cluster requires one.")
    return found


def _copy_cpuset(folder: Path) -> None:
    """Copy the parent's values to a new v1 cpuset, which accepts no process while it is empty."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        source, target = folder.parent / name, folder / name
        if target.exists() and not target.read_text().strip():
            target.write_text(source.read_text())


def _enable(folder: Path) -> None:
    """Enable the controllers of a v2 cgroup for its children."""
    available = (folder / "cgroup.controllers").read_text().split()
    enabled = (folder / "cgroup.subtree_control").read_text().split()
    missing = [name for name in V2_CONTROLLERS if name in available and name not in enabled]
    if missing:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))


def _enable_root(root: Path) -> None:
    """Enable the controllers of the v2 hierarchy's root, which in a container is an ordinary cgroup with processes."""
    try:
        _enable(root)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # The kernel permits processes beside enabled controllers in the machine's root cgroup only.
        if not wait_until(lambda: _vacate(root), VACATE_SECONDS):
            raise
        _enable(root)


def _vacate(root: Path) -> bool:
    """Move the processes of a v2 cgroup to its child INIT; return whether there was none to move."""
    pids = (root / "cgroup.procs").read_text().split()
    (root / INIT).mkdir(exist_ok=True)
    for pid in pids:
        try:
            (root / INIT / "cgroup.procs").write_text(pid)
        except ProcessLookupError:
            continue  # it has ended
    return not pids


def create(name: str, found: list[Hierarchy]) -> None:
    """Create the cluster's folders, unless they exist. Raises LocalClusterError."""
    for hierarchy in found:
        folder = hierarchy.root / name
        try:
            if hierarchy.version == 2:
                _enable_root(hierarchy.root)
            for path in (folder, folder / LEAF):
                path.mkdir(exist_ok=True)
                _copy_cpuset(path)
            if hierarchy.version == 2:
                _enable(folder)
        except OSError as error:
            raise ClusterError(
                f"The cgroup {folder} cannot be created: {error}. In a container, mount the machine's cgroup file "
                "system writable."
            ) from error


def enter(name: str, pid: int, found: list[Hierarchy]) -> None:
    """Move a process, and with it those that it starts later, into the cluster's cgroup."""
    for hierarchy in found:
        (hierarchy.root / name / LEAF / "cgroup.procs").write_text(str(pid))


def members(name: str, found: list[Hierarchy]) -> set[int]:
    """Return the pids of the processes in the cluster's cgroups."""
    pids: set[int] = set()
    for hierarchy in found:
        for folder, _, _ in os.walk(hierarchy.root / name):
            try:
                pids.update(int(pid) for pid in Path(folder, "cgroup.procs").read_text().split())
            except OSError:
                continue
    return pids - {0}


def clusters(found: list[Hierarchy]) -> set[str]:
    """Return the cgroup names of this machine's clusters."""
    return {folder.name for hierarchy in found for folder in hierarchy.root.glob(f"{CGROUP_PREFIX}*")}


def remove(name: str, found: list[Hierarchy], seconds: float = 10.0) -> None:
    """Kill the processes in the cluster's cgroups, and remove the cgroups.

    `seconds` is the timeout of each step, after which LocalClusterError is raised.
    """

    def emptied() -> bool:
        pids = members(name, found)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    def removed() -> bool:
        for hierarchy in found:
            for folder, _, _ in os.walk(hierarchy.root / name, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:
                    return False  # a process in it has not ended yet
        return True

    if not wait_until(emptied, seconds) or not wait_until(removed, seconds):
        left = ", ".join(str(pid) for pid in sorted(members(name, found))) or "none"
        raise ClusterError(
            f"The cgroups {name} could not be removed within {seconds:.0f} s (remaining processes: {left}). "
            "A process hangs in the kernel; run `trainstack cluster down` again."
        )
