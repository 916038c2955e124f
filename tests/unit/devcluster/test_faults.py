"""Faults hit the processes that they name, and no others."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.injection import components, keep_away, kill, paused
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.processes import PROC, Identity, wait_until
from trainstack.dev.cluster.registry_access import RegistryAccess


def make_cluster(state: Path) -> Cluster:
    """A cluster of nothing but its state folder, whose supervisor is nobody."""
    same = {"server": "", "node": "", "node_ip": "", "host_ip": ""}
    registry = RegistryAccess("", state / "certs")
    return Cluster(state=state, kubeconfig=state / "kubeconfig", registry=registry, pid=-1, **same)


@contextmanager
def sleeper() -> Iterator[tuple["subprocess.Popen[bytes]", Identity]]:
    """A process that does nothing for long."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        identity = Identity.of(process.pid)
        assert identity is not None
        yield process, identity
        process.kill()


def state_of(process: "subprocess.Popen[bytes]") -> str:
    """As /proc tells it: S for asleep, T for stopped."""
    return (PROC / str(process.pid) / "stat").read_text().rpartition(")")[2].split()[0]


def test_what_is_held_stands_still_and_goes_on() -> None:
    """Until the block ends."""
    with sleeper() as (process, identity):
        with paused([identity]):
            assert wait_until(lambda: state_of(process) == "T", 5)
        assert wait_until(lambda: state_of(process) == "S", 5)


def test_what_is_kept_away_is_killed_again() -> None:
    """Each that comes up while the time lasts; what comes after lives."""
    with sleeper() as (first, one), sleeper() as (second, two):
        shown = iter([[one], [two]])
        threading.Thread(target=keep_away, args=(lambda: next(shown, []), 0.5)).start()
        assert (first.wait(5), second.wait(5)) == (-9, -9)
    with sleeper() as (third, three):
        keep_away(lambda: [three], 0)
        assert third.poll() is None
        kill([three])
        assert third.wait(5) == -9


def test_a_component_that_there_is_not_is_told(tmp_path: Path) -> None:
    """With those that there are; one that does not run has no process."""
    told = {"name": "etcd", "pid": 0, "ready": False, "restarts": 1, "exit": "", "once": False}
    (tmp_path / "status.json").write_text(json.dumps([told]))
    assert components(make_cluster(tmp_path), "etcd") == []
    with pytest.raises(ClusterError, match="unknown components kublet; the cluster has etcd"):
        components(make_cluster(tmp_path), "kublet")
