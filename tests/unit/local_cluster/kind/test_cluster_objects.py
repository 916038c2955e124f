"""Additions to a cluster of kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainstack.local_cluster.api import ApiError, Manifest
from trainstack.local_cluster.kind import cluster_objects
from trainstack.local_cluster.kind.record import KindRecord
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout
from trainstack.objects.labels import LOCAL_CLUSTER

RECORD = KindRecord(engine="docker", name="x", node_id="1", registry_port=1, node_image="", registry_image="r")
READY = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
AVAILABLE = {
    "metadata": {"generation": 2},
    "status": {"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 1},
}


class Server:
    """A server that answers by path and records applied objects."""

    def __init__(self) -> None:
        self.objects_by_path: dict[str, Manifest] = {
            "/api/v1/nodes/x-control-plane": {
                "metadata": {"name": "x-control-plane"},
                "status": {"conditions": [READY]},
            },
            "/api/v1/namespaces/default/serviceaccounts/default": {},
            cluster_objects._STORAGE: AVAILABLE,
            cluster_objects._DNS: AVAILABLE,
        }
        self.applied: list[Manifest] = []
        self.merged: dict[str, Manifest] = {}

    def find(self, path: str) -> Manifest | None:
        return self.objects_by_path.get(path)

    def apply(self, manifest: Manifest) -> None:
        self.applied.append(manifest)

    def merge(self, path: str, patch: Manifest) -> None:
        self.merged[path] = patch


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    result = Server()
    monkeypatch.setattr(cluster_objects, "_api", lambda layout: result)
    return result


def test_volumes_have_every_access_mode(server: Server, tmp_path: Path) -> None:
    """kind's provisioner gets a shared folder, and a new pod that reads it."""
    assert cluster_objects.reconcile(Layout(tmp_path), RECORD, ClusterSpec()) == ""
    namespace, config = server.applied
    assert namespace["metadata"]["annotations"] == {LOCAL_CLUSTER: Layout(tmp_path).identity}
    assert config["metadata"] == {"name": "local-path-config", "namespace": "local-path-storage"}
    assert json.loads(config["data"]["config.json"]) == {"sharedFileSystemPath": "/var/local-path-provisioner"}
    assert [*server.merged] == [cluster_objects._STORAGE]


def test_gpus_are_simulated_on_the_node(server: Server, tmp_path: Path) -> None:
    """The objects are those of the native cluster's node."""
    assert cluster_objects.reconcile(Layout(tmp_path), RECORD, ClusterSpec(gpus=4)) == ""
    assert server.merged["/api/v1/nodes/x-control-plane/status"]["status"]["capacity"] == {"nvidia.com/gpu": "4"}
    assert "GPUs" in cluster_objects.readiness_problem(Layout(tmp_path), RECORD, ClusterSpec(gpus=4))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("", None, ""),
        ("/api/v1/nodes/x-control-plane", None, "not registered"),
        ("/api/v1/namespaces/default/serviceaccounts/default", None, "does not accept pods"),
        (cluster_objects._STORAGE, None, "the storage provisioner is not ready"),
        (cluster_objects._STORAGE, AVAILABLE | {"metadata": {"generation": 3}}, "the storage provisioner is not ready"),
        (cluster_objects._DNS, {"metadata": {"generation": 1}}, "cluster DNS is not ready"),
    ],
)
def test_what_is_not_ready_is_named(server: Server, tmp_path: Path, path: str, value: Any, expected: str) -> None:
    """A Deployment's old pods do not count."""
    server.objects_by_path[path] = value
    message = cluster_objects.readiness_problem(Layout(tmp_path), RECORD, ClusterSpec())
    assert expected in message
    assert bool(expected) == bool(message)


def test_an_api_server_that_does_not_answer_is_a_problem_and_no_failure(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may be starting."""

    def refuse(*_: object) -> None:
        raise ApiError(0, "refused")

    monkeypatch.setattr(server, "apply", refuse)
    monkeypatch.setattr(server, "find", refuse)
    assert cluster_objects.reconcile(Layout(tmp_path), RECORD, ClusterSpec()) == "refused"
    assert cluster_objects.readiness_problem(Layout(tmp_path), RECORD, ClusterSpec()) == "refused"
