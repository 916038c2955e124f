"""The wait for webhooks to see a new object: the answers to a dry run that end it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.live_objects import write_kubeconfig
from tests.unit.make import make_distributed
from tests.unit.runs.launches import make_launch
from trainstack.live.client import ClusterError
from trainstack.live.webhooks import wait_until_accepted, wait_until_runtime_is_visible
from trainstack.platform import probes
from trainstack.runs.manifests.build import manifest

TRAINJOB = manifest(make_distributed(kind="TrainJob"), "dev", make_launch())
UNSEEN = (
    (403, "specified trainingRuntime must be created before the TrainJob is created"),
    (403, "unsupported runtime: TrainingRuntime.trainer.kubeflow.org"),
    (500, "failed calling webhook: no endpoints available"),
    (404, "the server could not find the requested resource"),
)
"""Answers of a cluster that does not have the runtime, or does not serve TrainJobs, yet."""


class Server(ThreadingHTTPServer):
    """An API server that answers the dry runs one after the other; it repeats the last answer."""

    answers: list[tuple[int, str]]
    requests: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with the version."""
        self._answer(200, {"gitVersion": "v1.34.4"})

    def do_POST(self) -> None:
        """Return the next answer."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(self.path)
        status, message = self.server.answers[min(len(self.server.requests), len(self.server.answers)) - 1]
        self._answer(status, {"kind": "Status" if status >= 400 else sent["kind"], "message": message})

    def do_PATCH(self) -> None:
        """Return the next answer."""
        assert self.headers["Content-Type"] == "application/apply-patch+yaml"
        self.do_POST()

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server that KUBECONFIG points to."""
    with Server(("127.0.0.1", 0), Handler) as api_server:
        api_server.answers, api_server.requests = [], []
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        monkeypatch.setattr("trainstack.live.webhooks._PAUSE_SECONDS", 0.01)
        threading.Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def test_a_trainjob_waits_until_its_runtime_is_seen(server: Server) -> None:
    """The dry run is of the TrainJob: both Trainer's webhook and Kueue's read the runtime."""
    server.answers = [*UNSEEN, (201, "")]
    wait_until_runtime_is_visible(TRAINJOB, None)
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/research/trainjobs?dryRun=All"
    assert server.requests == [path] * (len(UNSEEN) + 1)


def test_another_refusal_of_a_trainjob_ends_the_wait(server: Server) -> None:
    """Its creation reports the reason at once."""
    server.answers = [UNSEEN[0], (403, "a queue name is required")]
    wait_until_runtime_is_visible(TRAINJOB, None)
    assert len(server.requests) == 2


def test_a_probe_waits_after_any_refusal(server: Server) -> None:
    """A ready webhook accepts the probe."""
    server.answers = [(403, "not yet"), (409, "it is there")]
    wait_until_accepted(TRAINJOB, None)
    assert len(server.requests) == 2


def test_a_probe_is_applied_so_that_a_role_can_name_it(server: Server) -> None:
    """The API server ignores resourceNames for a POST. The apply is a dry run with the product's field manager."""
    server.answers = [(201, "")]
    wait_until_accepted(probes.kueue("dev"), None)
    path = f"/apis/kueue.x-k8s.io/v1beta2/resourceflavors/{probes.NAME}"
    assert server.requests == [f"{path}?dryRun=All&fieldManager=trainstack"]


def test_the_error_after_the_deadline_has_the_last_answer(server: Server) -> None:
    server.answers = [UNSEEN[0]]
    with pytest.raises(ClusterError, match=r"for a TrainJob within 0 s \(last: 403 .*must be created"):
        wait_until_runtime_is_visible(TRAINJOB, None, deadline_seconds=0.05)
