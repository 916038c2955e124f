"""A cluster's folder in every cgroup hierarchy (v1, v2 or both).

Two kubelets on one machine must not share `/kubepods`, and `down` must find a cluster's processes after a crash. So
they run in `<hierarchy>/<name>/`: components in `supervisor`, pods in `kubepods`.
"""

import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.processes import wait_until
from trainstack.local_cluster.state_folder import CGROUP_PREFIX

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


def parse_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return the hierarchies in the text of /proc/self/mountinfo."""
    hierarchy_by_root: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        mount_fields, _, file_system_fields = line.partition(" - ")
        kind, root = file_system_fields.split()[0], Path(mount_fields.split()[4])
        if kind in ("cgroup", "cgroup2"):
            hierarchy_by_root[root] = Hierarchy(root, 1 if kind == "cgroup" else 2)
    return list(hierarchy_by_root.values())


def read_hierarchies() -> list[Hierarchy]:
    """Read the mounted hierarchies. Raises LocalClusterError without any."""
    mounted_hierarchies = parse_hierarchies(Path("/proc/self/mountinfo").read_text())
    if not mounted_hierarchies:
        raise LocalClusterError("No cgroup file system is mounted; the local cluster requires one.")
    return mounted_hierarchies


def _copy_cpuset(folder: Path) -> None:
    """Copy the parent's values to a new v1 cpuset, which accepts no process while it is empty."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        source, target = folder.parent / name, folder / name
        if target.exists() and not target.read_text().strip():
            target.write_text(source.read_text())


def _enable_controllers(folder: Path) -> None:
    """Enable the controllers of a v2 cgroup for its children."""
    available = (folder / "cgroup.controllers").read_text().split()
    enabled = (folder / "cgroup.subtree_control").read_text().split()
    missing = [name for name in V2_CONTROLLERS if name in available and name not in enabled]
    if missing:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))


def _enable_root_controllers(root: Path) -> None:
    """Enable the controllers of the v2 hierarchy's root, which in a container is an ordinary cgroup with processes."""
    try:
        _enable_controllers(root)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # The kernel permits processes beside enabled controllers in the machine's root cgroup only.
        if not wait_until(lambda: _vacate(root), VACATE_SECONDS):
            raise
        _enable_controllers(root)


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


def create(name: str, hierarchies: list[Hierarchy]) -> None:
    """Create the cluster's folders, unless they exist. Raises LocalClusterError."""
    for hierarchy in hierarchies:
        folder = hierarchy.root / name
        try:
            if hierarchy.version == 2:
                _enable_root_controllers(hierarchy.root)
            for path in (folder, folder / LEAF):
                path.mkdir(exist_ok=True)
                _copy_cpuset(path)
            if hierarchy.version == 2:
                _enable_controllers(folder)
        except OSError as error:
            raise LocalClusterError(
                f"The cgroup {folder} cannot be created: {error}. In a container, mount the machine's cgroup file "
                "system writable."
            ) from error


def move_process(name: str, pid: int, hierarchies: list[Hierarchy]) -> None:
    """Move a process, and with it those that it starts later, into the cluster's cgroup."""
    for hierarchy in hierarchies:
        (hierarchy.root / name / LEAF / "cgroup.procs").write_text(str(pid))


def member_pids(name: str, hierarchies: list[Hierarchy]) -> set[int]:
    """Return the pids of the processes in the cluster's cgroups."""
    pids: set[int] = set()
    for hierarchy in hierarchies:
        for folder, _, _ in os.walk(hierarchy.root / name):
            try:
                pids.update(int(pid) for pid in Path(folder, "cgroup.procs").read_text().split())
            except OSError:
                continue
    return pids - {0}


def cluster_names(hierarchies: list[Hierarchy]) -> set[str]:
    """Return the cgroup names of this machine's clusters."""
    return {folder.name for hierarchy in hierarchies for folder in hierarchy.root.glob(f"{CGROUP_PREFIX}*")}


def remove(name: str, hierarchies: list[Hierarchy], seconds: float = 10.0) -> None:
    """Kill the processes in the cluster's cgroups, and remove the cgroups.

    `seconds` is the timeout of each step, after which LocalClusterError is raised.
    """

    def kill_members() -> bool:
        pids = member_pids(name, hierarchies)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    def remove_folders() -> bool:
        for hierarchy in hierarchies:
            for folder, _, _ in os.walk(hierarchy.root / name, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:
                    return False  # a process in it has not ended yet
        return True

    if not wait_until(kill_members, seconds) or not wait_until(remove_folders, seconds):
        remaining_pids = ", ".join(str(pid) for pid in sorted(member_pids(name, hierarchies))) or "none"
        raise LocalClusterError(
            f"The cgroups {name} could not be removed within {seconds:.0f} s (remaining processes: {remaining_pids}). "
            "A process hangs in the kernel; run `trainstack cluster down` again."
        )
