"""Reading the objects with a stack's label, from the API server's answers to the doctor's input."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from trainstack.lifecycle.recovery.object_problems import LiveObject
from trainstack.lifecycle.recovery.state import RecordedObject
from trainstack.live import labeled_objects, paths, snapshot
from trainstack.live.client import FORBIDDEN, NOT_FOUND, Answer
from trainstack.objects.labels import STACK
from trainstack.settings.values.kind_scopes import CLUSTER_SCOPED_KINDS

NEVER = {
    "ClusterTrainingRuntime",
    "CustomResourceDefinition",
    "LimitRange",
    "ResourceQuota",
    "Node",
    "PriorityClass",
    "RuntimeClass",
    "Workload",
}
"""Kinds that no environment declares, or that are always retained."""
MARKED = f"?labelSelector={quote(f'{STACK}=lab')}"
QUEUE = RecordedObject("kueue.x-k8s.io/v1beta2", ("LocalQueue", "lab", "open"), "1")
SECRET = RecordedObject("v1", ("Secret", "lab", "key"), "2")


class Server:
    """A fake client with answers by path; other objects do not exist. It records its requests."""

    def __init__(self, **answers: Answer) -> None:
        self.answers, self.requests = answers, set[str]()

    def read(
        self,
        requested: Sequence[str],
        context: str | None,
        *,
        metadata_only: bool = False,
        metadata_of_items: bool = False,
    ) -> dict[str, Answer]:
        """Replace `client.read`. The API server has separate media types for the metadata of lists and of objects."""
        assert all(("?" in path) == metadata_of_items and ("?" not in path) == metadata_only for path in requested)
        self.requests |= {*requested}
        return {path: self.answers.get(path, Answer(NOT_FOUND, {})) for path in requested}


def make_body(name: str, uid: str, **metadata: Any) -> dict[str, Any]:
    """Return an object's metadata as in a list."""
    return {"metadata": {"name": name, "namespace": "lab", "uid": uid, "labels": {STACK: "lab"}, **metadata}}


ONLY_OBJECTS = frozenset(
    ("CSIDriver", "CSINode", "CSIStorageCapacity", "ClusterTrustBundle", "ControllerRevision", "CronJob", "DaemonSet")
) | {
    *("DeviceClass", "EndpointSlice", "Endpoints", "HorizontalPodAutoscaler", "IPAddress", "Ingress", "IngressClass"),
    *("Lease", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PodDisruptionBudget", "PodTemplate"),
    *("ReplicaSet", "ReplicationController", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "ServiceCIDR"),
    *("StatefulSet", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "VolumeAttachment"),
    *("VolumeAttributesClass", "VolumeSnapshot", "VolumeSnapshotClass"),
}
"""The kinds that no section but `objects` declares."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return an empty server that replaces the client."""
    fake = Server()
    for module in (labeled_objects, snapshot):
        monkeypatch.setattr(module, "read", fake.read)
    monkeypatch.setattr(snapshot, "read_lists", fake.read)
    return fake


def test_every_kind_that_can_be_declared_is_read() -> None:
    """The test fails for a new kind that is missing in the list. The kinds of section `objects` are arguments."""
    known = {*CLUSTER_SCOPED_KINDS, *paths._NAMESPACED} - NEVER
    assert known - ONLY_OBJECTS == {*labeled_objects._VERSION_BY_KIND}
    assert known >= ONLY_OBJECTS


def test_marked_objects_are_found_by_their_label(server: Server) -> None:
    """The result has all fields that the doctor uses."""
    body = make_body(
        "open", "1", deletionTimestamp="2026-11-22T12:00:00Z", finalizers=["x/y"], ownerReferences=[{"uid": "9"}]
    )
    path = f"/apis/kueue.x-k8s.io/v1beta2/localqueues{MARKED}"
    server.answers[path] = Answer(200, {"items": [body]})
    seen = labeled_objects.read_labeled_objects("lab", [QUEUE], (None,), None)
    since = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert seen.objects == {QUEUE.identity: LiveObject("1", {STACK: "lab"}, since, ("x/y",), is_owned=True)}
    assert seen.unreadable_kinds == frozenset()


def test_an_empty_list_of_metadata_has_null_for_items(server: Server) -> None:
    """API servers return null instead of an empty list."""
    server.answers[f"/api/v1/secrets{MARKED}"] = Answer(200, {"items": None})
    assert labeled_objects.read_labeled_objects("lab", [], (None,), None).objects == {}


def test_an_object_of_the_state_without_the_label_is_read_by_name(server: Server) -> None:
    """Otherwise it would count as missing."""
    server.answers["/api/v1/namespaces/lab/secrets/key"] = Answer(200, make_body("key", "2", labels={}))
    assert labeled_objects.read_labeled_objects("lab", [SECRET, QUEUE], (None,), None).objects == {
        SECRET.identity: LiveObject("2")
    }


def test_unreadable_objects_differ_from_missing_ones(server: Server) -> None:
    """The objects of a forbidden kind are not read by name."""
    server.answers[f"/api/v1/secrets{MARKED}"] = Answer(FORBIDDEN, {})
    seen = labeled_objects.read_labeled_objects("lab", [SECRET], (None,), None)
    assert (seen.objects, seen.unreadable_kinds) == ({}, frozenset({"Secret"}))
    assert "/api/v1/namespaces/lab/secrets/key" not in server.requests


def test_only_the_namespaces_of_a_tenant_are_read(server: Server) -> None:
    """Cluster-scoped kinds are not read, and no object of them counts as missing."""
    seen = labeled_objects.read_labeled_objects("lab", [], ("lab", "other"), None)
    assert all("/namespaces/lab/" in path or "/namespaces/other/" in path for path in server.requests)
    assert "ClusterQueue" in seen.unreadable_kinds
    assert "LocalQueue" not in seen.unreadable_kinds


def test_an_unknown_kind_counts_as_unreadable(server: Server) -> None:
    """The state of an older program may have one."""
    for strange in (("Strange", None, "one"), ("Strange", "research", "one")):
        assert labeled_objects.read_labeled_objects(
            "lab", [RecordedObject("example.com/v1", strange)], (None,), None
        ).unreadable_kinds == {"Strange"}
    strange = ("Strange", "research", "one")
    assert labeled_objects.read_labeled_objects(
        "lab", [RecordedObject("apps/v1", strange)], (None,), None
    ).unreadable_kinds == {"Strange"}


def test_several_objects_of_a_state_are_listed_and_few_are_read_one_by_one(server: Server) -> None:
    """An object without the label is read by name; missing and unreadable objects are left out."""
    keys = [RecordedObject("v1", ("Service", "lab", name), "1") for name in ("a", "b", "c", "d")]
    listed = [make_body("a", "1"), make_body("b", "1"), make_body("other", "9")]
    server.answers[f"/api/v1/namespaces/lab/services{MARKED}&limit=500"] = Answer(200, {"items": listed})
    server.answers["/api/v1/namespaces/lab/services/c"] = Answer(200, make_body("c", "1", labels={}))
    server.answers["/api/v1/namespaces/lab/services/d"] = Answer(FORBIDDEN, {})
    found = labeled_objects.read_recorded_metadata(
        "lab", [*keys, QUEUE, RecordedObject("example.com/v1", ("Strange", None, "one"))], None
    )
    assert found.keys() & {key.identity for key in keys} == {key.identity for key in keys[:3]}
    assert QUEUE.identity not in found
    assert server.requests == {
        f"/api/v1/namespaces/lab/services{MARKED}&limit=500",
        "/api/v1/namespaces/lab/services/c",
        "/api/v1/namespaces/lab/services/d",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/localqueues/open",
        "/apis/example.com/v1/stranges/one",
    }


def test_launches_of_further_kinds_are_read_if_the_files_have_them(server: Server) -> None:
    """An interrupted `up` may have created one that is not in the state. Their operators may be absent."""
    path = f"/apis/kubeflow.org/v2beta1/mpijobs{MARKED}"
    server.answers[path] = Answer(200, {"items": [make_body("train", "1")]})
    assert labeled_objects.read_labeled_objects("lab", [], (None,), None).objects == {}
    assert path not in server.requests
    launched = [("kubeflow.org/v2beta1", "MPIJob"), ("kubeflow.org/v1", "JAXJob")]
    seen = labeled_objects.read_labeled_objects("lab", [], (None,), None, launched)
    assert ([*seen.objects], seen.unreadable_kinds) == ([("MPIJob", "lab", "train")], frozenset())
    server.answers[path] = Answer(FORBIDDEN, {})
    assert labeled_objects.read_labeled_objects("lab", [], (None,), None, launched).unreadable_kinds == {"MPIJob"}
