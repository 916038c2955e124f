"""The search for launches that have lost their labels: its requests and the required rights."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.live_objects import make_launch_body, write_kubeconfig
from trainstack.live.client import ClusterError, RightsError, shared_clients
from trainstack.live.snapshot import read_unlabeled_launches
from trainstack.runs.recorded_launches import RecordedLaunch

JOBS = "/apis/batch/v1/namespaces/research/jobs"
PAGE = 500
"""The number of objects in one answer."""


class ApiServer(ThreadingHTTPServer):
    """An API server with Jobs in namespaces, which checks rights, paginates lists, and records its requests."""

    # A client has 16 concurrent requests; the kernel drops connections beyond the backlog, which are retried after 1 s.
    request_queue_size = 16

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        """By path."""
        self.denied: set[str] = set()
        """Forbidden verbs."""
        self.expired = False
        """Whether the token of the next page has expired."""
        self.requests: list[str] = []
        self.accepted: set[str] = set()
        """The Accept headers of requests for lists."""


class Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        """Answer with a Job, the Jobs of a namespace, or the version."""
        url = urlsplit(self.path)
        path, query = url.path.rstrip("/"), {key: value for key, (value,) in parse_qs(url.query).items()}
        if path == "/version":
            return self._send(200, {"gitVersion": "v1.34.4"})
        self.server.requests.append(self.path)
        verb = "list" if path.endswith("/jobs") else "get"
        if verb in self.server.denied:
            return self._send(403, {})
        if verb == "get":
            job = self.server.jobs.get(path)
            return self._send(200 if job else 404, job or {})
        items = [body for key, body in sorted(self.server.jobs.items()) if key.startswith(f"{path}/")]
        if "fieldSelector" in query:
            return self._send(200, {"items": [body for body in items if _selected(body, query["fieldSelector"])]})
        self.server.accepted.add(self.headers["Accept"])
        first, size = int(query.get("continue", "0")), int(query["limit"])
        if first and self.server.expired:
            return self._send(410, {})
        more = str(first + size) if len(items) > first + size else ""
        page = [{"metadata": body["metadata"]} for body in items[first : first + size]]
        return self._send(200, {"metadata": {"continue": more}, "items": page or None})

    def _send(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Keep the test output free of request logs."""


def _selected(body: dict[str, Any], selector: str) -> bool:
    return selector == f"metadata.name={body['metadata']['name']}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Start a server that KUBECONFIG points to."""
    with ApiServer() as api_server, shared_clients():
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        threading.Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def make_recorded(number: int, *, namespace: str = "research") -> RecordedLaunch:
    """Return a Job of a ledger."""
    run = f"digits-{number:010d}"
    name = f"{run}-aaaaaa"
    labels = {"trainstack.dev/stack": "dev", "trainstack.dev/run": run, "trainstack.dev/launch": name}
    return RecordedLaunch(api_version="batch/v1", kind="Job", namespace=namespace, name=name, uid="", labels=labels)


def make_live(server: ApiServer, launch: RecordedLaunch) -> None:
    """Add the launch's object without labels to the server."""
    body = make_launch_body()
    body["metadata"] |= {"name": launch.name, "namespace": launch.namespace, "labels": {}}
    server.jobs[f"/apis/batch/v1/namespaces/{launch.namespace}/jobs/{launch.name}"] = body


def names(recorded: Sequence[RecordedLaunch], labelled: Sequence[dict[str, Any]] = ()) -> list[str]:
    """Return the names of the launches that are found."""
    return [launch.name for launch in read_unlabeled_launches(recorded, labelled, None)]


@pytest.mark.parametrize(("ledgers", "requests"), [(0, 0), (1, 1), (20, 20), (21, 1), (1000, 1)])
def test_many_missing_launches_are_searched_in_one_list(server: ApiServer, ledgers: int, requests: int) -> None:
    """Few launches are read one by one: a list would contain all other Jobs of the namespace."""
    assert names([make_recorded(number) for number in range(ledgers)]) == []
    assert len(server.requests) == requests


@pytest.mark.parametrize(("others", "requests"), [(PAGE, 1), (PAGE + 1, 2), (2 * PAGE + 1, 3)])
def test_a_long_list_is_read_in_pages_of_metadata(server: ApiServer, others: int, requests: int) -> None:
    """A namespace may have many large Jobs of other owners."""
    for number in range(1000, 1000 + others):
        make_live(server, make_recorded(number))
    assert names([make_recorded(number) for number in range(1000)]) == []
    assert len(server.requests) == requests
    (accepted,) = server.accepted
    assert "PartialObjectMetadataList" in accepted


def test_the_number_of_launches_counts_per_namespace(server: ApiServer) -> None:
    """A list is of one kind in one namespace, like the rights of a tenant."""
    few = [make_recorded(number, namespace="team") for number in range(20)]
    assert names([*few, *(make_recorded(number) for number in range(21))]) == []
    assert [path.partition("?")[0] for path in server.requests].count(JOBS) == 1
    assert len(server.requests) == 21


@pytest.mark.parametrize("ledgers", [1, 20, 21, 1000])
def test_a_launch_that_lost_its_labels_is_found(server: ApiServer, ledgers: int) -> None:
    """The whole object is read, because it has the state; the result has the lost labels."""
    recorded = [make_recorded(number) for number in range(ledgers)]
    make_live(server, recorded[-1])
    (found,) = read_unlabeled_launches(recorded, [], None)
    assert (found.name, found.phase) == (recorded[-1].name, "queued")
    assert found.lost_labels == recorded[-1].labels
    assert len(server.requests) == (ledgers if ledgers <= 20 else 2)


def test_a_launch_that_was_found_by_label_is_not_read_again(server: ApiServer) -> None:
    """No request is sent."""
    recorded = make_recorded(1)
    body = make_launch_body()
    body["metadata"]["name"] = recorded.name
    assert names([recorded], [body]) == []
    assert server.requests == []


def test_without_the_right_to_list_each_launch_is_read(server: ApiServer) -> None:
    """A role may have only `get`."""
    server.denied = {"list"}
    recorded = [make_recorded(number) for number in range(21)]
    make_live(server, recorded[3])
    assert names(recorded) == [recorded[3].name]
    assert len(server.requests) == 1 + 21


@pytest.mark.parametrize("ledgers", [1, 20, 21])
def test_without_the_right_to_get_launches_are_listed(server: ApiServer, ledgers: int) -> None:
    """The committed roles may list launches of every kind, but get only those that the environment declares."""
    server.denied = {"get"}
    recorded = [make_recorded(number) for number in range(ledgers)]
    assert names(recorded) == []
    make_live(server, recorded[0])
    assert names(recorded) == [recorded[0].name]


@pytest.mark.parametrize(("ledgers", "rest"), [(1, ""), (21, " and 16 more")])
def test_an_unreadable_launch_does_not_count_as_deleted(server: ApiServer, ledgers: int, rest: str) -> None:
    """The change is refused, because it might launch it again. The message has the ledgers, the kind and the remedy."""
    server.denied = {"get", "list"}
    recorded = [make_recorded(number) for number in range(ledgers)]
    with pytest.raises(RightsError) as error:
        read_unlabeled_launches(recorded, [], None)
    listed = ", ".join(f"run-digits-{number:010d}" for number in range(min(ledgers, 5)))
    assert str(error.value) == (
        "the cluster answered 403 to list jobs.batch in namespace research, so it cannot be determined which of the "
        "Job objects recorded in its ledgers still exist, and nothing is changed; ask the platform's owner for that "
        "right (`trainstack:tenants` in the platform's environment gives a team all that it needs, and so do the roles "
        f"of `trainstack rights`), or use another kubeconfig. The ledgers: {listed}{rest}"
    )


def test_launches_after_the_end_of_an_incomplete_list_do_not_count_as_deleted(server: ApiServer) -> None:
    """The token of the next page has expired: the read fails."""
    for number in range(PAGE + 1):
        make_live(server, make_recorded(number))
    server.expired = True
    with pytest.raises(ClusterError, match=f"answered 410 to list {JOBS}.*try again"):
        names([make_recorded(number) for number in range(PAGE + 1)])
