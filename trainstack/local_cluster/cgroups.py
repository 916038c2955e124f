"""The cluster's own folder in every cgroup hierarchy (v1, v2 or both).

Two kubelets on one machine must not share `/kubepods`, and a cluster's processes must be found after a crash. So they
run in `<hierarchy>/<name>/`: components in `supervisor`, pods in `kubepods`.
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
"""The child of a container's root cgroup that receives its processes."""
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")
"""The controllers that the kubelet needs on cgroup v2."""

VACATE_SECONDS = 5.0
"""How long processes that fork meanwhile may delay the move."""


@dataclass(frozen=True)
class Hierarchy:
    root: Path
    version: int
    """1 or 2."""


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
    found = parse(Path("/proc/self/mountinfo").read_text())
    if not found:
        raise ClusterError("No cgroup file system is mounted; the local cluster requires one.")
    return found


def _copy_cpuset(folder: Path) -> None:
    """Fill a new v1 cpuset, which is empty and accepts no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        source, target = folder.parent / name, folder / name
        if target.exists() and not target.read_text().strip():
            target.write_text(source.read_text())


def _enable(folder: Path) -> None:
    """Enable a v2 folder's controllers for its children."""
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
        # Only the machine's root cgroup may have both processes and controllers that are enabled for its children.
        if not wait_until(lambda: _vacate(root), VACATE_SECONDS):
            raise
        _enable(root)


def _vacate(root: Path) -> bool:
    """Move the processes of a v2 cgroup to its child INIT; return whether none was left before this call."""
    pids = (root / "cgroup.procs").read_text().split()
    (root / INIT).mkdir(exist_ok=True)
    for pid in pids:
        try:
            (root / INIT / "cgroup.procs").write_text(pid)
        except ProcessLookupError:
            continue  # it has ended
    return not pids


def create(name: str, found: list[Hierarchy]) -> None:
    """Create the cluster's folders; keep existing ones."""
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
    """Move a process, and those that it starts later, into the cluster's cgroup."""
    for hierarchy in found:
        (hierarchy.root / name / LEAF / "cgroup.procs").write_text(str(pid))


def members(name: str, found: list[Hierarchy]) -> set[int]:
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
    """Kill the processes in the cluster's cgroups and remove them."""

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
                    return False  # a process that is just exiting still holds it
        return True

    if not wait_until(emptied, seconds) or not wait_until(removed, seconds):
        left = ", ".join(str(pid) for pid in sorted(members(name, found))) or "none"
        raise ClusterError(
            f"The cgroups {name} could not be removed within {seconds:.0f} s (remaining processes: {left}). "
            "A process hangs in the kernel; run `trainstack cluster down` again."
        )
