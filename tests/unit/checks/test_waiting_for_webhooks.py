"""How long a fresh object is waited for: which answers to a dry run are enough."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.make import make_distributed
from tests.unit.workloads.launches import make_launch
from trainstack.live.client import ClusterError
from trainstack.live.webhooks import wait_until_accepted, wait_until_runtime_is_seen
from trainstack.platform import probes
from trainstack.runs.manifests.build import manifest

TRAINJOB = manifest(make_distributed(kind="TrainJob"), "dev", make_launch())
UNSEEN = (
    (403, "specified trainingRuntime must be created before the TrainJob is created"),
    (403, "unsupported runtime: TrainingRuntime.trainer.kubeflow.org"),
    (500, "failed calling webhook: no endpoints available"),
    (404, "the server could not find the requested resource"),
)
"""Answers of a cluster that does not know the runtime, or not even TrainJobs, yet."""


def make_kubeconfig(server: str) -> dict[str, Any]:
    """A kubeconfig of one cluster, for somebody with a token."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }


class Server(ThreadingHTTPServer):
    """An API server that gives these answers to one dry run after the other, the last one for ever."""

    answers: list[tuple[int, str]]
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: Server

    def do_GET(self) -> None:
        """Say its version."""
        self._answer(200, {"gitVersion": "v1.34.4"})

    def do_POST(self) -> None:
        """Give the next answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(self.path)
        status, message = self.server.answers[min(len(self.server.asked), len(self.server.answers)) - 1]
        self._answer(status, {"message": message})

    def do_PATCH(self) -> None:
        """As to a POST."""
        assert self.headers["Content-Type"] == "application/apply-patch+yaml"
        self.do_POST()

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that KUBECONFIG names."""
    with Server(("127.0.0.1", 0), Handler) as made:
        made.answers, made.asked = [], []
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(make_kubeconfig(f"http://127.0.0.1:{made.server_port}")))
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr("trainstack.live.webhooks._PAUSE_SECONDS", 0.01)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def test_a_trainjob_waits_until_its_runtime_is_known(server: Server) -> None:
    """It is asked with itself, as a dry run: both Trainer's webhook and Kueue's look for the runtime."""
    server.answers = [*UNSEEN, (201, "")]
    wait_until_runtime_is_seen(TRAINJOB, None)
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/research/trainjobs?dryRun=All"
    assert server.asked == [path] * (len(UNSEEN) + 1)


def test_a_trainjob_that_is_refused_for_itself_is_not_waited_for(server: Server) -> None:
    """Its creation tells the reason at once."""
    server.answers = [UNSEEN[0], (403, "a queue name is required")]
    wait_until_runtime_is_seen(TRAINJOB, None)
    assert len(server.asked) == 2


def test_a_probe_waits_whatever_the_refusal_is(server: Server) -> None:
    """It is an object that nobody would refuse."""
    server.answers = [(403, "not yet"), (409, "it is there")]
    wait_until_accepted(TRAINJOB, None)
    assert len(server.asked) == 2


def test_a_probe_is_applied_so_that_a_role_can_name_it(server: Server) -> None:
    """The API server compares the name of what is posted with no role; still a dry run, of nobody else's fields."""
    server.answers = [(201, "")]
    wait_until_accepted(probes.kueue("dev"), None)
    path = f"/apis/kueue.x-k8s.io/v1beta2/resourceflavors/{probes.NAME}"
    assert server.asked == [f"{path}?dryRun=All&fieldManager=trainstack"]


def test_the_last_answer_is_told_when_time_is_up(server: Server) -> None:
    """With where to look."""
    server.answers = [UNSEEN[0]]
    with pytest.raises(ClusterError, match=r"for a TrainJob within 0 s \(last: 403 .*must be created"):
        wait_until_runtime_is_seen(TRAINJOB, None, deadline_seconds=0.05)
