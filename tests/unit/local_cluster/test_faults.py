"""Faults affect only the processes that they name."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.injection import component_processes, keep_down, kill, paused
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.processes import PROC, ProcessIdentity, wait_until
from trainstack.local_cluster.registry_access import RegistryAccess


def make_cluster(state: Path) -> LocalCluster:
    """Return a cluster that has only a state folder, without a supervisor."""
    same = {"server": "", "node": "", "node_ip": "", "host_ip": ""}
    registry = RegistryAccess("", state / "certs")
    return LocalCluster(state=state, kubeconfig=state / "kubeconfig", registry=registry, pid=-1, **same)


@contextmanager
def sleeper() -> Iterator[tuple["subprocess.Popen[bytes]", ProcessIdentity]]:
    """Run a process that sleeps."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        yield process, identity
        process.kill()


def state_of(process: "subprocess.Popen[bytes]") -> str:
    """Return the state in /proc: S for asleep, T for stopped."""
    return (PROC / str(process.pid) / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_paused_process_stops_and_continues() -> None:
    """The process continues after the block."""
    with sleeper() as (process, identity):
        with paused([identity]):
            assert wait_until(lambda: state_of(process) == "T", 5)
        assert wait_until(lambda: state_of(process) == "S", 5)


def test_a_process_that_is_kept_away_is_killed_again() -> None:
    """Every process that starts during the time is killed; a later one is not."""
    with sleeper() as (first, first_identity), sleeper() as (second, second_identity):
        identities = iter([[first_identity], [second_identity]])
        threading.Thread(target=keep_down, args=(lambda: next(identities, []), 0.5)).start()
        assert (first.wait(5), second.wait(5)) == (-9, -9)
    with sleeper() as (third, third_identity):
        keep_down(lambda: [third_identity], 0)
        assert third.poll() is None
        kill([third_identity])
        assert third.wait(5) == -9


def test_an_unknown_component_is_an_error(tmp_path: Path) -> None:
    """The error lists the components of the cluster; one that is not running has no process."""
    status = {"name": "etcd", "pid": 0, "ready": False, "restarts": 1, "exit": "", "once": False}
    (tmp_path / "status.json").write_text(json.dumps([status]))
    assert component_processes(make_cluster(tmp_path), "etcd") == []
    with pytest.raises(LocalClusterError, match="unknown components kublet; the cluster has etcd"):
        component_processes(make_cluster(tmp_path), "kublet")
