"""Inject faults into a running cluster, for tests: processes that die, hang or stay down, and a full disk."""

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from trainstack.local_cluster import cgroups
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.command import run
from trainstack.local_cluster.component_status import read_status
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.processes import ProcessIdentity, outer_pids
from trainstack.local_cluster.state_folder import Layout

GRACE_SECONDS = 0.1
"""How long a restarted process runs before `keep_down` kills it."""
FindProcesses = Callable[[], Collection[ProcessIdentity]]
"""Returns the current processes of a component or pod."""


def component_processes(cluster: LocalCluster, *names: str) -> list[ProcessIdentity]:
    """Return the running processes of components, such as `etcd` or `kubelet`."""
    pids = {component.name: component.pid for component in read_status(Layout.of(cluster.state).status)}
    if unknown := sorted({*names} - pids.keys()):
        raise LocalClusterError(f"unknown components {', '.join(unknown)}; the cluster has {', '.join(sorted(pids))}")
    outer = outer_pids(cluster.pid)
    return _alive([outer[pids[name]] for name in names if pids[name] in outer])


def pod_processes(cluster: LocalCluster, uid: str) -> list[ProcessIdentity]:
    """Return a pod's processes, including its sandbox's."""
    hierarchy = cgroups.read_hierarchies()[0]
    files = (hierarchy.root / Layout.of(cluster.state).cgroup).rglob("cgroup.procs")
    found: set[int] = set()
    for file in files:
        if any(part.startswith(f"pod{uid}") for part in file.parts):
            with contextlib.suppress(OSError):  # a container may end meanwhile, which removes its folder
                found |= {int(line) for line in file.read_text().split()}
    return _alive(sorted(found))


def kill(processes: Collection[ProcessIdentity]) -> None:
    for process in processes:
        process.signal(signal.SIGKILL)


@contextlib.contextmanager
def paused(processes: Collection[ProcessIdentity]) -> Iterator[None]:
    """Stop processes while the block runs; connections to them stay open."""
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def keep_down(find: FindProcesses, seconds: float) -> None:
    """Kill processes, and any that replace them, for a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kill(find())
        time.sleep(GRACE_SECONDS)


@contextlib.contextmanager
def small_disk(cluster: LocalCluster, folder: str, size_bytes: int) -> Iterator[Path]:
    """Mount an empty disk of that size at a folder of the node, for pods started from now on.

    Yields the folder's path on this machine. The mount ends with the block, or with the cluster, which alone has it.
    """
    # --pid, since `umount` reads /proc/self, which the cluster's /proc has only for its own processes.
    inside = ("nsenter", f"--target={cluster.pid}", "--mount", "--pid", "--")
    run(*inside, "mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=777", "trainstack", folder)
    try:
        yield host_path(cluster, folder)
    finally:
        # Pods may still use it.
        run(*inside, "umount", "--lazy", folder)


def host_path(cluster: LocalCluster, folder: str) -> Path:
    """Return the path on this machine of a folder of the node."""
    return Path(f"/proc/{cluster.pid}/root{folder}")


def _alive(pids: Collection[int]) -> list[ProcessIdentity]:
    return [identity for pid in pids if (identity := ProcessIdentity.of(pid))]
