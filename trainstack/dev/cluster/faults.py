"""Faults of a running cluster, for tests: processes that die, hang or stay away, a disk that is full.

What is done here is what may happen to a cluster; its supervisor and its node see to the rest as they do then.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from trainstack.dev.cluster import cgroups
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.command import run
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.processes import Identity, outer_pids
from trainstack.dev.cluster.state import read_status

LOOK_SECONDS = 0.1
"""How long a process that comes up again lives, while it is kept away."""
Find = Callable[[], Collection[Identity]]
"""Gives the processes of something, as they are now."""


def components(cluster: Cluster, *names: str) -> list[Identity]:
    """The processes of components, such as `etcd` or `kubelet`, as far as they run.

    Raises ClusterError for a name that no component has.
    """
    told = {each.name: each.pid for each in read_status(Layout.of(cluster.state).status)}
    if unknown := sorted({*names} - told.keys()):
        raise ClusterError(f"the cluster has no component {', '.join(unknown)}; there are {', '.join(sorted(told))}")
    outer = outer_pids(cluster.pid)
    return _alive([outer[told[name]] for name in names if told[name] in outer])


def pod(cluster: Cluster, uid: str) -> list[Identity]:
    """The processes of a pod, its sandbox's among them."""
    hierarchy = cgroups.hierarchies()[0]
    files = (hierarchy.root / Layout.of(cluster.state).cgroup).rglob("cgroup.procs")
    found: set[int] = set()
    for file in files:
        if any(part.startswith(f"pod{uid}") for part in file.parts):
            with contextlib.suppress(OSError):  # a container may end meanwhile, and its folder goes
                found |= {int(line) for line in file.read_text().split()}
    return _alive(sorted(found))


def kill(processes: Collection[Identity]) -> None:
    """Kill them, all at once."""
    for process in processes:
        process.signal(signal.SIGKILL)


@contextlib.contextmanager
def held(processes: Collection[Identity]) -> Iterator[None]:
    """Let them answer nobody for as long as the block runs; connections to them stay open."""
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def keep_away(find: Find, seconds: float) -> None:
    """Kill them, and for so long whatever comes up in their place."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kill(find())
        time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def small_disk(cluster: Cluster, folder: str, size_bytes: int) -> Iterator[Path]:
    """A disk of that size at a folder of the node, empty, for the pods that are started from now on.

    Gives the folder as this machine sees it. The disk goes with the block, at the latest with the cluster: it is
    mounted for the cluster alone.
    """
    # With its processes too: `umount` reads /proc/self, which is nothing to a process that the cluster's /proc lacks.
    inside = ("nsenter", f"--target={cluster.pid}", "--mount", "--pid", "--")
    run(*inside, "mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=777", "trainstack", folder)
    try:
        yield seen(cluster, folder)
    finally:
        # Pods may still have it.
        run(*inside, "umount", "--lazy", folder)


def seen(cluster: Cluster, folder: str) -> Path:
    """A folder of the node, as this machine sees it."""
    return Path(f"/proc/{cluster.pid}/root{folder}")


def _alive(pids: Collection[int]) -> list[Identity]:
    found = (Identity.of(pid) for pid in pids)
    return [each for each in found if each is not None]
