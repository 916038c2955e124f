"""The start and the stop of a cluster's supervisor, from outside its namespaces."""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from trainstack.local_cluster import certificates, cgroups, config, image_archive, mount_points, network
from trainstack.local_cluster.command import run
from trainstack.local_cluster.component_status import write_atomically
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.lifeline import LIFELINE, Lifeline
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.processes import ProcessIdentity, StartRecord, children, reap, start_time, wait_until
from trainstack.local_cluster.sites import definition
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import COVERED_FOLDERS, PRIVATE, Layout
from trainstack.local_cluster.supervisor_plan import SupervisorPlan
from trainstack.toolchain import tools
from trainstack.toolchain.places import CHECKOUT, cache_root

find_program = cache(tools.program)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SUPERVISOR = "trainstack.local_cluster.supervisor"
NAMESPACES = ("--mount", "--propagation", "private", "--uts", "--ipc", "--net", "--pid")
SPAWN_SECONDS = 10.0
"""Timeout of a process's start in its namespaces."""
STOP_SECONDS = 20.0
"""Timeout after which a stopping supervisor is killed."""
KILL_SECONDS = 10.0
"""Timeout for the kernel to end killed processes."""


def environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the cluster's programs. Of the caller's variables it has only GOGC, so no proxy."""
    fixed_variables = {
        "PATH": PATH,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
    }
    return fixed_variables | {name: caller[name] for name in ("GOGC",) if name in caller}


def _spawn(layout: Layout, plan_descriptor: int, lifeline_descriptor: int) -> tuple[ProcessIdentity, ProcessIdentity]:
    """Start the supervisor in new namespaces; return its process and that of its parent outside, the guard.

    It reads its plan from the descriptor `plan_descriptor`, and the end of its caller from `lifeline_descriptor`. Its
    command line contains the state folder, by which `find_state_folder` finds it.
    """
    log = str(layout.log / "supervisor.log")
    supervisor = [sys.executable, "-P", "-m", SUPERVISOR, str(layout.state)]
    # If the guard dies, `--kill-child` kills the supervisor, and the pid namespace ends with all its processes.
    guard = os.posix_spawn(
        shutil.which("unshare", path=PATH) or "unshare",
        ["unshare", *NAMESPACES, "--mount-proc", "--fork", "--kill-child=SIGKILL", "--wd=/", *supervisor],
        environment(os.environ),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, plan_descriptor, 0),
            (os.POSIX_SPAWN_DUP2, lifeline_descriptor, LIFELINE),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )

    # unshare forks the supervisor. If unshare fails, it ends without a child, and its output has the cause.
    wait_until(lambda: bool(children(guard)) or start_time(guard) is None, SPAWN_SECONDS, 0.005)
    child = next(iter(children(guard)), None)
    identities = (ProcessIdentity.of(child) if child else None, ProcessIdentity.of(guard))
    if identities[0] is None or identities[1] is None:
        reap(guard)
        output = Path(log).read_text(errors="replace").strip()[-500:]
        raise LocalClusterError(
            f"The local cluster's namespaces could not be created: {output or 'unshare exited at once'}. "
            "They require root and a kernel with mount, network and pid namespaces."
        )
    return identities[0], identities[1]


def _is_in_own_namespace(pid: int) -> bool:
    """Return whether a child of unshare has left this machine's network namespace."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


def _prepare_folders(layout: Layout, volumes: Path, registry: Path) -> None:
    """Empty the folders whose content belongs to one start, and keep the logs of the previous start."""
    shutil.rmtree(layout.config, ignore_errors=True)
    shutil.rmtree(layout.tmp, ignore_errors=True)
    layout.status.unlink(missing_ok=True)
    if layout.log.exists():
        shutil.rmtree(layout.previous_log, ignore_errors=True)
        layout.log.rename(layout.previous_log)
    layout.make_folders()
    # The mode applies to a new folder only: a user may share an existing one on purpose.
    volumes.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    registry.mkdir(parents=True, exist_ok=True)
    # An account that may not pull an image must not read it from the disk.
    registry.chmod(PRIVATE)
    for name in (config.SHARED_FOLDER, config.NODE_FOLDER):
        # The kubelet would create them for root only.
        (volumes / name).mkdir(parents=True, exist_ok=True)


def _write_images(layout: Layout) -> None:
    """Write the archives of the two images that must exist before any pull."""
    busybox = shutil.which("busybox", path=PATH)
    if busybox is None:
        raise LocalClusterError("busybox is not installed; install it with `apt-get install busybox-static`.")
    applets = run(busybox, "--list").split()
    (layout.config / "pause.tar").write_bytes(image_archive.pause_image(config.PAUSE_IMAGE, find_program("pause")))
    (layout.config / "helper.tar").write_bytes(image_archive.helper_image(config.HELPER_IMAGE, Path(busybox), applets))


def _write_files(layout: Layout, slot: Slot, spec: ClusterSpec, registry: Path, volumes: Path) -> None:
    certificates.issue_certificates(layout, slot)
    for name, text in config.config_files(layout, slot, spec, registry, volumes).items():
        path = layout.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _write_images(layout)


def _preferred_slot(layout: Layout) -> int | None:
    try:
        return int(layout.slot.read_text())
    except (FileNotFoundError, ValueError):
        return None


def start(layout: Layout, spec: ClusterSpec) -> Lifeline:
    """Start the supervisor, and return once it has its plan. The cluster stops unless its lifeline is released.

    Raises LocalClusterError.
    """
    # Images in the shared cache survive a reset of the cluster.
    registry = Path(spec.registry) if spec.registry else cache_root() / "registry"
    volumes = Path(spec.volumes) if spec.volumes else layout.volumes
    for folder in (layout.state, registry, volumes):
        if Path(os.path.realpath(folder)).is_relative_to("/run"):
            raise LocalClusterError(f"{folder} is in /run, which every cluster replaces; choose another folder.")
    _prepare_folders(layout, volumes, registry)
    write_atomically(layout.spec, spec.to_json())
    hierarchies = cgroups.read_hierarchies()
    cgroups.create(layout.cgroup, hierarchies)
    plan_reader, plan_writer = os.pipe()
    lifeline_reader, lifeline_writer = os.pipe()
    lifeline = Lifeline(lifeline_writer)
    # On failure the pipes close, and the supervisor exits, since it has no plan.
    with os.fdopen(plan_reader, "rb"), os.fdopen(plan_writer, "wb") as pipe, os.fdopen(lifeline_reader, "rb"):
        init, guard = _spawn(layout, plan_reader, lifeline_reader)
        try:
            # The supervisor waits for its plan, so everything that it needs is in place before it starts a component.
            for pid in (guard.pid, init.pid):
                cgroups.move_process(layout.cgroup, pid, hierarchies)
            wait_until(lambda: _is_in_own_namespace(init.pid), SPAWN_SECONDS, 0.005)
            slot = network.link_namespace(init.pid, _preferred_slot(layout), layout.cgroup)
            write_atomically(layout.slot, str(slot.number))
            write_atomically(layout.run, StartRecord(init, guard, slot.number, time.time()).to_json())
            _write_files(layout, slot, spec, registry, volumes)
            plan = SupervisorPlan(
                state=str(layout.state),
                node_ip=slot.node_ip,
                link=network.NODE_LINK,
                service_range=network.SERVICE_RANGE,
                certs=str(layout.certs),
                components=config.components(layout, slot, spec, find_program),
                node_folders=spec.node_folders,
            )
            pipe.write(plan.to_json().encode())
        except BaseException:
            stop(layout, StartRecord(init, guard, -1, 0.0), graceful=False)
            lifeline.close()
            raise
    return lifeline


def find_state_folder(pids: Iterable[int]) -> Path | None:
    """Return the state folder of the cluster whose supervisor is among the processes; None without one."""
    for pid in pids:
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if SUPERVISOR in arguments:
                return Path(arguments[arguments.index(SUPERVISOR) + 1])
    return None


def stop(layout: Layout, record: StartRecord | None, *, graceful: bool = True) -> None:
    """Stop a cluster, and remove its traces outside the state folder. `record` is None if none was started.

    Without `graceful`, the supervisor is killed at once. Raises LocalClusterError if a process survives SIGKILL.
    """
    if record is not None:

        def has_exited() -> bool:
            reap(record.guard.pid)
            return not record.init.is_alive() and not record.guard.is_alive()

        if graceful:
            record.init.signal(signal.SIGTERM)
        if not graceful or not wait_until(has_exited, STOP_SECONDS):
            record.init.signal(signal.SIGKILL)
            record.guard.signal(signal.SIGKILL)
            if not wait_until(has_exited, KILL_SECONDS):
                raise LocalClusterError(
                    f"The cluster's supervisor (pid {record.init.pid}) does not exit after SIGKILL: one of its "
                    "processes hangs in the kernel. Try `trainstack cluster down` again, or restart this machine."
                )
    remove_traces(layout.cgroup)
    layout.run.unlink(missing_ok=True)
    layout.status.unlink(missing_ok=True)


def remove_traces(cgroup: str) -> None:
    """Remove what a cluster without a supervisor leaves outside its state folder. `cgroup` is the cgroup's name."""
    hierarchies = cgroups.read_hierarchies()
    cgroups.remove(cgroup, hierarchies)
    other_clusters = cgroups.cluster_names(hierarchies)
    # Includes the folders of every site, because the spec of a crashed cluster may be lost.
    mount_points.remove_mount_points(
        (*(() if other_clusters else COVERED_FOLDERS), *definition.node_folders()), other_clusters
    )
    # The kernel removes a network namespace shortly after its last process.
    wait_until(lambda: not network.has_link(cgroup), KILL_SECONDS)
