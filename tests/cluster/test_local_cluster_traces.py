"""The local cluster leaves no traces after a stop or a crash."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import traces
from tests.cluster.pods import PODS, api_of, await_phase, make_pod, make_spec
from trainstack.local_cluster import cgroups, cluster, supervisor_process
from trainstack.local_cluster.processes import StartRecord, wait_until
from trainstack.local_cluster.state_folder import Layout

pytestmark = pytest.mark.cluster


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Yield the state folder of a cluster that the test starts; it is stopped and removed afterwards."""
    folder = tmp_path / "cluster"
    try:
        yield folder
    finally:
        cluster.down(folder, keep_data=False)


def test_down_removes_all_traces_and_up_restores_the_cluster(state: Path, tmp_path: Path) -> None:
    """No process, mount, link, cgroup, firewall rule or file of the cluster remains; objects and volumes are kept.

    Two concurrent `up` start one cluster; `down` stops it even if its folder was deleted while it ran.
    """
    before = traces.collect_traces(state)
    with ThreadPoolExecutor() as pool:
        running, other = pool.map(lambda _: cluster.up(state, make_spec(tmp_path)), range(2))
    assert running == other
    api, inside = api_of(running), traces.process_namespaces(running.pid)
    pod = make_pod("keeper", "echo boot >> /data/boots; sleep 1000", restartPolicy="Always")
    pod["spec"]["volumes"] = [{"name": "data", "hostPath": {"path": str(tmp_path)}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    api.request("POST", PODS, pod)
    await_phase(api, "keeper", "Running")
    during = traces.collect_traces(state, inside)
    assert during.processes
    assert during.cgroups
    assert during.links - before.links
    assert (during.mounts, during.firewall, during.sysctls) == (before.mounts, before.firewall, before.sysctls)
    cluster.down(state)
    assert traces.collect_traces(state, inside) == before
    assert cluster.status(state).problem == "it is stopped"
    cluster.down(state)

    again = cluster.up(state)
    assert wait_until(lambda: (tmp_path / "boots").read_text() == "boot\nboot\n", 60, 0.2)
    await_phase(api_of(again), "keeper", "Running")
    inside = traces.process_namespaces(again.pid)

    def deleted() -> bool:
        shutil.rmtree(state, ignore_errors=True)  # the cluster still writes to it
        return not state.exists()

    assert wait_until(deleted, 10)
    cluster.down(state)
    assert traces.collect_traces(state, inside) == before
    assert not state.exists()


def test_a_killed_supervisor_leaves_no_traces(state: Path, tmp_path: Path) -> None:
    """The kernel ends the processes; `up` removes the rest and starts a new cluster, `down` removes everything."""
    before = traces.collect_traces(state)
    running = cluster.up(state, make_spec(tmp_path))
    inside, record = traces.process_namespaces(running.pid), StartRecord.read(Layout.of(state).run)
    assert record
    os.kill(record.init.pid, signal.SIGKILL)

    await_end(state, before, inside)
    assert "supervisor died" in cluster.status(state).problem
    again = cluster.up(state)
    assert cluster.status(state).ready
    assert again.server == running.server

    inside, record = traces.process_namespaces(again.pid), StartRecord.read(Layout.of(state).run)
    assert record
    os.kill(record.guard.pid, signal.SIGKILL)
    cluster.down(state)
    assert traces.collect_traces(state, inside) == before


TEMPORARY = """
import signal, sys
from pathlib import Path
from trainstack.local_cluster import cluster
with cluster.temporary_cluster(Path(sys.argv[1])):
    print("ready", flush=True)
    signal.pause()
"""


def test_a_cluster_ends_with_the_process_that_uses_or_starts_it(state: Path) -> None:
    """The processes are killed: a user of a temporary cluster, and `cluster up` during the start."""
    before = traces.collect_traces(state)
    layout = Layout.of(state)
    with subprocess.Popen([sys.executable, "-c", TEMPORARY, str(state)], stdout=subprocess.PIPE) as user:
        assert user.stdout
        assert user.stdout.readline() == b"ready\n"
        assert (
            supervisor_process.find_state_folder(cgroups.member_pids(layout.cgroup, cgroups.read_hierarchies()))
            == layout.state
        )
        user.kill()
    await_end(state, before)
    layout.run.unlink()

    with subprocess.Popen([sys.executable, "-m", "trainstack.cli", "cluster", "up", "--state", str(state)]) as starter:
        assert wait_until(layout.run.exists, 20)
        starter.kill()
    await_end(state, before)
    reports: list[str] = []
    cluster.down_cgroup(layout.cgroup, report=reports.append)
    assert reports == [f"removed what a killed cluster has left ({layout.cgroup})"]
    assert traces.collect_traces(state) == before


def await_end(state: Path, before: traces.Traces, within: traces.ProcessNamespaces = traces.NOT_RUNNING) -> None:
    """Wait until no process and no link of the cluster is left."""

    def has_ended() -> bool:
        now = traces.collect_traces(state, within)
        return (now.processes, now.links) == (before.processes, before.links)

    assert wait_until(has_ended, 20)
