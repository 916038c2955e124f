"""`up`, `down`, `reset` and `status` of a kind cluster: safe to call at any time, and without root."""

import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path

from trainstack.local_cluster.cluster import (
    ClusterStatus,
    LocalCluster,
    Report,
    discard_progress,
    ensure_removable,
    lock_cluster,
    saved_spec,
)
from trainstack.local_cluster.component_status import ComponentStatus, write_atomically
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.kind import cluster_objects, engine, files, kind_command
from trainstack.local_cluster.kind.engine import Container
from trainstack.local_cluster.kind.kind_command import KindProgram
from trainstack.local_cluster.kind.record import KindRecord
from trainstack.local_cluster.processes import wait_until
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

REGISTRY_IMAGE = "docker.io/library/registry:2.8.3"
START_SECONDS = 300.0
"""Timeout from the start of the node to a ready cluster, which takes about 30 s on 2 cores."""
STOP_SECONDS = 30
"""Timeout after which the engine kills a stopping container."""
_DEFAULT_SPEC = ClusterSpec()
_NATIVE_ONLY = ("simulated_nodes", "node_folders", "sites", "audit", "registry", "volumes")
"""Settings that require processes or mounts of the native driver."""


def check_machine(state: Path) -> None:
    """Raise LocalClusterError with what this machine lacks for kind."""
    kind_command.check_version()
    record = KindRecord.read(Layout.of(state).driver)
    engine.find_engine(record.engine if record else "")


def status(state: Path) -> ClusterStatus:
    """Return the status of the cluster in a state folder. Change nothing."""
    layout = Layout.of(state)
    record, spec = KindRecord.read(layout.driver), saved_spec(layout)
    stopped = ClusterStatus(
        running=False, ready=False, node_ready=False, cluster=None, spec=spec, components=(), problem="it is stopped"
    )
    if record is None or not record.node_id:
        return replace(stopped, problem="its creation failed; `up` tries again") if record else stopped
    try:
        node, registry = (record.container_engine().container(name) for name in (record.node, record.registry))
    except LocalClusterError as error:
        return replace(stopped, problem=str(error))
    if node is None or node.id != record.node_id:
        return replace(stopped, problem=f"its container {record.node} was deleted; `up` creates another one")
    components = (_component_status("node", node), _component_status("registry", registry))
    if not node.running:
        return replace(stopped, components=components)
    unready_components = [component.name for component in components if not component.ready]
    problem = (
        f"not ready: {', '.join(unready_components)}"
        if unready_components
        else cluster_objects.readiness_problem(layout, record, spec or _DEFAULT_SPEC)
    )
    return ClusterStatus(
        running=True, ready=not problem, node_ready=not problem, cluster=_cluster(layout, record, node), spec=spec,
        components=components, problem=problem,
    )  # fmt: skip


def _component_status(name: str, container: Container | None) -> ComponentStatus:
    if container is None:
        return ComponentStatus(name, 0, ready=False, restarts=0, exit="deleted", once=False)
    exit_text = "" if container.running else f"exit code {container.exit_code}"
    return ComponentStatus(name, container.pid, ready=container.running, restarts=0, exit=exit_text, once=False)


def _cluster(layout: Layout, record: KindRecord, node: Container) -> LocalCluster:
    return LocalCluster(
        state=layout.state,
        kubeconfig=layout.kubeconfig,
        server=files.server_address(layout),
        registry=files.registry_access(layout, record),
        node=record.node,
        node_ip=files.LOOPBACK,
        host_ip=files.LOOPBACK,
        pid=node.pid,
    )


def up(
    state: Path,
    spec: ClusterSpec | None = None,
    report: Report = discard_progress,
    *,
    node_image: str | None = None,
    registry_image: str | None = None,
) -> LocalCluster:
    """Ensure that the cluster runs and is ready: create it, or start its stopped containers.

    A setting of None keeps its recorded value. A kind cluster of the same name that this folder did not create stays
    unchanged. Raises LocalClusterError.
    """
    layout = Layout.of(state)
    with lock_cluster(layout, report):
        chosen_spec = spec or saved_spec(layout) or _DEFAULT_SPEC
        _ensure_supported(chosen_spec)
        kind_command.check_version()
        record = KindRecord.read(layout.driver)
        kind = KindProgram(engine.find_engine(record.engine if record else ""))
        since, node = time.time(), _find_created_node(layout, kind, record, report)
        if node is not None and node.running:
            since = 0.0
        if record is not None and node is not None:
            _ensure_unchanged(layout, record, chosen_spec, node_image, registry_image)
            _start_containers(layout, record, node, report)
        else:
            planned_record = _plan_record(layout, kind, record, node_image, registry_image)
            record = _create_cluster(layout, kind, planned_record, chosen_spec, report)
        write_atomically(layout.spec, chosen_spec.to_json())
        return _await_ready(layout, record, chosen_spec, report, since)


def _ensure_supported(spec: ClusterSpec) -> None:
    if unsupported := [name for name in _NATIVE_ONLY if getattr(spec, name) != getattr(_DEFAULT_SPEC, name)]:
        raise LocalClusterError(
            f"The kind driver does not support {', '.join(name.replace('_', ' ') for name in unsupported)}",
            "use the native driver, with a folder of its own: `trainstack cluster up --driver native --state FOLDER`",
        )


def _find_created_node(
    layout: Layout, kind: KindProgram, record: KindRecord | None, report: Report
) -> Container | None:
    """Return the node's container if this folder created it; remove the leftovers of an interrupted creation.

    Raises LocalClusterError if another folder or a user created the container.
    """
    if record is None:
        return None
    node = kind.engine.container(record.node)
    if node is not None and not record.node_id:
        report("removing the rest of an interrupted creation")
        _delete(layout, kind, record)
        return None
    _ensure_created_here(record, node)
    return node


def _ensure_created_here(record: KindRecord, node: Container | None) -> None:
    """Raise LocalClusterError if this folder did not create the container."""
    if node is not None and node.id != record.node_id:
        raise LocalClusterError(
            f"The container {record.node} is not the one that this folder created; nothing was changed",
            f"if you do not need it, delete it yourself: `kind delete cluster --name {record.name}`",
        )


def _ensure_unchanged(
    layout: Layout, record: KindRecord, spec: ClusterSpec, node_image: str | None, registry_image: str | None
) -> None:
    """Raise LocalClusterError if the settings require another node."""
    previous_spec = saved_spec(layout) or spec
    changes = previous_spec.with_live_settings(spec).differences(spec)
    changes += [
        f"{name}: {old or 'the default of kind'} → {new}"
        for name, old, new in (
            ("node image", record.node_image, node_image),
            ("registry image", record.registry_image, registry_image),
        )
        if new is not None and new != old
    ]
    if changes:
        raise LocalClusterError(
            f"The kind cluster of {layout.state} has other settings ({'; '.join(changes)})",
            "recreate it with `trainstack cluster down --wipe`, which deletes its objects and volumes, then "
            "`trainstack cluster up` with the new settings",
        )


def _plan_record(
    layout: Layout, kind: KindProgram, record: KindRecord | None, node_image: str | None, registry_image: str | None
) -> KindRecord:
    """Return the record of a cluster to create. Raises LocalClusterError if a cluster of its name exists."""
    planned_record = KindRecord(
        engine=kind.engine.name,
        name=layout.cgroup,
        node_id="",
        registry_port=_free_port(),
        node_image=node_image if node_image is not None else record.node_image if record else "",
        registry_image=registry_image or (record.registry_image if record else REGISTRY_IMAGE),
    )
    if planned_record.name in kind.clusters():
        raise LocalClusterError(
            f"A kind cluster {planned_record.name} exists that {layout.state} has no record of; nothing was changed",
            f"delete it yourself if you do not need it (`kind delete cluster --name {planned_record.name}`), or use "
            "another folder: --state FOLDER",
        )
    return planned_record


def _kubeconfig(layout: Layout) -> Path:
    """Return the kubeconfig that kind writes and edits instead of the user's."""
    return layout.config / "kind.kubeconfig"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((files.LOOPBACK, 0))
        return int(listener.getsockname()[1])


def _create_cluster(
    layout: Layout, kind: KindProgram, record: KindRecord, spec: ClusterSpec, report: Report
) -> KindRecord:
    # First: if a step fails or this process is killed, the record identifies the driver and the containers.
    record.write(layout.driver)
    write_atomically(layout.spec, spec.to_json())
    for folder in (layout.config, layout.log):
        folder.mkdir(parents=True, exist_ok=True)
    layout.certs.mkdir(mode=0o700, exist_ok=True)
    files.write_registry(layout)
    config, kubeconfig = layout.config / "kind.json", _kubeconfig(layout)
    kubeconfig.unlink(missing_ok=True)
    config.write_text(files.cluster_config(layout, record, spec))
    if not kind.engine.has_image(record.registry_image):
        report(f"downloading {record.registry_image}")
        kind.engine.run("pull", record.registry_image, timeout_seconds=None)
    report("creating the kind cluster (about 1 minute; the first time, kind downloads a node image of 1 GB)")
    kind.create(config, kubeconfig, record.node_image, layout.log / "kind.log", report)
    node = kind.engine.container(record.node)
    if node is None:
        raise LocalClusterError(f"kind created no container {record.node}; log: {layout.log / 'kind.log'}")
    files.write_credentials(layout, kubeconfig)
    kubeconfig.unlink()
    created_record = replace(record, node_id=node.id)
    # The registry of an earlier node is in a network namespace that no longer exists.
    _remove_registry(created_record)
    created_record.write(layout.driver)
    kind.engine.run(*files.registry_arguments(layout, created_record))
    return created_record


def _start_containers(layout: Layout, record: KindRecord, node: Container, report: Report) -> None:
    container_engine = record.container_engine()
    if not node.running:
        report("starting the containers")
        container_engine.run("start", record.node)
    registry = container_engine.container(record.registry)
    if node.running and registry is not None and registry.running:
        return
    # Created again, not started: a restarted node has a new network namespace, and the certificates are new.
    _remove_registry(record)
    files.write_registry(layout)
    container_engine.run(*files.registry_arguments(layout, record))


def _remove_registry(record: KindRecord) -> None:
    container_engine = record.container_engine()
    if container_engine.container(record.registry) is not None:
        container_engine.run("rm", "--force", record.registry)


def _await_ready(layout: Layout, record: KindRecord, spec: ClusterSpec, report: Report, since: float) -> LocalCluster:
    """Wait until the cluster is ready. `since` is the start of its node in Unix seconds; 0 if it ran before.

    Raises LocalClusterError after START_SECONDS.
    """
    started_at, problem = time.monotonic(), ""

    def reconcile_and_check() -> bool:
        nonlocal problem
        _reject_stray_requests(record)
        problem = cluster_objects.reconcile(layout, record, spec) or cluster_objects.readiness_problem(
            layout, record, spec, since
        )
        return not problem

    wait_until(reconcile_and_check, START_SECONDS, 0.5)
    current_status = status(layout.state)
    if problem or current_status.cluster is None:
        raise LocalClusterError(
            f"The kind cluster of {layout.state} did not become ready within {time.monotonic() - started_at:.0f} s: "
            f"{problem or current_status.problem}",
            "read the logs: `trainstack cluster logs kubelet`",
        )
    report(f"{time.monotonic() - started_at:5.1f} s  node {record.node} is ready")
    return current_status.cluster


def _reject_stray_requests(record: KindRecord) -> None:
    """Keep requests to services and to addresses of earlier pods on the node.

    After a restart, kube-proxy adds its rules only after a while, and pods get other addresses. The engine's network
    would send such requests to the machine's gateway. If a proxy answers there, the API server keeps its connection,
    treats an operator's API as broken, and deletes no namespace. kube-proxy's rules precede the rejection, and the
    routes of single pods precede the route of all pods.
    """
    rule = f"OUTPUT --destination {files.SERVICE_RANGE} --jump REJECT"
    script = (
        f"ip route replace unreachable {files.POD_RANGE}; "
        f"iptables --check {rule} 2>/dev/null || iptables --insert {rule}"
    )
    record.container_engine().run("exec", record.node, "sh", "-c", script)


def down(state: Path, *, keep_data: bool = True, report: Report = discard_progress) -> None:
    """Stop the containers. With `keep_data` False, delete them and the state folder. The registry's images remain.

    Raises LocalClusterError if the folder contains foreign files, or did not create the node's container.
    """
    layout = Layout.of(state)
    with lock_cluster(layout, report):
        record = KindRecord.read(layout.driver)
        if not keep_data:
            ensure_removable(layout)
        if record is not None:
            container_engine = record.container_engine()
            node = container_engine.container(record.node)
            if record.node_id:
                _ensure_created_here(record, node)
            if not keep_data or not record.node_id:
                _delete(layout, KindProgram(container_engine), record)
            else:
                # The registry first: it is in the node's network namespace.
                for name in (record.registry, record.node):
                    container = container_engine.container(name)
                    if container is not None and container.running:
                        container_engine.run("stop", "-t", str(STOP_SECONDS), name)
        if not keep_data:
            shutil.rmtree(layout.state)


def _delete(layout: Layout, kind: KindProgram, record: KindRecord) -> None:
    kind_command.check_version()
    _remove_registry(record)
    kind.delete(record.name, _kubeconfig(layout))


def reset(state: Path, spec: ClusterSpec | None = None, report: Report = discard_progress) -> LocalCluster:
    """Create the cluster again without its objects and volumes. The registry's images remain."""
    layout = Layout.of(state)
    record = KindRecord.read(layout.driver)
    spec = spec or saved_spec(layout)
    images = (record.node_image, record.registry_image) if record else (None, None)
    down(state, keep_data=False, report=report)
    return up(state, spec, report, node_image=images[0], registry_image=images[1])


def logs(state: Path, component: str, *, follow: bool) -> list[str]:
    """Return the command that prints a component's log. Raises LocalClusterError for an unknown component."""
    record = KindRecord.read(Layout.of(state).driver)
    if record is None:
        raise LocalClusterError(f"{state} has no kind cluster")
    commands = {
        "node": ["logs", *(["--follow"] if follow else []), record.node],
        "registry": ["logs", *(["--follow"] if follow else []), record.registry],
        **{
            unit: ["exec", record.node, "journalctl", "--no-pager", f"--unit={unit}", *(["--follow"] if follow else [])]
            for unit in ("containerd", "kubelet")
        },
    }
    if component not in commands:
        raise LocalClusterError(
            f"no log of component {component!r}; components with a log: {', '.join(sorted(commands))}"
        )
    return [record.engine, *commands[component]]
