"""Definitions: one resource for each release, whose hook applies the definitions before the first operator."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pulumi
import pytest

from tests.registrations.recorder import record
from tests.unit.components.declare import hooks
from tests.unit.live_objects import make_condition, write_kubeconfig
from trainstack.components import definitions
from trainstack.components.definitions import Definitions, PreparationSteps
from trainstack.components.teardown import attach_hooks
from trainstack.guards.definition_releases import RESOURCE_TYPE, Release
from trainstack.live.client import ClusterError
from trainstack.objects.labels import REVISION, field_manager

STATE = "a" * 32
MANAGER = field_manager(STATE)
ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED = {"conditions": [make_condition("NamesAccepted"), make_condition("Established")]}


def make_release(*names: str) -> Release:
    manifests = tuple(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "annotations": {REVISION: "0123456789abcdef"}},
            "spec": {"group": name.partition(".")[2]},
        }
        for name in names
    )
    return Release(version="v0.15.2", state_identity=STATE, manifests=manifests)


def test_a_release_is_one_value_in_the_state() -> None:
    """It is removed from the state, not deleted: a deletion would delete all objects of the kind, of all teams."""
    release = make_release("a.example.org", "b.example.org")

    def program() -> None:
        attach_hooks(hooks())
        component = Definitions("definitions", {"kueue": release, "jobset": make_release("c.example.org")})
        pulumi.ComponentResource("test:Operator", "after", {}, pulumi.ResourceOptions(depends_on=[component]))

    found = {f"{entry.type} {entry.name}": entry for entry in record(program, "dev")}
    stash = found[f"{RESOURCE_TYPE} kueue-definitions"]
    assert stash.inputs == {"input": release.stored_value}
    assert stash.parent == "definitions"
    assert stash.options["retainOnDelete"] is True
    assert stash.hooks == {
        "before_create": ["kueue-definitions"],
        "before_update": ["kueue-definitions"],
        "before_delete": ["teardown-definition"],
    }
    kinds = ["a.example.org", "b.example.org", "c.example.org"]
    assert found["trainstack:platform:Definitions definitions"].outputs == {"kinds": kinds}
    assert found["test:Operator after"].dependencies == ["jobset-definitions", "kueue-definitions"]


class Server(ThreadingHTTPServer):
    """An API server that serves a new kind at the second read."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.live: dict[str, dict[str, Any]] = {}
        self.sent: list[tuple[str, dict[str, list[str]], str, Any]] = []
        self.refused: dict[str, tuple[int, str]] = {}
        """Status and message of the response to a PATCH, by path."""
        self.limited = 0
        """The number of requests that will be answered with 429."""
        self.lock = Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Return an object, and establish it for the next read."""
        path = self.path.rstrip("/")
        if path == "/version":
            self._answer(200, {"gitVersion": "v1.34.4"})
            return
        live = self.server.live.get(path)
        metadata = {"name": path.rpartition("/")[2], "uid": "u", **(live or {}).get("metadata", {})}
        self._answer(404 if live is None else 200, {**(live or {}), "metadata": metadata})
        if path in self.server.live:
            self.server.live[path]["status"] = ESTABLISHED

    def do_PATCH(self) -> None:
        """Record the request, and create the object unless it is a dry run."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        with self.server.lock:
            if self.server.limited:
                self.server.limited -= 1
                self.send_response(429)
                self.send_header("Retry-After", "0")
                self.end_headers()
                return
            self.server.sent.append((url.path, query, self.headers["Content-Type"], body))
        found = self.server.live.get(url.path) or {**body, "status": {}}
        status, message = self.server.refused.get(url.path, (200, ""))
        if status == 200 and "dryRun" not in query:
            self.server.live[url.path] = found
        self._answer(status, {"message": message} if message else {"kind": "CustomResourceDefinition", **found})

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
    monkeypatch.setattr(definitions, "_PAUSE_SECONDS", 0)
    with Server() as api_server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def apply(monkeypatch: pytest.MonkeyPatch, release: Release, *, preview: bool = False, **before: Any) -> None:
    """Run the hook of a release, as the engine does before it writes the release's resource."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    prepared: PreparationSteps = {name.replace("_", "."): work for name, work in before.items()}
    definitions.apply_release(release, None, prepared)


def test_up_applies_each_definition_and_waits_for_its_kind(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The apply uses this state's field manager, without force."""
    release = make_release("a.example.org", "b.example.org")
    apply(monkeypatch, release)
    assert sorted(server.sent, key=lambda request: request[0]) == [
        (
            f"{ROOT}/{manifest['metadata']['name']}",
            {"fieldManager": [MANAGER]},
            "application/apply-patch+yaml",
            manifest,
        )
        for manifest in release.manifests
    ]
    assert all(live["status"] == ESTABLISHED for live in server.live.values())


def test_a_preview_dry_runs_each_definition(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It skips those that wait for another object's deletion, or whose fields another state owns until `up`."""
    apply(monkeypatch, make_release("a.example.org", "b.example.org"), preview=True, b_example_org=[pytest.fail])
    ((path, query, _, _),) = server.sent
    assert path == f"{ROOT}/a.example.org"
    assert query == {"fieldManager": [MANAGER], "dryRun": ["All"]}
    assert not server.live


def test_a_preview_without_a_dry_run_needs_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may create the cluster."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    apply(monkeypatch, make_release("a.example.org"), preview=True, a_example_org=())
    with pytest.raises(ClusterError, match="no kubeconfig"):
        apply(monkeypatch, make_release("a.example.org"), a_example_org=())


def test_up_prepares_definitions_before_it_applies_any(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preparations keep their order."""
    done: list[str] = []
    work = [lambda: done.append("deleted"), lambda: done.append("transferred"), lambda: done.append(str(server.sent))]
    apply(monkeypatch, make_release("a.example.org", "b.example.org"), b_example_org=work)
    assert done == ["deleted", "transferred", "[]"]
    assert len(server.sent) == 2


def test_a_throttled_request_is_retried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause is that of the Retry-After header."""
    server.limited = 2
    apply(monkeypatch, make_release("a.example.org"))
    assert len(server.sent) == 1


@pytest.mark.parametrize("preview", [True, False])
def test_all_refusals_are_in_one_error(server: Server, monkeypatch: pytest.MonkeyPatch, *, preview: bool) -> None:
    """The error has the API server's messages; the other definitions are applied."""
    server.refused = {
        f"{ROOT}/b.example.org": (422, "spec.scope is required"),
        f"{ROOT}/a.example.org": (409, "conflict"),
    }
    with pytest.raises(ClusterError) as error:
        apply(monkeypatch, make_release("b.example.org", "a.example.org", "c.example.org"), preview=preview)
    conflict, invalid = str(error.value).splitlines()
    assert conflict.startswith("CustomResourceDefinition a.example.org cannot be applied (409: conflict); restore the ")
    assert invalid == "CustomResourceDefinition b.example.org cannot be applied (422: spec.scope is required)"
    assert {path.rpartition("/")[2] for path, *_ in server.sent} == {"a.example.org", "b.example.org", "c.example.org"}


def test_a_kind_whose_names_are_taken_is_an_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the API server's reason."""
    monkeypatch.setattr(definitions, "_DEADLINE_SECONDS", 0)
    refused = make_condition("NamesAccepted", "False", message='"workload" is already in use')
    server.live[f"{ROOT}/a.example.org"] = {"metadata": {}, "status": {"conditions": [refused]}}
    # The first read is of the field managers.
    monkeypatch.setitem(ESTABLISHED, "conditions", [refused])
    with pytest.raises(ClusterError, match='did not serve its kind within 0 s: "workload" is already in use'):
        apply(monkeypatch, make_release("a.example.org"))


def test_fields_that_the_provider_updated_are_taken_over_first(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request does it, which fails if the object has changed since."""
    updated = {"manager": MANAGER, "operation": "Update", "time": "1", "fieldsV1": {"f:spec": {}}}
    metadata = {"name": "a.example.org", "resourceVersion": "7", "managedFields": [updated]}
    server.live[f"{ROOT}/a.example.org"] = {"metadata": metadata, "status": ESTABLISHED}
    apply(monkeypatch, make_release("a.example.org"))
    (_, query, media_type, body), (_, _, applied, _) = server.sent
    assert (query, media_type) == ({"fieldManager": [MANAGER]}, "application/merge-patch+json")
    assert body == {"metadata": {"resourceVersion": "7", "managedFields": [{**updated, "operation": "Apply"}]}}
    assert applied == "application/apply-patch+yaml"
    # A preview cannot take them over, so it must not report them as a conflict.
    server.sent.clear()
    apply(monkeypatch, make_release("a.example.org"), preview=True)
    forced = {"fieldManager": [MANAGER], "dryRun": ["All"], "force": ["true"]}
    assert [query for _, query, _, _ in server.sent] == [forced]


def test_a_revision_of_another_client_is_removed_first(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it is a conflict, for example after the restore of a backup."""
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{REVISION}": {}}}}
    restored = {"manager": "velero-server", "operation": "Update", "time": "1", "fieldsV1": fields}
    metadata = {"name": "a.example.org", "resourceVersion": "7", "managedFields": [restored]}
    server.live[f"{ROOT}/a.example.org"] = {"metadata": metadata, "status": ESTABLISHED}
    apply(monkeypatch, make_release("a.example.org"))
    assert [body for *_, body in server.sent[:-1]] == [
        {"metadata": {"resourceVersion": "7", "annotations": {REVISION: None}}}
    ]
