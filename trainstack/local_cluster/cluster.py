"""The interface of the native local cluster: `up`, `down`, `reset` and `status`, which are safe to call at any time."""

import calendar
import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trainstack.local_cluster import cgroups, mount_points, processes, simulated_gpus, supervisor_process
from trainstack.local_cluster.api import ApiClient, ApiError, Manifest
from trainstack.local_cluster.component_status import ComponentStatus, read_status, write_atomically
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.lifeline import Lifeline
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.processes import StartRecord
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.local_cluster.spec import NODE_NAME, ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.toolchain import debian, distribution, machine

Report = Callable[[str], None]
"""Receives one line of progress."""

START_SECONDS = 120.0
"""Timeout of a start, which takes about 10 s on 2 cores."""
HEAL_SECONDS = 20.0
"""Time for a cluster with a failed component to become ready again before it is restarted."""
LOCK_SECONDS = 180.0
"""Timeout for another `up` or `down` of the same cluster to end."""
MANY_RESTARTS = 5
"""Number of exits after which a component is not expected to recover."""
_lifelines: dict[Path, Lifeline] = {}
"""Lifelines of the temporary clusters that this process started, by state folder."""
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_INSTANCES = 1024
"""Required value of INOTIFY_LIMIT: enough for eight clusters. Many distributions set 128."""


@dataclass(frozen=True)
class LocalCluster:
    """A running cluster: its addresses and credentials."""

    state: Path
    """Folder of all its files."""
    kubeconfig: Path
    server: str
    """URL of the API server."""
    registry: RegistryAccess
    node: str
    """Name of the real node."""
    node_ip: str
    host_ip: str
    """This machine's address on the link to the node."""
    pid: int
    """Pid of the supervisor: `nsenter --target PID --all` opens a shell in the cluster."""

    def to_dict(self) -> dict[str, str | int]:
        """Return the fields for JSON output, without the paths of the registry's credentials."""
        plain = {"state": str(self.state), "kubeconfig": str(self.kubeconfig), "registry": self.registry.address}
        return asdict(self) | plain


@dataclass(frozen=True)
class ClusterStatus:
    running: bool
    ready: bool
    """Whether every component, the API server and the real node are ready."""
    node_ready: bool
    cluster: LocalCluster | None
    """None unless the cluster runs."""
    spec: ClusterSpec | None
    """The spec of the last start; None before the first start."""
    components: tuple[ComponentStatus, ...]
    """The status of each component, with its pid on this machine."""
    problem: str
    """Why the cluster is not ready; empty if it is."""


def discard_progress(line: str) -> None:
    """Ignore a line of progress."""


@contextlib.contextmanager
def lock_cluster(layout: Layout, report: Report) -> Iterator[None]:
    """Lock the state folder against other commands; create it if missing.

    Raises LocalClusterError after LOCK_SECONDS.
    """
    layout.make_state_folder()
    with layout.lock.open("a") as file:

        def acquire() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        if not acquire():
            report("waiting for another command that is starting or stopping this cluster")
            if not processes.wait_until(acquire, LOCK_SECONDS):
                raise LocalClusterError(
                    f"Another command has held the lock of the cluster in {layout.state} for {LOCK_SECONDS:.0f} s; "
                    f"`fuser {layout.lock}` prints its pid."
                )
        yield


def _cluster(layout: Layout, record: StartRecord) -> LocalCluster:
    slot = Slot(record.slot)
    return LocalCluster(
        state=layout.state,
        kubeconfig=layout.kubeconfig,
        server=slot.server,
        registry=RegistryAccess(slot.registry, layout.certs),
        node=NODE_NAME,
        node_ip=slot.node_ip,
        host_ip=slot.host_ip,
        pid=record.init.pid,
    )


def saved_spec(layout: Layout) -> ClusterSpec | None:
    """Return the spec of the last start; None if it is missing or invalid."""
    try:
        return ClusterSpec.from_json(layout.spec.read_text())
    except (FileNotFoundError, ValueError, TypeError, KeyError):  # a power loss left an incomplete file
        return None


def ready_problem(node: Manifest, since: float) -> str:
    """Return why a node is not ready, or an empty string. Ignore heartbeats before `since` (Unix seconds)."""
    name = node["metadata"]["name"]
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            heartbeat = calendar.timegm(time.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ"))
            if heartbeat < int(since):
                return f"node {name} has not reported since the start"
            return "" if condition["status"] == "True" else f"node {name} is not ready: {condition['message']}"
    return f"node {name} has not reported yet"


def real_node_problem(api: ApiClient, name: str, spec: ClusterSpec, since: float) -> str:
    """Return why the real node does not accept pods yet, or an empty string. `since`: as in `ready_problem`."""
    node = api.find(f"/api/v1/nodes/{name}")
    account = api.find("/api/v1/namespaces/default/serviceaccounts/default")
    if node is None:
        return f"node {name} is not registered yet"
    if not_ready := ready_problem(node, since):
        return not_ready
    if any(simulated_gpus.real_node_patch(node, spec)):
        return f"node {name} does not advertise its GPUs yet"
    if account is None:
        return "namespace default does not accept pods yet: its service account does not exist"
    return ""


def _node_problem(layout: Layout, api: ApiClient, spec: ClusterSpec, record: StartRecord) -> str:
    """Return why a real or simulated node is not ready, or lacks its GPUs or folders; an empty string if none."""
    try:
        missing_folders = mount_points.missing_folders(layout, spec.node_folders, record.init.pid)
        problem = real_node_problem(api, NODE_NAME, spec, record.started)
        node_list = (
            api.request("GET", f"/api/v1/nodes?{simulated_gpus.SIMULATED_NODES_QUERY}")
            if spec.simulated_nodes
            else {"items": []}
        )
    except (ApiError, OSError) as error:
        return str(error)
    if missing_folders:
        return f"the folder {missing_folders[0]} is not mounted on node {NODE_NAME} yet"
    # A simulated node's last heartbeat may be older than this start.
    return problem or next(filter(None, (ready_problem(node, 0) for node in node_list["items"])), "")


def status(state: Path) -> ClusterStatus:
    """Return the status of the cluster in a state folder. Change nothing."""
    layout = Layout.of(state)
    record, spec = StartRecord.read(layout.run), saved_spec(layout)
    if record is None or not record.init.is_alive():
        problem = "it is stopped" if record is None else "its supervisor died; `up` cleans up and restarts it"
        return ClusterStatus(
            running=False, ready=False, node_ready=False, cluster=None, spec=spec, components=(), problem=problem
        )
    outer_pid_by_inner = processes.outer_pids(record.init.pid)
    components = tuple(
        replace(component, pid=outer_pid_by_inner.get(component.pid, 0) if component.pid else 0)
        for component in read_status(layout.status)
    )
    cluster = _cluster(layout, record)
    unready_components = [component.name for component in components if not component.ready]
    node_problem = _node_problem(layout, ApiClient(cluster.server, layout.certs), spec or ClusterSpec(), record)
    problem = f"not ready: {', '.join(unready_components)}" if unready_components or not components else node_problem
    return ClusterStatus(
        running=True, ready=not problem, node_ready=not node_problem, cluster=cluster, spec=spec, components=components,
        problem=problem,
    )  # fmt: skip


def _crash_loop_report(layout: Layout, current_status: ClusterStatus) -> str:
    """Return a report of a component that exits again and again, with the end of its log, or an empty string."""
    for component in current_status.components:
        if not component.ready and component.restarts >= MANY_RESTARTS:
            log = layout.log / f"{component.name}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else ""
            return f"{component.name} exited {component.restarts} times ({component.exit}). End of {log}:\n{tail}"
    return ""


def _await_ready(layout: Layout, seconds: float, report: Report, started_at: float) -> ClusterStatus:
    """Report components as they become ready. Return when all are ready, one fails repeatedly, or time is up.

    `seconds` is the timeout; `started_at` is the monotonic time of the command's start.
    """
    deadline, reported_names = time.monotonic() + seconds, set[str]()
    while True:
        current_status = status(layout.state)
        for component in current_status.components:
            if component.ready and component.name not in reported_names:
                reported_names.add(component.name)
                report(f"{time.monotonic() - started_at:5.1f} s  {component.name}")
        if (
            current_status.ready
            or not current_status.running
            or time.monotonic() > deadline
            or _crash_loop_report(layout, current_status)
        ):
            return current_status
        time.sleep(0.1)


def up(
    state: Path, spec: ClusterSpec | None = None, report: Report = discard_progress, *, temporary: bool = False
) -> LocalCluster:
    """Ensure that the cluster runs and is ready.

    A ready cluster stays unchanged, a damaged one recovers or is restarted, and the leftovers of a crash are removed.
    With `spec` None, the spec of the last start applies. A running cluster adopts changes to GPUs, folders and sites.
    Other changes are refused, because they would end its pods. With `temporary`, a cluster that this call starts stops
    when this process ends, even if it is killed. Raises LocalClusterError.
    """
    layout, started_at = Layout.of(state), time.monotonic()
    with lock_cluster(layout, report):
        current_status = status(layout.state)
        if current_status.running and current_status.spec and spec is not None and current_status.spec != spec:
            if changes := "; ".join(current_status.spec.with_live_settings(spec).differences(spec)):
                raise LocalClusterError(
                    f"The cluster in {layout.state} runs with other settings ({changes}). A restart ends its pods and "
                    "keeps its data: run `trainstack cluster down`, then `trainstack cluster up` with the new settings."
                )
            report(f"changing the running cluster: {'; '.join(current_status.spec.differences(spec))}")
            write_atomically(layout.spec, spec.to_json())
            current_status = _await_ready(layout, HEAL_SECONDS, discard_progress, started_at)
        if current_status.running and not current_status.ready:
            report(f"waiting for the running cluster to heal ({current_status.problem})")
            current_status = _await_ready(layout, HEAL_SECONDS, report, started_at)
        if current_status.ready and current_status.cluster:
            return current_status.cluster
        return _start(layout, spec or current_status.spec or ClusterSpec(), report, started_at, temporary=temporary)


def check_machine() -> None:
    """Raise LocalClusterError with everything that this machine lacks for the local cluster."""
    findings = [str(finding) for finding in machine.find_problems()]
    # `machine.missing` does not report packages, because `make up` installs them.
    if distribution.read_distribution().is_supported and (packages := debian.missing_packages()):
        findings.append(f"packages are missing: apt-get install {' '.join(packages)}")
    if findings:
        raise LocalClusterError("\n  - ".join(["This machine cannot run the local cluster:", *findings]))


def _start(layout: Layout, spec: ClusterSpec, report: Report, started_at: float, *, temporary: bool) -> LocalCluster:
    check_machine()
    _raise_inotify_limit(report)
    # Removes the leftovers of a crash, and stops a cluster that did not recover.
    _stop(layout)
    report("starting the cluster (about 10 s)")
    _lifelines[layout.state] = supervisor_process.start(layout, spec)
    try:
        current_status = _await_ready(layout, START_SECONDS, report, started_at)
    except BaseException:  # such as Ctrl-C
        _stop(layout)
        raise
    if not temporary:
        _lifelines.pop(layout.state).release()
    if not current_status.ready or not current_status.cluster:
        reason = _crash_loop_report(layout, current_status) or current_status.problem
        raise LocalClusterError(
            f"The cluster in {layout.state} did not become ready within {time.monotonic() - started_at:.0f} s: "
            f"{reason}\nLogs: {layout.log}. If a power loss damaged its data, recreate it with `trainstack cluster "
            "reset`."
        )
    report(f"{time.monotonic() - started_at:5.1f} s  node {NODE_NAME} is ready")
    return current_status.cluster


def _stop(layout: Layout) -> None:
    supervisor_process.stop(layout, StartRecord.read(layout.run))
    if lifeline := _lifelines.pop(layout.state, None):
        lifeline.close()


def _raise_inotify_limit(report: Report, limit_file: Path = INOTIFY_LIMIT) -> None:
    """Raise the kernel's limit of inotify instances, which the containerd and kubelet of a third cluster exceed.

    Above the limit, containerd starts without its CRI, and reports an unknown service instead of the limit.
    """
    old_limit = int(limit_file.read_text())
    if old_limit >= INOTIFY_INSTANCES:
        return
    try:
        limit_file.write_text(f"{INOTIFY_INSTANCES}\n")
    except OSError as error:
        report(
            f"fs.inotify.max_user_instances is {old_limit}, and cannot be raised here ({error.strerror}); a third "
            f"cluster may not start: run `sysctl fs.inotify.max_user_instances={INOTIFY_INSTANCES}` on the host"
        )
        return
    report(f"raised fs.inotify.max_user_instances from {old_limit} to {INOTIFY_INSTANCES}")


def ensure_removable(layout: Layout) -> None:
    """Raise LocalClusterError if the state folder contains files that the cluster does not create."""
    foreign_names = sorted(layout.contents() - layout.file_names())
    if foreign_names or not layout.spec.exists():
        names = ", ".join(foreign_names[:3]) + (", …" if foreign_names[3:] else "")
        reason = f"contains {names}" if foreign_names else "has no spec.json"
        raise LocalClusterError(
            f"{layout.state} {reason}, so it does not belong to a local cluster alone and is not removed; name the "
            "cluster's own folder with --state, or move the other files away."
        )


def down(state: Path, *, keep_data: bool = True, report: Report = discard_progress) -> None:
    """Stop the cluster, and remove its processes, mounts and links, also after a crash.

    Its data (objects, images, volumes) remains for the next `up`. With `keep_data` False, the state folder is removed
    too, but not a volumes folder outside it. Raises LocalClusterError, before it stops anything, if that folder
    contains foreign files.
    """
    layout = Layout.of(state)
    with lock_cluster(layout, report):
        # If the folder was deleted while the cluster ran, the components have recreated a few of its files.
        contents = layout.contents()
        was_deleted = contents <= layout.disposable_names()
        if not keep_data and not was_deleted:
            ensure_removable(layout)
        _stop(layout)
        if not keep_data or was_deleted:
            shutil.rmtree(layout.state)


def down_all(*, keep_data: bool = True, report: Report = discard_progress) -> int:
    """Stop every native cluster of this machine as `down` does; return their number."""
    names = sorted(cgroups.cluster_names(cgroups.read_hierarchies()))
    for name in names:
        down_cgroup(name, keep_data=keep_data, report=report)
    return len(names)


def down_cgroup(name: str, *, keep_data: bool = True, report: Report = discard_progress) -> None:
    """Stop the cluster with this cgroup. If its supervisor has died, remove its traces outside the state folder."""
    state = supervisor_process.find_state_folder(cgroups.member_pids(name, cgroups.read_hierarchies()))
    if state is None:
        supervisor_process.remove_traces(name)
        report(f"removed what a killed cluster has left ({name})")
    else:
        down(state, keep_data=keep_data, report=report)
        report(f"stopped the cluster in {state}")


@contextlib.contextmanager
def temporary_cluster(
    state: Path, spec: ClusterSpec | None = None, report: Report = discard_progress
) -> Iterator[LocalCluster]:
    """Run a cluster until the block or this process ends, then delete it. A killed process leaves its files."""
    try:
        yield up(state, spec, report, temporary=True)
    finally:
        down(state, keep_data=False)


def reset(state: Path, spec: ClusterSpec | None = None, report: Report = discard_progress) -> LocalCluster:
    """Restart the cluster without its objects and volumes. Images in the shared registry remain."""
    layout = Layout.of(state)
    spec = spec or saved_spec(layout)
    down(state, keep_data=False, report=report)
    return up(state, spec, report)
