"""A fake API server with one run, which may give an odd answer to one path, and a project whose environment it is."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.unit.live_objects import NOW, make_endpoint
from trainstack.live import paths

RUN = "digits-0123456789"
LAUNCH = f"{RUN}-aaaaaa"
TOKEN = "good"
Body = dict[str, Any]

ENVIRONMENT = """\
config:
  trainstack:environment: {namespaces: [{name: lab}]}
  trainstack:storage:
    volumes: [{name: training, namespace: lab, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany]}]
  trainstack:queues:
    flavors: [{name: cpu}]
    clusterQueues:
      - name: lab
        resourceGroups:
          - {coveredResources: [cpu], flavors: [{name: cpu, resources: [{name: cpu, nominalQuota: 8}]}]}
    localQueues: [{name: lab, namespace: lab, clusterQueue: lab}]
  trainstack:workloads:
    runs: [{name: digits, from: base}]
"""
BASE = """\
kind: Job
namespace: lab
queue: lab
managed: false
image: {name: "example.org/train:1"}
resources: {requests: {cpu: 1}}
expectedDurationSeconds: 60
"""


def write_project(folder: Path) -> Path:
    """Write a project with the environment `lab` of one run."""
    (folder / "workloads/base").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: trainstack\n")
    (folder / "Pulumi.lab.yaml").write_text(ENVIRONMENT)
    (folder / "workloads/base/workload.yaml").write_text(BASE)
    return folder


def make_config(port: int, user: Body, **cluster: Any) -> Body:
    """Return a kubeconfig with one context."""
    endpoint = {**make_endpoint(port), **cluster}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": endpoint}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def make_metadata(name: str, **labels: str) -> Body:
    """Return the metadata of an object in `lab`."""
    return {"name": name, "namespace": "lab", "uid": f"uid-{name}", "creationTimestamp": NOW, "labels": labels}


def _labels(**more: str) -> dict[str, str]:
    own = {"stack": "lab", "run": RUN, "launch": LAUNCH, "workload": "digits"}
    return {**{f"trainstack.dev/{name}": value for name, value in own.items()}, **more}


_CONTAINER = {"name": "training", "image": "example.org/train:1"}
_VOLUMES = [{"name": "v", "persistentVolumeClaim": {"claimName": "training"}}]
_POD_SPEC = {"containers": [_CONTAINER], "volumes": _VOLUMES, "nodeName": "n1"}
OBJECTS: dict[str, Body] = {
    "/apis/batch/v1/namespaces/lab/jobs": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": make_metadata(LAUNCH, **_labels(**{"kueue.x-k8s.io/queue-name": "lab"})),
        "spec": {"suspend": False, "completions": 1, "parallelism": 1, "template": {"spec": _POD_SPEC}},
        "status": {"active": 1},
    },
    "/api/v1/namespaces/lab/pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": make_metadata("p1", **{"trainstack.dev/run": RUN, "trainstack.dev/launch": LAUNCH}),
        "spec": _POD_SPEC,
        "status": {"phase": "Running", "containerStatuses": [{"name": "training", "restartCount": 0}]},
    },
    "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/workloads": {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": make_metadata("w1", **{"kueue.x-k8s.io/job-uid": f"uid-{LAUNCH}"}),
        "spec": {"queueName": "lab", "podSets": [{"name": "main", "count": 1, "template": {"spec": _POD_SPEC}}]},
        "status": {"conditions": []},
    },
    "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/localqueues": {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": make_metadata("lab"),
        "spec": {"clusterQueue": "lab"},
        "status": {"conditions": []},
    },
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues": {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "lab", "uid": "uid-cq", "creationTimestamp": NOW},
        "spec": {"resourceGroups": [], "namespaceSelector": {}},
        "status": {"conditions": []},
    },
    "/api/v1/namespaces/lab/persistentvolumeclaims": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": make_metadata("training", **_labels()),
        "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "shared"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    },
    "/api/v1/namespaces": {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "lab", "uid": "uid-ns", "creationTimestamp": NOW, "labels": {}},
        "spec": {},
        "status": {"phase": "Active"},
    },
    "/api/v1/namespaces/lab/events": {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": make_metadata("e1"),
        "involvedObject": {"kind": "Pod", "name": "p1", "uid": "uid-p1"},
        "reason": "Started",
        "message": "started",
        "type": "Normal",
        "count": 1,
        "lastTimestamp": NOW,
    },
}
"""The objects of the cluster, one of a kind, by their collection."""
_VERSION = {"groupVersion": "batch/v1", "version": "v1"}
_RESOURCE = {"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["list", "delete", "get"]}
OTHERS: dict[str, Body] = {
    "/version": {"gitVersion": "v1.34.2"},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [{"name": "batch", "versions": [_VERSION], "preferredVersion": _VERSION}],
    },
    "/apis/batch/v1": {"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": [_RESOURCE]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/api/v1/nodes/n1/proxy/stats/summary": {"node": {"nodeName": "n1"}, "pods": []},
}


def good_answer(path: str, query: str) -> tuple[int, bytes]:
    """Return the status and the body of a working API server's answer."""
    if path in OTHERS:
        return 200, json.dumps(OTHERS[path]).encode()
    if path.endswith("/log"):
        return 200, f"{NOW} epoch 1/2 loss 0.5\n".encode()
    if path.endswith("/pendingworkloads"):
        entry = {"metadata": {"name": "w1", "namespace": "lab"}, "positionInLocalQueue": 0}
        return 200, json.dumps({"kind": "PendingWorkloadsSummary", "items": [entry]}).encode()
    parent, _, name = path.rpartition("/")
    if parent in OBJECTS and OBJECTS[parent]["metadata"]["name"] == name:
        return 200, json.dumps(OBJECTS[parent]).encode()
    kind = paths.kind_of(name)
    if kind is None or (parent in OBJECTS and path not in OBJECTS):
        return 404, json.dumps({"kind": "Status", "status": "Failure", "message": f"{path} not found"}).encode()
    items = [body for collection, body in OBJECTS.items() if body["kind"] == kind and _is_in(collection, path)]
    selected = [body for body in items if _matches(body, unquote(query))]
    return 200, json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": selected}).encode()


def _is_in(collection: str, path: str) -> bool:
    """Return whether a list, of one namespace or of all, has the objects of a collection."""
    version, _, rest = collection.partition("/namespaces/lab")
    return path in (collection, f"{version}{rest}")


def _matches(body: Body, query: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    required = [word.partition("=") for word in query.partition("labelSelector=")[2].partition("&")[0].split(",")]
    return all(labels.get(name) == value for name, equals, value in required if equals and " in " not in name)


class FakeCluster(ThreadingHTTPServer):
    """The server."""

    request_queue_size = 64
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.accepts: Callable[[str], bool] = lambda _: True
        """Whether it accepts the token of a request; else it answers 401."""
        self.odd: dict[str, bytes] = {}
        """Odd answers by verb and path, `GET /version`."""
        self.once = False
        """Whether each odd answer is given once."""
        self.drip = ""
        """The verb and path of an answer that never ends."""
        self.tls: ssl.SSLContext | None = None
        self.accepted_names: list[str] = []
        """With TLS, the common names of the client certificates that it accepts."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the test output free of connections that the client ends."""

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in its own thread."""
        super().finish_request(request if self.tls is None else self.tls.wrap_socket(request, True), client_address)


class _Handler(BaseHTTPRequestHandler):
    server: FakeCluster
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        path, _, query = self.path.partition("?")
        path = path.rstrip("/")
        self.server.requests.append(f"GET {path}")
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        self.server.tokens.append(token)
        if self._is_odd(f"GET {path}"):
            return
        if not self.server.accepts(token) or not self._is_accepted_certificate():
            self.respond(401, b'{"kind": "Status", "code": 401}')
            return
        self.respond(*good_answer(path, query))

    def _is_accepted_certificate(self) -> bool:
        if self.server.tls is None:
            return True
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate: Any = self.connection.getpeercert() or {}
        names = {value for part in certificate["subject"] for _, value in part} if certificate else set()
        return bool(names & {*self.server.accepted_names})

    def do_POST(self) -> None:
        """Accept a review or a dry run."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint = f"{self.command} {self.path.partition('?')[0]}"
        self.server.requests.append(endpoint)
        if not self._is_odd(endpoint):
            self.respond(
                201 if self.command == "POST" else 200, json.dumps({**sent, "status": {"allowed": True}}).encode()
            )

    def do_PATCH(self) -> None:
        """Accept an apply."""
        self.do_POST()

    def _is_odd(self, endpoint: str) -> bool:
        odd = self.server.odd.pop(endpoint, None) if self.server.once else self.server.odd.get(endpoint)
        if endpoint == self.server.drip:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                self.wfile.write(b" ")
                time.sleep(0.01)
        if odd is not None:
            self.wfile.write(odd)
            self.close_connection = True
        return odd is not None

    def respond(self, status: int, body: bytes) -> None:
        """Send a complete answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@contextmanager
def fake_cluster() -> Iterator[FakeCluster]:
    """Run a fake cluster for the duration of the block."""
    with FakeCluster() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
