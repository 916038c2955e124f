"""The requests of a tenant stay in its namespaces, except for objects that all users of a cluster may read."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.unit.live_objects import (
    LAUNCH,
    Body,
    make_launch_body,
    make_pod,
    make_queue,
    make_replica,
    make_workload,
    write_kubeconfig,
)
from tests.unit.make import make_distributed, make_queues, make_runtime_run, make_settings, make_storage
from tests.unit.runs.launches import make_launch
from trainstack.live.adoption import read_namespace_objects
from trainstack.live.client import RightsError
from trainstack.live.environment import read_environment
from trainstack.live.events import read_events
from trainstack.live.run_views import read_launch_views
from trainstack.live.snapshot import read_launches, run_namespaces
from trainstack.objects.labels import LAUNCH as LABEL
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Workloads

BODY = make_launch_body("PyTorchJob")
TENANT = make_settings(
    make_distributed(),
    environment=Environment(profile="tenant", layers=("training",)),
    storage=make_storage(classes=()),
    operators=Operators(),
    queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
)
TRAINJOB = make_distributed(kind="TrainJob")
TRAINJOB_LAUNCH = {**manifest(TRAINJOB, "dev", make_launch()), "metadata": BODY["metadata"]}
(RUNTIME,) = companions(TRAINJOB, "dev", make_launch())
JOBSET = "shared"
"""The name of a TrainJob, and of its JobSet, whose pods a runtime of the cluster defines."""


def make_node() -> Body:
    """Return a pod of that JobSet, which has no label of the launch."""
    return make_pod(labels={"jobset.sigs.k8s.io/jobset-name": JOBSET, "jobset.sigs.k8s.io/replicatedjob-name": "node"})


class Server(ThreadingHTTPServer):
    """An API server with one run that records its requests; by default it has no positions in queues."""

    requests: list[str]
    forbidden = False
    visible = False
    """Whether it serves positions in queues."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with the objects of the run."""
        path = self.path.partition("?")[0].rstrip("/")
        self.server.requests.append(path)
        if path == "/version":
            self._send(200, {"gitVersion": "v1.34.4"})
        elif self.server.forbidden:
            self._send(403, {"message": "no"})
        elif "visibility" in path and not self.server.visible:
            self._send(503, {"message": "the server is currently unable to handle the request"})
        elif "/trainingruntimes/" in path:
            self._send(200, RUNTIME | {"metadata": {**RUNTIME["metadata"], "uid": "r"}})
        elif path.endswith("/pendingworkloads"):
            entry = {"metadata": {"name": make_workload()["metadata"]["name"]}, "positionInLocalQueue": 3}
            self._send(200, {"items": [entry]})
        elif path.endswith("/workloads"):
            self._send(200, {"items": [make_workload()] if self._selects("job-uid") else []})
        elif path.endswith("/pods") and self._selects(JOBSET):
            self._send(200, {"items": [make_node()]})
        elif path.endswith("/pods"):
            self._send(200, {"items": [make_replica("master", 0)] if self._selects(LAUNCH) else []})
        elif path.endswith(("/localqueues/research", "/namespaces/research", "/persistentvolumeclaims/training")):
            kind, name = path.split("/")[-2:]
            queue = make_queue("research", "Ready") if kind == "localqueues" else {"spec": {}}
            self._send(200, queue | {"metadata": {"name": name, "uid": name}})
        else:
            self._send(200, {"items": []})

    def do_POST(self) -> None:
        """Accept a dry run."""
        self.server.requests.append(self.path.partition("?")[0])
        self._send(201, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _selects(self, value: str) -> bool:
        """Return whether the label selector includes a value."""
        return re.search(f"[(=]{value}\\b", unquote(self.path)) is not None

    def _send(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server that KUBECONFIG points to."""
    with Server(("127.0.0.1", 0), Handler) as api_server:
        api_server.requests = []
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        threading.Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def test_requests_stay_in_the_tenants_namespaces(server: Server) -> None:
    """The requests of status, events, the check of the cluster and adopt."""
    read_launches(TENANT, run_namespaces(TENANT))
    read_launch_views([BODY, TRAINJOB_LAUNCH], TENANT, datetime.now(UTC), cluster_wide=False, with_usage=True)
    read_events([BODY, TRAINJOB_LAUNCH], [LAUNCH], None)
    read_environment(TENANT, [("workloads.runs[train]", BODY)])
    found = read_namespace_objects("research", None, cluster_wide=False)
    assert found is not None
    assert (found.foreign_claims, found.read_failures) == (None, ())
    outside = {path for path in server.requests if "/namespaces/research/" not in path} - {"/version"}
    assert outside == {"/api/v1/namespaces/research", "/apis/storage.k8s.io/v1/storageclasses"}
    assert len(server.requests) > 10


def test_volumes_of_a_trainjob_are_read_by_its_runtime(server: Server) -> None:
    """Status and events have them, as for the other kinds."""
    (view,) = read_launch_views([TRAINJOB_LAUNCH], TENANT, datetime.now(UTC), cluster_wide=False)
    assert [claim.name for claim in view.claims] == ["training"]
    claim, runtime = "/persistentvolumeclaims/training", f"/trainingruntimes/{RUNTIME['metadata']['name']}"
    server.requests.clear()
    read_events([TRAINJOB_LAUNCH], [LAUNCH], None)
    assert [path.endswith(claim) for path in server.requests].count(True) == 1
    assert [path.endswith(runtime) for path in server.requests].count(True) == 1


def test_the_pods_of_a_runtime_of_the_cluster_are_read_by_their_jobset(server: Server) -> None:
    """Each launch gets its own pods. The runtime itself is not read, which would require a right in the cluster."""
    launch = manifest(make_runtime_run(), "dev", make_launch())
    shared = {**launch, "metadata": {**BODY["metadata"], "name": JOBSET, "uid": "shared"}}
    views = read_launch_views([shared, BODY], TENANT, datetime.now(UTC), cluster_wide=False)
    assert [[pod.role for pod in view.pods] for view in views] == [["node"], ["master"]]
    assert not any("trainingruntimes" in path for path in server.requests)


def test_the_position_in_the_queue_is_unknown_without_the_visibility_server(server: Server) -> None:
    """The other values are still read."""
    (view,) = read_launch_views([BODY], TENANT, datetime.now(UTC), cluster_wide=False)
    assert (view.position, view.queue, [pod.role for pod in view.pods]) == ("unknown", "research", ["master"])
    assert any("pendingworkloads" in path for path in server.requests)


def make_many(count: int) -> list[Body]:
    """Return launches in one queue; the server has the objects of the first."""
    others = (
        {"name": f"l-{number}", "uid": f"uid-{number}", "labels": {**BODY["metadata"]["labels"], LABEL: f"l-{number}"}}
        for number in range(1, count)
    )
    return [BODY, *({**BODY, "metadata": {**BODY["metadata"], **metadata}} for metadata in others)]


def test_the_objects_of_many_launches_are_read_in_few_requests(server: Server) -> None:
    """Lists select them by label, and each launch gets its own objects."""
    server.visible = True
    first, *others = read_launch_views(make_many(120), TENANT, datetime.now(UTC), cluster_wide=False)
    assert (first.position, [pod.role for pod in first.pods]) == (3, ["master"])
    assert {(view.position, view.pods, view.pods_known) for view in others} == {("unknown", (), True)}
    counts = Counter(path.rpartition("/")[2] for path in server.requests)
    assert counts == {"workloads": 3, "pods": 3} | dict.fromkeys(
        ("version", "research", "training", "pendingworkloads", "log"), 1
    )


def test_values_are_unknown_without_the_rights(server: Server) -> None:
    """The reason names who can grant them."""
    server.forbidden = True
    (view,) = read_launch_views([BODY], TENANT, datetime.now(UTC), cluster_wide=False)
    assert view.position == "unknown"
    assert "ask the namespace's administrator for that permission" in view.waits_because
    assert [claim.phase for claim in view.claims] == ["unknown"]
    assert (view.pods, view.pods_known) == ((), False)
    with pytest.raises(RightsError, match=r"events of namespace research may not be read .* for the right"):
        read_events([BODY], [LAUNCH], None)
    with pytest.raises(RightsError, match="403"):
        read_launches(TENANT, run_namespaces(TENANT))
    run = make_runtime_run()
    live = read_environment(TENANT.model_copy(update={"workloads": Workloads(runs=(run,))}), [])
    assert live.objects_by_name("ClusterTrainingRuntime") is None
    live = read_environment(TENANT, [])
    assert (live.objects_by_name("LocalQueue", "research"), live.unserved) == (None, frozenset())
    assert (live.objects_by_name("StorageClass"), live.namespaces) == (None, {"research": None})
