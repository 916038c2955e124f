"""Launches that are known by name alone: how they are looked for, and with which rights."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.unit.checks.live import make_endpoint, make_launch_body
from trainstack.live.client import ClusterError, RightsError
from trainstack.live.snapshot import read_unlabelled
from trainstack.runs.recorded import RecordedLaunch

JOBS = "/apis/batch/v1/namespaces/research/jobs"
PAGE = 500
"""Objects in one answer."""


class ApiServer(ThreadingHTTPServer):
    """An API server with Jobs in namespaces, which answers by pages and by rights, and remembers its requests."""

    # A client has 16 requests at a time; the kernel drops connections beyond the backlog, to be tried a second later.
    request_queue_size = 16

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        """By path."""
        self.denied: set[str] = set()
        """Verbs."""
        self.expired = False
        """Whether the token of a next page is."""
        self.asked: list[str] = []
        self.accepted: set[str] = set()
        """What those who list a whole kind accept."""


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: ApiServer

    def do_GET(self) -> None:
        """A Job, those of a namespace, or who one is."""
        url = urlsplit(self.path)
        path, query = url.path.rstrip("/"), {key: value for key, (value,) in parse_qs(url.query).items()}
        if path == "/version":
            return self._send(200, {"gitVersion": "v1.34.4"})
        self.server.asked.append(self.path)
        verb = "list" if path.endswith("/jobs") else "get"
        if verb in self.server.denied:
            return self._send(403, {})
        if verb == "get":
            found = self.server.jobs.get(path)
            return self._send(200 if found else 404, found or {})
        items = [body for key, body in sorted(self.server.jobs.items()) if key.startswith(f"{path}/")]
        if "fieldSelector" in query:
            return self._send(200, {"items": [each for each in items if _selected(each, query["fieldSelector"])]})
        self.server.accepted.add(self.headers["Accept"])
        first, size = int(query.get("continue", "0")), int(query["limit"])
        if first and self.server.expired:
            return self._send(410, {})
        more = str(first + size) if len(items) > first + size else ""
        shown = [{"metadata": each["metadata"]} for each in items[first : first + size]]
        return self._send(200, {"metadata": {"continue": more}, "items": shown or None})

    def _send(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _selected(body: dict[str, Any], selector: str) -> bool:
    return selector == f"metadata.name={body['metadata']['name']}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server that KUBECONFIG names."""
    with ApiServer() as made:
        config = {
            "clusters": [{"name": "c", "cluster": make_endpoint(made.server_port)}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        monkeypatch.setenv("KUBECONFIG", str(file))
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def make_recorded(number: int, *, namespace: str = "research") -> RecordedLaunch:
    """A Job of a ledger."""
    run = f"digits-{number:010d}"
    name = f"{run}-aaaaaa"
    marks = {"trainstack.dev/stack": "dev", "trainstack.dev/run": run, "trainstack.dev/launch": name}
    return RecordedLaunch(api_version="batch/v1", kind="Job", namespace=namespace, name=name, uid="", labels=marks)


def make_live(server: ApiServer, launch: RecordedLaunch) -> None:
    """The launch's object, whose labels somebody removed."""
    body = make_launch_body()
    body["metadata"] |= {"name": launch.name, "namespace": launch.namespace, "labels": {}}
    server.jobs[f"/apis/batch/v1/namespaces/{launch.namespace}/jobs/{launch.name}"] = body


def names(recorded: Sequence[RecordedLaunch], labelled: Sequence[dict[str, Any]] = ()) -> list[str]:
    """The names of those that are found."""
    return [launch.name for launch in read_unlabelled(recorded, labelled, None)]


@pytest.mark.parametrize(("ledgers", "requests"), [(0, 0), (1, 1), (20, 20), (21, 1), (1000, 1)])
def test_many_launches_that_ended_are_looked_for_in_one_list(server: ApiServer, ledgers: int, requests: int) -> None:
    """Few are asked for one by one: a list would show every other Job of the namespace."""
    assert names([make_recorded(number) for number in range(ledgers)]) == []
    assert len(server.asked) == requests


@pytest.mark.parametrize(("others", "requests"), [(PAGE, 1), (PAGE + 1, 2), (2 * PAGE + 1, 3)])
def test_a_long_list_comes_in_pages_of_metadata(server: ApiServer, others: int, requests: int) -> None:
    """Jobs of others may be many, and large."""
    for number in range(1000, 1000 + others):
        make_live(server, make_recorded(number))
    assert names([make_recorded(number) for number in range(1000)]) == []
    assert len(server.asked) == requests
    (accepted,) = server.accepted
    assert "PartialObjectMetadataList" in accepted


def test_each_namespace_counts_alone(server: ApiServer) -> None:
    """A list is of one kind in one namespace: the rights of a tenant are."""
    few = [make_recorded(number, namespace="team") for number in range(20)]
    assert names([*few, *(make_recorded(number) for number in range(21))]) == []
    assert [path.partition("?")[0] for path in server.asked].count(JOBS) == 1
    assert len(server.asked) == 21


@pytest.mark.parametrize("ledgers", [1, 20, 21, 1000])
def test_a_launch_that_lost_its_labels_is_found_among_them(server: ApiServer, ledgers: int) -> None:
    """Whole, since its state is in it, with the labels that it lost."""
    recorded = [make_recorded(number) for number in range(ledgers)]
    make_live(server, recorded[-1])
    (found,) = read_unlabelled(recorded, [], None)
    assert (found.name, found.phase) == (recorded[-1].name, "queued")
    assert found.lost_labels == recorded[-1].labels
    assert len(server.asked) == (ledgers if ledgers <= 20 else 2)


def test_what_was_found_by_label_is_not_asked_for(server: ApiServer) -> None:
    """Nor is the cluster."""
    recorded = make_recorded(1)
    body = make_launch_body()
    body["metadata"]["name"] = recorded.name
    assert names([recorded], [body]) == []
    assert server.asked == []


def test_who_may_not_list_asks_for_each(server: ApiServer) -> None:
    """A role may have `get` alone."""
    server.denied = {"list"}
    recorded = [make_recorded(number) for number in range(21)]
    make_live(server, recorded[3])
    assert names(recorded) == [recorded[3].name]
    assert len(server.asked) == 1 + 21


@pytest.mark.parametrize("ledgers", [1, 20, 21])
def test_who_may_not_get_lists(server: ApiServer, ledgers: int) -> None:
    """The committed roles list launches of every kind, but get only those that the environment declares now."""
    server.denied = {"get"}
    recorded = [make_recorded(number) for number in range(ledgers)]
    assert names(recorded) == []
    make_live(server, recorded[0])
    assert names(recorded) == [recorded[0].name]


@pytest.mark.parametrize(("ledgers", "told"), [(1, ""), (21, " and 16 more")])
def test_a_launch_that_may_not_be_read_is_not_known_to_be_gone(server: ApiServer, ledgers: int, told: str) -> None:
    """So the change is refused, which might launch it again. The message names the ledgers, the kind and the remedy."""
    server.denied = {"get", "list"}
    recorded = [make_recorded(number) for number in range(ledgers)]
    with pytest.raises(RightsError) as caught:
        read_unlabelled(recorded, [], None)
    listed = ", ".join(f"run-digits-{number:010d}" for number in range(min(ledgers, 5)))
    assert str(caught.value) == (
        "the cluster answered 403 to list jobs.batch in namespace research, so it cannot be determined which of the "
        "Job objects recorded in its ledgers still exist, and nothing is changed; ask the platform's owner for that "
        "right (`trainstack:tenants` in the platform's environment gives a team all that it needs, and so do the roles "
        f"of `trainstack rights`), or use another kubeconfig. The ledgers: {listed}{told}"
    )


def test_a_list_that_ends_early_does_not_tell_that_the_rest_is_gone(server: ApiServer) -> None:
    """The token of the next page has expired: the read fails."""
    for number in range(PAGE + 1):
        make_live(server, make_recorded(number))
    server.expired = True
    with pytest.raises(ClusterError, match=f"answered 410 to list {JOBS}.*try again"):
        names([make_recorded(number) for number in range(PAGE + 1)])
