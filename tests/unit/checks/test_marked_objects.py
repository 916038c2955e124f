"""Reading what bears a stack's mark: from the API server's answers to what the doctor judges."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from trainstack.lifecycle.recovery.objects import LiveObject
from trainstack.lifecycle.recovery.state import Recorded
from trainstack.live import marked, paths
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer
from trainstack.objects.labels import STACK

NEVER = {
    "CustomResourceDefinition",
    "LimitRange",
    "Node",
    "PriorityClass",
    "RuntimeClass",
    "Workload",
}
"""Known to the project and declared by no environment, or retained whatever happens."""
MARKED = f"?labelSelector={quote(f'{STACK}=lab')}"
QUEUE = Recorded("kueue.x-k8s.io/v1beta2", ("LocalQueue", "lab", "open"), "1")
SECRET = Recorded("v1", ("Secret", "lab", "key"), "2")


class Server:
    """Answers by path; all else is not there. It keeps what it was asked."""

    def __init__(self, **answers: Answer) -> None:
        self.answers, self.asked = answers, set[str]()

    def read(
        self, asked: Sequence[str], context: str | None, *, metadata_only: bool = False, metadata_of_items: bool = False
    ) -> dict[str, Answer]:
        """As `client.read`: an API server refuses to give a list the short form of an object, and the reverse."""
        assert all(("?" in path) == metadata_of_items and ("?" not in path) == metadata_only for path in asked)
        self.asked |= {*asked}
        return {path: self.answers.get(path, Answer(NOT_FOUND, {})) for path in asked}


def make_body(name: str, uid: str, **metadata: Any) -> dict[str, Any]:
    """An object's metadata, as a list has it."""
    return {"metadata": {"name": name, "namespace": "lab", "uid": uid, "labels": {STACK: "lab"}, **metadata}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One with nothing in it yet."""
    made = Server()
    monkeypatch.setattr(marked, "read", made.read)
    return made


def test_every_kind_that_can_be_declared_is_looked_for() -> None:
    """A kind that is new to the project is not forgotten here."""
    assert {*marked._VERSIONS} == {*paths._CLUSTER_SCOPED, *paths._NAMESPACED} - NEVER


def test_marked_objects_are_found_by_their_label(server: Server) -> None:
    """With all that the doctor judges by."""
    body = make_body(
        "open", "1", deletionTimestamp="2026-11-22T12:00:00Z", finalizers=["x/y"], ownerReferences=[{"uid": "9"}]
    )
    path = f"/apis/kueue.x-k8s.io/v1beta2/localqueues{MARKED}"
    server.answers[path] = Answer(200, {"items": [body]})
    seen = marked.read_marked("lab", [QUEUE], (None,), None)
    since = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert seen.objects == {QUEUE.identity: LiveObject("1", {STACK: "lab"}, since, ("x/y",), owned=True)}
    assert seen.unreadable == frozenset()


def test_an_empty_list_in_its_short_form_has_null_for_items(server: Server) -> None:
    """As API servers write it."""
    server.answers[f"/api/v1/secrets{MARKED}"] = Answer(200, {"items": None})
    assert marked.read_marked("lab", [], (None,), None).objects == {}


def test_an_object_of_the_state_without_the_mark_is_asked_for_itself(server: Server) -> None:
    """Else it would be called missing."""
    server.answers["/api/v1/namespaces/lab/secrets/key"] = Answer(200, make_body("key", "2", labels={}))
    assert marked.read_marked("lab", [SECRET, QUEUE], (None,), None).objects == {SECRET.identity: LiveObject("2")}


def test_what_may_not_be_read_is_told_apart_from_what_is_not_there(server: Server) -> None:
    """A forbidden kind is not asked for again by name."""
    server.answers[f"/api/v1/secrets{MARKED}"] = Answer(FORBIDDEN, {})
    seen = marked.read_marked("lab", [SECRET], (None,), None)
    assert (seen.objects, seen.unreadable) == ({}, frozenset({"Secret"}))
    assert "/api/v1/namespaces/lab/secrets/key" not in server.asked


def test_a_tenant_is_asked_for_its_namespaces_alone(server: Server) -> None:
    """Of kinds that are in no namespace nothing is asked, and nothing called missing."""
    seen = marked.read_marked("lab", [], ("lab", "other"), None)
    assert all("/namespaces/lab/" in path or "/namespaces/other/" in path for path in server.asked)
    assert "ClusterQueue" in seen.unreadable
    assert "LocalQueue" not in seen.unreadable


def test_a_kind_that_nobody_knows_is_not_judged(server: Server) -> None:
    """An older program's state may hold one."""
    for strange in (("Strange", None, "one"), ("Strange", "research", "one")):
        assert marked.read_marked("lab", [Recorded("example.com/v1", strange)], (None,), None).unreadable == {"Strange"}
    strange = ("Strange", "research", "one")
    assert marked.read_marked("lab", [Recorded("apps/v1", strange)], (None,), None).unreadable == {"Strange"}


def test_several_objects_of_a_state_are_listed_and_few_are_read_one_by_one(server: Server) -> None:
    """One of several without the label is read too; what does not exist, or may not be read, is left out."""
    keys = [Recorded("v1", ("Secret", "lab", name), "1") for name in ("a", "b", "c", "d")]
    listed = [make_body("a", "1"), make_body("b", "1"), make_body("other", "9")]
    server.answers[f"/api/v1/namespaces/lab/secrets{MARKED}"] = Answer(200, {"items": listed})
    server.answers["/api/v1/namespaces/lab/secrets/c"] = Answer(200, make_body("c", "1", labels={}))
    found = marked.read_recorded("lab", [*keys, QUEUE, Recorded("example.com/v1", ("Strange", None, "one"))], None)
    assert found.keys() & {key.identity for key in keys} == {key.identity for key in keys[:3]}
    assert QUEUE.identity not in found
    assert server.asked == {
        f"/api/v1/namespaces/lab/secrets{MARKED}",
        "/api/v1/namespaces/lab/secrets/c",
        "/api/v1/namespaces/lab/secrets/d",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/localqueues/open",
        "/apis/example.com/v1/stranges/one",
    }


def test_launches_of_further_kinds_are_looked_for_where_the_files_have_them(server: Server) -> None:
    """An interrupted `up` may have created one that is not in the state. Their operators may be absent."""
    path = f"/apis/kubeflow.org/v2beta1/mpijobs{MARKED}"
    server.answers[path] = Answer(200, {"items": [make_body("train", "1")]})
    assert marked.read_marked("lab", [], (None,), None).objects == {}
    assert path not in server.asked
    launched = [("kubeflow.org/v2beta1", "MPIJob"), ("kubeflow.org/v1", "JAXJob")]
    seen = marked.read_marked("lab", [], (None,), None, launched)
    assert ([*seen.objects], seen.unreadable) == ([("MPIJob", "lab", "train")], frozenset())
    server.answers[path] = Answer(FORBIDDEN, {})
    assert marked.read_marked("lab", [], (None,), None, launched).unreadable == {"MPIJob"}
