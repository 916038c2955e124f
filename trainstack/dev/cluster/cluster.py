"""The local cluster as its users see it: `up`, `down`, `reset`, `status`, each safe to call at any time."""

import calendar
import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trainstack.dev.cluster import folders, launch, machine, processes, simulated
from trainstack.dev.cluster.api import Api, ApiError, Manifest
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.network import Slot
from trainstack.dev.cluster.processes import Run
from trainstack.dev.cluster.registry_access import RegistryAccess
from trainstack.dev.cluster.spec import NODE_NAME, ClusterSpec
from trainstack.dev.cluster.state import ComponentStatus, read_status, write_atomically

Report = Callable[[str], None]
"""Takes one line of progress."""

START_SECONDS = 120.0
"""A start takes about 10 s on 2 cores; this is where waiting ends."""
HEAL_SECONDS = 20.0
"""How long a cluster with a dead component gets to heal itself before it is started anew."""
LOCK_SECONDS = 180.0
"""How long another `up` or `down` of the same cluster is waited for."""
MANY_RESTARTS = 5
"""A component that ended this often will not come up by itself."""


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    state: Path
    kubeconfig: Path
    server: str
    """URL of the API server."""
    registry: RegistryAccess
    """The image registry as this machine reaches it."""
    node: str
    """Name of the real node."""
    node_ip: str
    host_ip: str
    """This machine's address on the link."""
    pid: int
    """The supervisor: `nsenter --target PID --all` is a shell inside the cluster."""

    def shown(self) -> dict[str, str | int]:
        """The fields for programs, without the location of credentials."""
        plain = {"state": str(self.state), "kubeconfig": str(self.kubeconfig), "registry": self.registry.address}
        return asdict(self) | plain


@dataclass(frozen=True)
class Status:
    """What is known of a cluster."""

    running: bool
    ready: bool
    """Every component, the API server and the real node are ready."""
    node_ready: bool
    cluster: Cluster | None
    """None while it does not run."""
    spec: ClusterSpec | None
    """Choices of the last start; None before the first."""
    components: tuple[ComponentStatus, ...]
    """Pids are those of this machine."""
    problem: str
    """Why it is not ready; empty if it is."""


def _silent(_: str) -> None:
    """Report to nobody."""


@contextlib.contextmanager
def _locked(layout: Layout, report: Report) -> Iterator[None]:
    """Only one process starts or stops a cluster at a time."""
    layout.state.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("a") as file:

        def taken() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        if not taken():
            report("another command is starting or stopping this cluster; waiting for it")
            if not processes.wait_until(taken, LOCK_SECONDS):
                raise ClusterError(
                    f"Another command has been starting or stopping the cluster in {layout.state} for "
                    f"{LOCK_SECONDS:.0f} s. `fuser {layout.lock}` names it."
                )
        yield


def _cluster(layout: Layout, record: Run) -> Cluster:
    slot = Slot(record.slot)
    return Cluster(
        state=layout.state,
        kubeconfig=layout.kubeconfig,
        server=slot.server,
        registry=RegistryAccess(slot.registry, layout.certs),
        node=NODE_NAME,
        node_ip=slot.node_ip,
        host_ip=slot.host_ip,
        pid=record.init.pid,
    )


def _saved_spec(layout: Layout) -> ClusterSpec | None:
    try:
        return ClusterSpec.from_json(layout.spec.read_text())
    except (FileNotFoundError, ValueError, TypeError, KeyError):  # half-written by a machine that lost its power
        return None


def _saved_slot(layout: Layout) -> int | None:
    try:
        return int(layout.slot.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _ready_problem(node: Manifest, since: float) -> str:
    """Why a node is not ready; empty if it is. A report older than `since` (Unix seconds) is of an earlier start."""
    name = node["metadata"]["name"]
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            heard = calendar.timegm(time.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ"))
            if heard < int(since):
                return f"node {name} has not reported since the start"
            return "" if condition["status"] == "True" else f"node {name} is not ready: {condition['message']}"
    return f"node {name} has not reported yet"


def _node_problem(layout: Layout, api: Api, spec: ClusterSpec, record: Run) -> str:
    """Why a node is not ready or lacks its GPUs or folders; empty if all is well."""
    try:
        without = folders.absent(layout, spec.node_folders, record.init.pid)
        node = api.find(f"/api/v1/nodes/{NODE_NAME}")
        listed = api.request("GET", f"/api/v1/nodes?{simulated.SELECTOR}") if spec.simulated_nodes else {"items": []}
        account = api.find("/api/v1/namespaces/default/serviceaccounts/default")
    except (ApiError, OSError) as error:
        return str(error)
    if without:
        return f"node {NODE_NAME} does not have its folder {without[0]} yet"
    if node is None:
        return f"node {NODE_NAME} is not registered yet"
    if any(simulated.real_node_patch(node, spec)):
        return f"node {NODE_NAME} does not advertise its GPUs yet"
    if account is None:
        return "namespace default takes no pods yet: its service account is not made"
    # A simulated node's clock starts with its first status, and it may be older than this start.
    problems = [_ready_problem(node, record.started), *(_ready_problem(other, 0) for other in listed["items"])]
    return next((problem for problem in problems if problem), "")


def _status(layout: Layout) -> Status:
    record, spec = Run.read(layout.run), _saved_spec(layout)
    if record is None or not record.init.alive():
        problem = "it is stopped" if record is None else "its supervisor died; `up` cleans up and starts it again"
        return Status(
            running=False, ready=False, node_ready=False, cluster=None, spec=spec, components=(), problem=problem
        )
    outer = processes.outer_pids(record.init.pid)
    components = tuple(
        replace(component, pid=outer.get(component.pid, 0) if component.pid else 0)
        for component in read_status(layout.status)
    )
    cluster = _cluster(layout, record)
    waiting = [c.name for c in components if not c.ready]
    node_problem = _node_problem(layout, Api(cluster.server, layout.certs), spec or ClusterSpec(), record)
    problem = f"not ready: {', '.join(waiting)}" if waiting or not components else node_problem
    return Status(
        running=True, ready=not problem, node_ready=not node_problem, cluster=cluster, spec=spec, components=components,
        problem=problem,
    )  # fmt: skip


def status(state: Path) -> Status:
    """What is known of the cluster in a state folder; reads only."""
    return _status(Layout.of(state))


def _failing(layout: Layout, current: Status) -> str:
    """The component that keeps ending, with the end of its log; empty if none does."""
    for component in current.components:
        if not component.ready and component.restarts >= MANY_RESTARTS:
            log = layout.log / f"{component.name}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else ""
            return f"{component.name} ended {component.restarts} times ({component.exit}). End of {log}:\n{tail}"
    return ""


def _await_ready(layout: Layout, seconds: float, report: Report, began: float) -> Status:
    """Report components as they become ready; returns when all are, when one keeps failing, or at the deadline."""
    deadline, seen = time.monotonic() + seconds, set[str]()
    while True:
        current = _status(layout)
        for component in current.components:
            if component.ready and component.name not in seen:
                seen.add(component.name)
                report(f"{time.monotonic() - began:5.1f} s  {component.name}")
        if current.ready or not current.running or time.monotonic() > deadline or _failing(layout, current):
            return current
        time.sleep(0.1)


def up(state: Path, spec: ClusterSpec | None = None, report: Report = _silent) -> Cluster:
    """Have the cluster running and ready.

    A ready cluster is left alone, a damaged one heals or is started anew, leftovers of a crash are removed. `spec` None
    keeps the choices of the last start. A running cluster takes over other GPUs, folders and sites; further choices are
    refused, since its pods would die.
    """
    layout, began = Layout.of(state), time.monotonic()
    with _locked(layout, report):
        current = _status(layout)
        if current.running and current.spec and spec is not None and current.spec != spec:
            if changes := "; ".join(current.spec.with_live(spec).differences(spec)):
                raise ClusterError(
                    f"The cluster in {layout.state} runs with other choices ({changes}). A restart ends its pods and "
                    "keeps its data: run `trainstack cluster down`, then `trainstack cluster up` with the new choices."
                )
            report(f"the running cluster takes over {'; '.join(current.spec.differences(spec))}")
            write_atomically(layout.spec, spec.to_json())
            current = _await_ready(layout, HEAL_SECONDS, _silent, began)
        if current.running and not current.ready:
            report(f"the cluster runs but {current.problem}; waiting for it to heal")
            current = _await_ready(layout, HEAL_SECONDS, report, began)
        if current.ready and current.cluster:
            return current.cluster
        return _start(layout, spec or current.spec or ClusterSpec(), report, began)


def _start(layout: Layout, spec: ClusterSpec, report: Report, began: float) -> Cluster:
    machine.check()
    record = Run.read(layout.run)
    launch.stop(layout, record)
    report("starting the cluster (about 10 s)")
    launch.start(layout, spec, _saved_slot(layout))
    current = _await_ready(layout, START_SECONDS, report, began)
    if not current.ready or not current.cluster:
        reason = _failing(layout, current) or current.problem
        raise ClusterError(
            f"The cluster in {layout.state} did not become ready within {time.monotonic() - began:.0f} s: {reason}\n"
            f"Logs: {layout.log}. If a power loss damaged its data, `trainstack cluster reset` starts afresh."
        )
    report(f"{time.monotonic() - began:5.1f} s  node {NODE_NAME} is ready")
    return current.cluster


def down(state: Path, *, keep_data: bool = True, report: Report = _silent) -> None:
    """Stop the cluster and leave nothing of it running, mounted or configured.

    Its data (objects, images, volumes) stays for the next `up` unless `keep_data` is False; then the state folder goes
    too, but for a volumes folder that lies elsewhere. Also right after a crash, and when it is stopped already.

    Raises ClusterError for a folder to remove that holds what no cluster has made; nothing is stopped then.
    """
    layout = Layout.of(state)
    with _locked(layout, report):
        # Without its folder too: somebody may have deleted it while the cluster runs, which goes on writing into it.
        contents = layout.contents()
        deleted = contents <= layout.remnants()
        foreign = sorted(contents - layout.known())
        if not keep_data and not deleted and (foreign or not layout.spec.exists()):
            what = f"holds {', '.join(foreign[:3])}{', …' if foreign[3:] else ''}" if foreign else "has no spec.json"
            raise ClusterError(
                f"{layout.state} {what}, so it is not a local cluster's alone and is not removed; name the cluster's "
                "own folder by --state, or move away what is not the cluster's."
            )
        launch.stop(layout, Run.read(layout.run))
        if not keep_data or deleted:
            shutil.rmtree(layout.state)


def reset(state: Path, spec: ClusterSpec | None = None, report: Report = _silent) -> Cluster:
    """Start afresh: no objects, no volumes; images in the shared registry stay."""
    layout = Layout.of(state)
    kept = spec or _saved_spec(layout)
    down(state, keep_data=False, report=report)
    return up(state, kept, report)
