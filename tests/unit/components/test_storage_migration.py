"""The migration of stored objects after an upgrade of an operator, against a small API server."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest

from tests.unit.live_objects import write_kubeconfig
from trainstack.components.storage_migration import migrate_stored_objects

NAME = "workloads.kueue.x-k8s.io"
DEFINITION_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
LIST_PATH = "/apis/kueue.x-k8s.io/v1beta2/workloads"
OBJECT_PATHS = [f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads/job-a" for namespace in ("a", "b")]


def make_definition(*versions: str) -> dict[str, Any]:
    """Return a definition that stores its last version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "uid": "u"},
        "spec": {
            "group": "kueue.x-k8s.io",
            "names": {"plural": "workloads", "kind": "Workload"},
            "versions": [{"name": version, "storage": version == versions[-1]} for version in versions],
        },
    }


class Server(ThreadingHTTPServer):
    """An API server with one definition and the objects of its kind in two namespaces."""

    def __init__(self, *stored_versions: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        definition = {**make_definition("v1beta1", "v1beta2"), "status": {"storedVersions": list(stored_versions)}}
        items = [{"metadata": {"namespace": space, "name": "job-a", "uid": space}} for space in ("a", "b")]
        self.bodies: dict[str, dict[str, Any]] = {
            "/version": {"gitVersion": "v1.36.1"},
            DEFINITION_PATH: definition,
            LIST_PATH: {"kind": "PartialObjectMetadataList", "metadata": {}, "items": items},
        }
        self.requests: list[tuple[str, Any]] = []
        """The path and body of each PATCH, in order."""
        self.refused: dict[tuple[str, str], int] = {}
        """The status of the response, by method and path."""
        self.lock = Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        self._answer("GET", path, self.server.bodies.get(path))

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append((self.path, body))
        kind = "CustomResourceDefinition" if self.path.startswith(DEFINITION_PATH) else "Workload"
        self._answer("PATCH", self.path, {"kind": kind, "metadata": {"name": "n", "uid": "u"}, "spec": {}})

    def _answer(self, method: str, path: str, body: dict[str, Any] | None) -> None:
        status = self.server.refused.get((method, path), 404 if body is None else 200)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        failure = {"kind": "Status", "message": "not allowed"}
        self.wfile.write(json.dumps(body if body and status == 200 else failure).encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@pytest.fixture
def stored_versions() -> tuple[str, ...]:
    """Return the versions in which objects were ever stored."""
    return ("v1beta1", "v1beta2")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored_versions: tuple[str, ...]) -> Iterator[Server]:
    """Start a server that KUBECONFIG points to."""
    with Server(*stored_versions) as api_server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def migrate() -> list[str]:
    return migrate_stored_objects([make_definition("v1beta1", "v1beta2")], None)


def test_each_object_is_written_before_the_status_of_its_definition(server: Server) -> None:
    """An empty patch makes the API server store an object in the storage version."""
    assert migrate() == []
    *objects, status = server.requests
    assert sorted(objects) == [(path, {}) for path in OBJECT_PATHS]
    assert status == (f"{DEFINITION_PATH}/status", {"status": {"storedVersions": ["v1beta2"]}})


@pytest.mark.parametrize("stored_versions", [("v1beta2",), ()])
def test_objects_in_the_storage_version_are_not_written(server: Server) -> None:
    assert migrate() == []
    assert server.requests == []


def test_a_definition_with_one_version_is_not_read() -> None:
    """No server is reachable."""
    assert migrate_stored_objects([make_definition("v1beta2")], None) == []


def test_a_deleted_object_or_definition_is_no_failure(server: Server) -> None:
    server.refused["PATCH", OBJECT_PATHS[0]] = 404
    assert migrate() == []
    assert server.requests[-1][0] == f"{DEFINITION_PATH}/status"
    server.requests.clear()
    server.refused["GET", DEFINITION_PATH] = 404
    assert migrate() == []
    assert server.requests == []


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (("PATCH", OBJECT_PATHS[1]), f"PATCH {OBJECT_PATHS[1]} was refused (403: not allowed)"),
        (("GET", LIST_PATH), "the list of workloads was refused (403)"),
        (
            ("PATCH", f"{DEFINITION_PATH}/status"),
            f"PATCH {DEFINITION_PATH}/status was refused (403: not allowed)",
        ),
    ],
)
def test_a_refusal_is_a_note_and_the_former_version_stays_recorded(
    server: Server, refused: tuple[str, str], reason: str
) -> None:
    """The next `up` repeats it: the definition's status changes last."""
    server.refused[refused] = 403
    (note,) = migrate()
    assert note.startswith(f"{NAME} has objects that are stored in v1beta1, which a later release of the operator may")
    assert note.endswith(f"{reason}. An `up` with the right to change these objects stores them in v1beta2")
    if refused != ("PATCH", f"{DEFINITION_PATH}/status"):
        assert not any(path.endswith("/status") for path, _ in server.requests)


def test_an_unreadable_definition_is_a_note(server: Server) -> None:
    server.refused["GET", DEFINITION_PATH] = 403
    assert migrate() == [f"the stored versions of {NAME} are unknown: reading it was refused (403)"]
