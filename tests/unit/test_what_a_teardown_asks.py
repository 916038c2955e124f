"""What a teardown reads of an API server, and what it writes: one field of a queue, and deletions by uid."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.unit.checks.live import write_kubeconfig
from tests.unit.make import make_settings
from tests.unit.workloads.test_object_manifest import make_object
from trainstack.components.removal import delete, hold_and_drain, until
from trainstack.live.client import ClusterError, RightsError
from trainstack.live.teardown import read_live_stack, read_own
from trainstack.objects.labels import with_state
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.stacks import teardown

MARKED = {"trainstack.dev/stack": "test"}
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
CONFIG_MAPS = "/api/v1/namespaces/research/configmaps"


def make_kind(kind: str, name: str, *, namespaced: bool = True) -> dict[str, Any]:
    """A resource as discovery lists it."""
    return {"kind": kind, "name": name, "namespaced": namespaced, "verbs": ["list", "delete", "get"]}


def make_item(name: str, namespace: str | None = None, **metadata: Any) -> dict[str, Any]:
    """An item of a list, which does not say what it is."""
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "uid": name, "labels": MARKED, **where, **metadata}, "spec": {}}


class Server(ThreadingHTTPServer):
    """An API server with a few kinds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.status: dict[str, int] = {}
        cluster_queues = make_kind("ClusterQueue", "clusterqueues", namespaced=False)
        controlled = {"ownerReferences": [{"uid": "x", "kind": "Job", "name": "x", "controller": True}]}
        group = {"groupVersion": "kueue.x-k8s.io/v1beta2", "version": "v1beta2"}
        old = {"groupVersion": "kueue.x-k8s.io/v1beta1", "version": "v1beta1"}
        dead = {"groupVersion": "metrics.example/v1", "version": "v1"}
        self.bodies: dict[str, Any] = {
            "/version": {"gitVersion": "v1.34.4"},
            "/apis": {
                "groups": [
                    {"name": "kueue.x-k8s.io", "versions": [old, group], "preferredVersion": group},
                    {"name": "metrics.example", "versions": [dead], "preferredVersion": dead},
                ]
            },
            "/api/v1": {
                "resources": [
                    make_kind("ConfigMap", "configmaps"),
                    make_kind("Event", "events"),
                    make_kind("Namespace", "namespaces", namespaced=False),
                    {**make_kind("Pod", "pods/log"), "verbs": ["get"]},
                ]
            },
            "/apis/kueue.x-k8s.io/v1beta2": {"resources": [cluster_queues]},
            "/apis/kueue.x-k8s.io/v1beta1": {"resources": [cluster_queues]},
            "/api/v1/configmaps": {"items": [make_item("a", "research"), make_item("b", "research", **controlled)]},
            CONFIG_MAPS: {"items": [make_item("a", "research"), make_item("theirs", "research", labels={})]},
            "/api/v1/namespaces": {"items": [make_item("research")]},
            QUEUES: {"items": [make_item("q")]},
            f"{QUEUES}/q": make_item("q"),
            "/apis/kueue.x-k8s.io/v1beta2/workloads": {"items": None},
        }
        self.status["/apis/metrics.example/v1"] = 503


LISTS = ("configmaps", "namespaces", "clusterqueues", "localqueues", "workloads", "rayclusters", "rayservices")


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: Server

    def do_GET(self) -> None:
        """What is there."""
        path = self.path.partition("?")[0].rstrip("/")
        self.server.asked.append(path)
        # As the API server does: the short form of a list is another one than that of an object.
        accepted = "PartialObjectMetadata;" if path.endswith(LISTS) else "PartialObjectMetadataList;"
        if accepted in self.headers["Accept"]:
            return self._answer(406, {})
        status = self.server.status.get(path, 200 if path in self.server.bodies else 404)
        return self._answer(status, self.server.bodies.get(path, {}))

    def do_PATCH(self) -> None:
        """Remember what was sent."""
        self._keep("PATCH")

    def do_DELETE(self) -> None:
        """Remember it, and have the object no more."""
        self.server.bodies.pop(self.path.partition("?")[0], None)
        self._keep("DELETE")

    def _keep(self, verb: str) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.sent.append((verb, self.path, sent))
        self._answer(self.server.status.get(verb, 200), {"message": "so it says"})

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
    with Server() as made:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, made.server_port)))
        Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def names(bodies: Any) -> list[tuple[str, str, str]]:
    """Version, kind and name of each."""
    return sorted((each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in bodies)


def test_everything_that_the_server_has_is_looked_at(server: Server) -> None:
    """In the version that it prefers; not what others own, what controllers derive, or a server that is away."""
    scene = read_live_stack(make_settings(), retained=())
    assert names(scene.own) == [
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q"),
        ("v1", "ConfigMap", "a"),
        ("v1", "Namespace", "research"),
    ]
    assert [each["metadata"]["name"] for each in scene.in_namespaces] == ["a", "theirs"]
    assert names(scene.all("ClusterQueue")) == [("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q")]
    assert "/api/v1/events" not in server.asked
    assert server.sent == []


def test_owners_of_pods_are_looked_at(server: Server) -> None:
    """Of a RayJob the pods belong to a RayCluster, which may be in a namespace of others."""
    group = {"groupVersion": "ray.io/v1", "version": "v1"}
    server.bodies["/apis"]["groups"].append({"name": "ray.io", "versions": [group], "preferredVersion": group})
    kinds = [make_kind("RayCluster", "rayclusters"), make_kind("RayService", "rayservices")]
    server.bodies["/apis/ray.io/v1"] = {"resources": kinds}
    server.bodies["/apis/ray.io/v1/rayclusters"] = {"items": [make_item("a", "x", labels={})]}
    scene = read_live_stack(make_settings(), retained=())
    assert names(scene.all("RayCluster")) == [("ray.io/v1", "RayCluster", "a")]
    assert scene.all("RayService") == ()


def test_what_an_owner_may_not_read_stops_it(server: Server) -> None:
    """What is there would not be known."""
    server.status["/api/v1/configmaps"] = 403
    with pytest.raises(RightsError, match="the cluster answered 403 to list /api/v1/configmaps"):
        read_own(make_settings())


def test_a_tenant_asks_for_its_own_namespace_alone(server: Server) -> None:
    """What it may not read there is not its own."""
    tenant = Environment(profile="tenant", namespaces=(Namespace(name="research"),))
    settings = make_settings(environment=tenant)
    assert names(read_own(settings)) == [("v1", "ConfigMap", "a")]
    assert not {"/api/v1/configmaps", "/api/v1/namespaces", QUEUES} & {*server.asked}
    server.status[CONFIG_MAPS] = 403
    assert read_own(settings) == ()


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": with_state({"name": "q", "labels": MARKED}, "a" * 32),
    "spec": {"stopPolicy": "None", "weight": 2.0, "groups": [{"share": 0.5}]},
}


def test_a_queue_is_held_by_its_own_field_manager(server: Server) -> None:
    """As it was declared but for that; by its uid, so that no other is made. One that is gone is left so."""
    hold_and_drain(QUEUE, None)
    ((verb, path, sent),) = server.sent
    assert (verb, path) == ("PATCH", f"{QUEUES}/q?fieldManager=trainstack-{'a' * 32}&force=true")
    spec = {"stopPolicy": "HoldAndDrain", "weight": 2, "groups": [{"share": 0.5}]}
    assert sent == {**QUEUE, "metadata": {**QUEUE["metadata"], "uid": "q"}, "spec": spec}  # type: ignore[dict-item]
    assert isinstance(sent["spec"]["weight"], int)

    server.sent.clear()
    del server.bodies[f"{QUEUES}/q"]
    hold_and_drain(QUEUE, None)
    assert server.sent == []


def test_a_queue_that_cannot_be_held_is_told(server: Server) -> None:
    """Kueue's webhook may be away."""
    server.status["PATCH"] = 500
    with pytest.raises(ClusterError, match=r"ClusterQueue q cannot be held \(500: so it says\); check that Kueue"):
        hold_and_drain(QUEUE, None)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterqueues.kueue.x-k8s.io"},
}


@pytest.mark.parametrize(
    ("items", "labels", "status", "deleted"),
    [([], MARKED, 200, True), ([make_item("q")], MARKED, 200, False), ([], {}, 200, False), ([], MARKED, 500, False)],
    ids=["nobody has any", "somebody has one", "not ours", "not known"],
)
def test_a_definition_goes_where_nobody_has_an_object_of_it(
    server: Server, items: list[Any], labels: dict[str, str], status: int, *, deleted: bool
) -> None:
    """Deleting it would delete theirs; what cannot be read counts as theirs."""
    name = f"{CRDS}/clusterqueues.kueue.x-k8s.io"
    server.bodies[name] = make_item("clusterqueues.kueue.x-k8s.io", labels=labels)
    server.bodies[QUEUES], server.status[QUEUES] = {"items": items}, status
    teardown._definition(make_settings(), DEFINITION)
    assert [(verb, path) for verb, path, _ in server.sent] == ([("DELETE", name)] if deleted else [])


RELEASE = {"input": {"version": "v0.15.2", "state": "", "definitions": {"clusterqueues.kueue.x-k8s.io": "0" * 16}}}
WHO = ("CustomResourceDefinition", None, "clusterqueues.kueue.x-k8s.io")


@pytest.mark.parametrize(
    ("declared", "deleted"),
    [(frozenset({WHO}), True), (frozenset(), False), (None, True)],
    ids=["of a stack that ends", "of an operator that is not declared any more", "where nothing is declared"],
)
def test_the_definitions_of_a_release_are_deleted_in_a_destroy(
    server: Server, declared: frozenset[Any] | None, *, deleted: bool
) -> None:
    """An `up` without the operator leaves them in the cluster, as it does other objects that are retained."""
    server.bodies[f"{CRDS}/{WHO[2]}"] = make_item(WHO[2])
    server.bodies[QUEUES] = {"items": []}
    work = teardown._work(make_settings(), lambda _: None, declared)
    work["definition"](RELEASE)
    assert [path for _, path, _ in server.sent] == ([f"{CRDS}/{WHO[2]}"] if deleted else [])


def test_an_up_deletes_no_definition_that_was_a_resource_of_its_own(server: Server) -> None:
    """It removes the resource from the state, and so does a destroy, whose guard is first."""
    server.bodies[f"{CRDS}/{WHO[2]}"] = make_item(WHO[2])
    server.bodies[QUEUES] = {"items": []}
    work = teardown._work(make_settings(), lambda _: None, frozenset({WHO}))
    work["definition"](DEFINITION)
    assert not server.sent
    work["guard"]({})
    work["definition"](DEFINITION)
    assert [verb for verb, _, _ in server.sent] == ["DELETE"]


@pytest.mark.parametrize(
    ("items", "deleted"),
    [
        ([], True),
        ([make_item("kube-root-ca.crt", "research")], True),
        ([make_item("a", "research", deletionTimestamp="2026-01-02T03:04:05Z")], True),
        ([make_item("theirs", "research", labels={})], False),
    ],
    ids=["empty", "what Kubernetes puts there", "what is going", "of somebody else"],
)
def test_a_namespace_goes_where_nobody_has_anything_in_it(server: Server, items: list[Any], *, deleted: bool) -> None:
    """It takes all along that is in it."""
    place = "/api/v1/namespaces/research"
    server.bodies[place], server.bodies[CONFIG_MAPS] = make_item("research"), {"items": items}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    teardown._namespace(make_settings(), manifest)
    assert [(verb, path) for verb, path, _ in server.sent] == ([("DELETE", place)] if deleted else [])


def test_a_queue_that_others_came_to_meanwhile_is_not_held(server: Server) -> None:
    """The guard had looked before; what it may not do is told with their names."""
    local = {**make_item("theirs", "x", labels={}), "spec": {"clusterQueue": "q"}}
    server.bodies["/apis/kueue.x-k8s.io/v1beta2/localqueues"] = {"items": [local]}
    with pytest.raises(ClusterError, match="ClusterQueue q is not deleted, because others use it: LocalQueue x/theirs"):
        teardown._queue(make_settings(), QUEUE)
    assert server.sent == []

    server.bodies["/apis/kueue.x-k8s.io/v1beta2/localqueues"] = {"items": []}
    teardown._queue(make_settings(), QUEUE)
    assert [verb for verb, _, _ in server.sent] == ["PATCH"]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_workload_whose_launch_is_gone_is_nobodys(
    server: Server, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """The garbage collector has yet to delete it; also of a kind that only an Object has."""
    monkeypatch.setattr(teardown, "until", lambda *_: None)
    owned = {"ownerReferences": [{"uid": "job", "kind": "JAXJob", "name": "job", "controller": True}]}
    held = {**make_item("held", "x", labels={}, **owned), "status": {"admission": {"clusterQueue": "q"}}}
    server.bodies["/apis/kueue.x-k8s.io/v1beta2/workloads"] = {"items": [held]}
    jobs = [] if is_gone else [make_item("job", "x", labels={})]
    server.bodies["/apis/kubeflow.org/v1/jaxjobs"] = {"items": jobs}
    settings = make_settings(make_object())
    if is_gone:
        teardown._queue(settings, QUEUE)
        assert [verb for verb, _, _ in server.sent] == ["PATCH"]
    else:
        with pytest.raises(ClusterError, match="others use it: JAXJob x/job"):
            teardown._queue(settings, QUEUE)


def test_what_is_deleted_is_deleted_by_its_uid(server: Server) -> None:
    """Another object that took its name is not."""
    delete(f"{QUEUES}/q", "q", None, 5)
    ((verb, _, sent),) = server.sent
    assert verb == "DELETE"
    assert sent == {"propagationPolicy": "Foreground", "preconditions": {"uid": "q"}}


def test_waiting_ends_with_what_is_in_the_way() -> None:
    """What was said last stands in the error."""
    with pytest.raises(ClusterError, match="timed out after 0 s, waiting until it is gone: held by x/y"):
        until("it is gone", lambda: "held by x/y", 0)
    until("it is gone", lambda: "", 0)
