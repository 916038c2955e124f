"""A teardown's reads of an API server, and its writes: one field of a queue, and deletions by uid."""

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pulumi
import pytest

from tests.unit.live_objects import write_kubeconfig
from tests.unit.make import make_settings, make_storage
from tests.unit.runs.manifests.test_object import make_object
from trainstack.components.removal import delete_and_wait, hold_and_drain, wait_until
from trainstack.components.teardown import Work
from trainstack.errors import RefusedError
from trainstack.live.client import ClusterError, RightsError, shared_clients
from trainstack.live.teardown import read_live_stack, read_stack_objects
from trainstack.objects.labels import with_state
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.stacks import teardown_hooks
from trainstack.stacks.deletion_guard import DeletionGuard

MARKED = {"trainstack.dev/stack": "test"}
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
CONFIG_MAPS = "/api/v1/namespaces/research/configmaps"


def make_kind(kind: str, name: str, *, namespaced: bool = True) -> dict[str, Any]:
    """Return a resource as in discovery."""
    return {"kind": kind, "name": name, "namespaced": namespaced, "verbs": ["list", "delete", "get"]}


def make_item(name: str, namespace: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Return an item of a list, which lacks its kind."""
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "uid": name, "labels": MARKED, **where, **metadata}, "spec": {}}


class Server(ThreadingHTTPServer):
    """An API server with a few kinds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reads: list[str] = []
        self.writes: list[tuple[str, str, dict[str, Any]]] = []
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


LISTS = ("configmaps", "jobs", "namespaces", "clusterqueues", "localqueues", "workloads", "rayclusters", "rayservices")


class Handler(BaseHTTPRequestHandler):
    """Handler of the API."""

    server: Server

    def do_GET(self) -> None:
        """Return the object or list."""
        path = self.path.partition("?")[0].rstrip("/")
        self.server.reads.append(path)
        # Like the API server: the short form of a list differs from that of an object.
        accepted = "PartialObjectMetadata;" if path.endswith(LISTS) else "PartialObjectMetadataList;"
        if accepted in self.headers["Accept"]:
            return self._answer(406, {})
        status = self.server.status.get(path, 200 if path in self.server.bodies else 404)
        return self._answer(status, self.server.bodies.get(path, {}))

    def do_PATCH(self) -> None:
        """Record the patch."""
        self._keep("PATCH")

    def do_DELETE(self) -> None:
        """Record the deletion, and delete the object."""
        self.server.bodies.pop(self.path.partition("?")[0], None)
        self._keep("DELETE")

    def _keep(self, verb: str) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.writes.append((verb, self.path, payload))
        kind = "Status" if verb == "DELETE" else "ClusterQueue"
        self._answer(self.server.status.get(verb, 200), {"kind": kind, "message": "so it says"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a server, and set KUBECONFIG to it."""
    with Server() as api_server, shared_clients():
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, api_server.server_port)))
        Thread(target=api_server.serve_forever, args=(0.01,), daemon=True).start()
        yield api_server
        api_server.shutdown()


def names(bodies: Any) -> list[tuple[str, str, str]]:
    """Return version, kind and name of each body."""
    return sorted((body["apiVersion"], body["kind"], body["metadata"]["name"]) for body in bodies)


def test_all_objects_of_the_server_are_read(server: Server) -> None:
    """The version is the preferred one; objects of other owners, derived ones and unavailable APIs are skipped."""
    live = read_live_stack(make_settings(), retained=())
    assert names(live.labeled_objects) == [
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q"),
        ("v1", "ConfigMap", "a"),
        ("v1", "Namespace", "research"),
    ]
    assert [namespace["metadata"]["name"] for namespace in live.in_namespaces] == ["a", "theirs"]
    assert names(live.objects_of_kind("ClusterQueue")) == [("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q")]
    assert "/api/v1/events" not in server.reads
    assert server.writes == []


def test_the_objects_of_a_definition_in_the_state_are_read(server: Server) -> None:
    """Another client may have removed the definition's label, and its operator is deleted."""
    live = read_live_stack(make_settings(), retained=(), state_objects=[DEFINITION_ID])
    assert names(live.instances[DEFINITION_ID[2]]) == [("kueue.x-k8s.io/v1beta2", "ClusterQueue", "q")]


def test_owners_of_pods_are_read(server: Server) -> None:
    """The pods of a RayJob belong to a RayCluster, which may be in a namespace of other owners."""
    group = {"groupVersion": "ray.io/v1", "version": "v1"}
    server.bodies["/apis"]["groups"].append({"name": "ray.io", "versions": [group], "preferredVersion": group})
    kinds = [make_kind("RayCluster", "rayclusters"), make_kind("RayService", "rayservices")]
    server.bodies["/apis/ray.io/v1"] = {"resources": kinds}
    server.bodies["/apis/ray.io/v1/rayclusters"] = {"items": [make_item("a", "x", labels={})]}
    live = read_live_stack(make_settings(), retained=())
    assert names(live.objects_of_kind("RayCluster")) == [("ray.io/v1", "RayCluster", "a")]
    assert live.objects_of_kind("RayService") == ()


def test_what_an_owner_may_not_read_stops_it(server: Server) -> None:
    """Its objects would be unknown."""
    server.status["/api/v1/configmaps"] = 403
    with pytest.raises(RightsError, match="the cluster answered 403 to list /api/v1/configmaps"):
        read_stack_objects(make_settings())


def test_a_tenant_reads_its_own_namespace_alone(server: Server) -> None:
    """Objects that it may not read there are not its own."""
    tenant = Environment(profile="tenant", namespaces=(Namespace(name="research"),))
    settings = make_settings(environment=tenant)
    assert names(read_stack_objects(settings)) == [("v1", "ConfigMap", "a")]
    assert not {"/api/v1/configmaps", "/api/v1/namespaces", QUEUES} & {*server.reads}
    server.status[CONFIG_MAPS] = 403
    assert read_stack_objects(settings) == ()


QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": with_state({"name": "q", "labels": MARKED}, "a" * 32),
    "spec": {"stopPolicy": "None", "weight": 2.0, "groups": [{"share": 0.5}]},
}


def test_a_queue_is_held_by_its_own_field_manager(server: Server) -> None:
    """Its other fields are as declared; by its uid no other queue is created. A deleted one is left alone."""
    hold_and_drain(QUEUE, None)
    ((verb, path, payload),) = server.writes
    assert (verb, path) == ("PATCH", f"{QUEUES}/q?fieldManager=trainstack-{'a' * 32}&force=true")
    spec = {"stopPolicy": "HoldAndDrain", "weight": 2, "groups": [{"share": 0.5}]}
    metadata: dict[str, Any] = {**QUEUE["metadata"]}  # type: ignore[dict-item]
    # `doctor` and the next change read the mark.
    metadata |= {"uid": "q", "annotations": {**metadata["annotations"], "trainstack.dev/drained": "true"}}
    assert payload == {**QUEUE, "metadata": metadata, "spec": spec}
    assert isinstance(payload["spec"]["weight"], int)

    server.writes.clear()
    del server.bodies[f"{QUEUES}/q"]
    hold_and_drain(QUEUE, None)
    assert server.writes == []


def test_a_queue_that_cannot_be_held_is_reported(server: Server) -> None:
    """Kueue's webhook may be unavailable."""
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
def test_a_definition_without_objects_of_others_is_deleted(
    server: Server, items: list[Any], labels: dict[str, str], status: int, *, deleted: bool
) -> None:
    """Its deletion would delete the objects of other owners; unreadable ones count as theirs."""
    name = f"{CRDS}/clusterqueues.kueue.x-k8s.io"
    server.bodies[name] = make_item("clusterqueues.kueue.x-k8s.io", labels=labels)
    server.bodies[QUEUES], server.status[QUEUES] = {"items": items}, status
    teardown_hooks._delete_definition(make_settings(), DEFINITION)
    assert [(verb, path) for verb, path, _ in server.writes] == ([("DELETE", name)] if deleted else [])


RELEASE = {"input": {"version": "v0.15.2", "state": "", "definitions": {"clusterqueues.kueue.x-k8s.io": "0" * 16}}}
DEFINITION_ID = ("CustomResourceDefinition", None, "clusterqueues.kueue.x-k8s.io")


def make_arguments(inputs: Mapping[str, Any]) -> pulumi.ResourceHookArgs:
    """Return the arguments of a hook before the deletion of a resource with these inputs."""
    return pulumi.ResourceHookArgs(urn="urn", id="id", name="name", type="type", old_inputs=inputs)


def make_work(declared: frozenset[Any] | None) -> Mapping[str, Work]:
    """Return the functions of the hooks, with a guard that refuses nothing."""
    settings = make_settings()
    return teardown_hooks._hook_work(settings, lambda: None, DeletionGuard(settings, STATE, stop=()), declared)


@pytest.mark.parametrize(
    ("declared", "deleted"),
    [(frozenset({DEFINITION_ID}), True), (frozenset(), False), (None, True)],
    ids=["of a stack that ends", "of an operator that is not declared any more", "where nothing is declared"],
)
def test_the_definitions_of_a_release_are_deleted_in_a_destroy(
    server: Server, declared: frozenset[Any] | None, *, deleted: bool
) -> None:
    """An `up` without the operator leaves them in the cluster, like other retained objects, and so does `--replace`."""
    server.bodies[f"{CRDS}/{DEFINITION_ID[2]}"] = make_item(DEFINITION_ID[2])
    server.bodies[QUEUES] = {"items": []}
    work = make_work(declared)
    if declared is not None:
        work["definition"](make_arguments(RELEASE))
        assert not server.writes
        work["guard"](make_arguments({}))
    work["definition"](make_arguments(RELEASE))
    assert [path for _, path, _ in server.writes] == ([f"{CRDS}/{DEFINITION_ID[2]}"] if deleted else [])


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
def test_a_namespace_without_objects_of_others_is_deleted(server: Server, items: list[Any], *, deleted: bool) -> None:
    """All its objects would be deleted with it."""
    place = "/api/v1/namespaces/research"
    server.bodies[place], server.bodies[CONFIG_MAPS] = make_item("research"), {"items": items}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    teardown_hooks._delete_namespace(make_settings(), manifest)
    assert [(verb, path) for verb, path, _ in server.writes] == ([("DELETE", place)] if deleted else [])


def test_a_queue_that_others_use_by_now_is_not_held(server: Server) -> None:
    """The guard had checked before; the error has the names of the objects."""
    local = {**make_item("theirs", "x", labels={}), "spec": {"clusterQueue": "q"}}
    server.bodies["/apis/kueue.x-k8s.io/v1beta2/localqueues"] = {"items": [local]}
    with pytest.raises(ClusterError, match="ClusterQueue q is not deleted, because it is used: LocalQueue x/theirs"):
        teardown_hooks._drain_queue(make_settings(), QUEUE)
    assert server.writes == []

    server.bodies["/apis/kueue.x-k8s.io/v1beta2/localqueues"] = {"items": []}
    teardown_hooks._drain_queue(make_settings(), QUEUE)
    assert [verb for verb, _, _ in server.writes] == ["PATCH"]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_workload_whose_launch_is_deleted_has_no_owner(
    server: Server, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """The garbage collector has yet to delete it; the kind may be one that only an Object has."""
    monkeypatch.setattr(teardown_hooks, "wait_until", lambda *_: None)
    owned = {"ownerReferences": [{"uid": "job", "kind": "JAXJob", "name": "job", "controller": True}]}
    held = {**make_item("held", "x", labels={}, **owned), "status": {"admission": {"clusterQueue": "q"}}}
    server.bodies["/apis/kueue.x-k8s.io/v1beta2/workloads"] = {"items": [held]}
    jobs = [] if is_gone else [make_item("job", "x", labels={})]
    server.bodies["/apis/kubeflow.org/v1/jaxjobs"] = {"items": jobs}
    settings = make_settings(make_object())
    if is_gone:
        teardown_hooks._drain_queue(settings, QUEUE)
        assert [verb for verb, _, _ in server.writes] == ["PATCH"]
    else:
        with pytest.raises(ClusterError, match="it is used: JAXJob x/job"):
            teardown_hooks._drain_queue(settings, QUEUE)


def test_what_is_deleted_is_deleted_by_its_uid(server: Server) -> None:
    """Another object of the same name is not deleted."""
    delete_and_wait(f"{QUEUES}/q", "q", None, 5)
    ((verb, _, payload),) = server.writes
    assert verb == "DELETE"
    assert payload == {"propagationPolicy": "Foreground", "preconditions": {"uid": "q"}}


def test_waiting_ends_with_what_is_in_the_way() -> None:
    """The error has the last reason."""
    with pytest.raises(ClusterError, match="timed out after 0 s, waiting until it is gone: held by x/y"):
        wait_until("it is gone", lambda: "held by x/y", 0)
    wait_until("it is gone", lambda: "", 0)


JOBS = "/apis/batch/v1/namespaces/research/jobs"
JOB_SPEC: dict[str, Any] = {"template": {"spec": {"containers": []}}}
CLAIMS = "/api/v1/namespaces/research/persistentvolumeclaims"
STATE = "a" * 32
RUN = {"trainstack.dev/run": "digits-1", "trainstack.dev/launch": "digits-1-aaaaaa"}


def delete_object(
    server: Server,
    path: str,
    kind: str,
    guard: DeletionGuard,
    *,
    live: Mapping[str, Any] | None = None,
    **body: Any,
) -> None:
    """Let the engine delete the object `x`, whose live metadata has the stack's marks changed by `live`."""
    annotations = {"trainstack.dev/state": STATE}
    labels = {**MARKED, **(RUN if kind == "Job" else {})}
    declared = {"name": "x", "namespace": "research", "labels": labels, "annotations": annotations}
    metadata = {**declared, "uid": "x", "creationTimestamp": "2026-01-02T03:04:05Z", **(live or {})}
    server.bodies[f"{path}/x"] = {"metadata": metadata, "spec": JOB_SPEC if kind == "Job" else {}, **body}
    version = {"Job": "batch/v1", "LocalQueue": "kueue.x-k8s.io/v1beta2"}.get(kind, "v1")
    inputs = {"apiVersion": version, "kind": kind, "metadata": declared}
    guard.check(pulumi.ResourceHookArgs(urn="urn:x", id="research/x", name="x", type="", old_inputs=inputs))


def make_guard(**changes: Any) -> DeletionGuard:
    """Return the guard of a program."""
    return DeletionGuard(make_settings(), STATE, **{"stop": (), **changes})


def test_the_deletion_of_a_foreign_object_is_refused(server: Server) -> None:
    """Whatever the engine's options are; a terminating object, or one that does not exist, is no matter."""
    foreign: tuple[dict[str, Any], ...] = (
        {"labels": {}},
        {"labels": {"trainstack.dev/stack": "x"}},
        {"annotations": {}},
    )
    for live in foreign:
        with pytest.raises(RefusedError, match="pulumi state delete --target-dependents --yes -s test 'urn:x'"):
            delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(), live=live)
        delete_object(
            server, CONFIG_MAPS, "ConfigMap", make_guard(), live={**live, "deletionTimestamp": "2026-01-02T03:05:05Z"}
        )
    delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard())
    server.status[f"{CONFIG_MAPS}/x"] = 404
    delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(), live={"labels": {}})
    server.status[f"{CONFIG_MAPS}/x"] = 403
    with pytest.raises(RightsError, match="nothing is changed"):
        delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard())


def test_an_active_launch_is_deleted_only_if_it_is_named(server: Server) -> None:
    """Also in a teardown that was confirmed before the launch began."""
    for guard in (make_guard(), make_guard(confirmed_objects=[("Job", "research", "x")])):
        with pytest.raises(RefusedError, match=r"\(run digits-1\) has been running for .*not named to be stopped"):
            delete_object(server, JOBS, "Job", guard)
    delete_object(server, JOBS, "Job", make_guard(stop=["digits-1"]))
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    delete_object(server, JOBS, "Job", make_guard(), status=done)
    with pytest.raises(RefusedError, match="has been running"):
        delete_object(server, JOBS, "Job", make_guard(), live={"labels": MARKED})


def test_a_launch_without_its_run_label_is_stopped_by_its_run(server: Server) -> None:
    """Another client has removed the label, and a refresh has removed it from the state."""
    labels = {**MARKED, "trainstack.dev/launch": "digits-1-aaaaaa"}
    metadata = with_state({"name": "x", "namespace": "research", "labels": labels}, STATE)
    live = {**metadata, "uid": "x", "creationTimestamp": "2026-01-02T03:04:05Z"}
    server.bodies[f"{JOBS}/x"] = {"metadata": live, "spec": JOB_SPEC}
    inputs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    arguments = pulumi.ResourceHookArgs(urn="urn:x", id="research/x", name="x", type="", old_inputs=inputs)
    with pytest.raises(RefusedError, match=r"\(run digits-1\) has been running"):
        make_guard().check(arguments)
    make_guard(stop=["digits-1"]).check(arguments)


def test_a_launch_that_the_change_keeps_is_not_replaced(server: Server) -> None:
    """Its claim would be taken again. A destroy deletes the declared launches."""
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    guard = make_guard(declared_launches=["digits-1-aaaaaa"], stop=["digits-1"])
    with pytest.raises(RefusedError, match=r"this change keeps\. Its replacement would launch the run a second time"):
        delete_object(server, JOBS, "Job", guard, status=done)
    guard.expect_destroy()
    delete_object(server, JOBS, "Job", guard, status=done)


def test_a_declared_namespace_or_ledger_is_not_replaced(server: Server) -> None:
    """The objects in the namespace would be deleted with it, and the run launched again without its ledger."""
    ledger = {"labels": {**MARKED, "trainstack.dev/ledger": "run"}}
    who = ("ConfigMap", "research", "x")
    with pytest.raises(RefusedError, match="is declared, and its replacement would delete the record of a launch"):
        delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(declared_objects=[who]), live=ledger)
    delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(), live=ledger)
    delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(declared_objects=[who]))
    with pytest.raises(RefusedError, match="is declared, and its replacement would delete all objects in it"):
        delete_namespace(server, make_guard(declared_objects=[NAMESPACE]))


def test_a_namespace_is_deleted_only_without_objects_of_others(server: Server) -> None:
    """Also in a teardown: others may have put objects into it since its plan."""
    whole = make_guard()
    whole.expect_destroy()
    for guard in (make_guard(), whole, make_guard(confirmed_objects=[NAMESPACE])):
        with pytest.raises(RefusedError, match="ConfigMap research/theirs, of another owner, is in namespace research"):
            delete_namespace(server, guard)
    server.bodies[CONFIG_MAPS]["items"].pop()
    for guard in (make_guard(), whole, make_guard(confirmed_objects=[NAMESPACE])):
        delete_namespace(server, guard)


NAMESPACE = ("Namespace", None, "research")


def delete_namespace(server: Server, guard: DeletionGuard) -> None:
    """Let the engine delete the stack's namespace."""
    metadata = with_state({"name": "research", "labels": MARKED}, STATE)
    server.bodies["/api/v1/namespaces/research"] = {"metadata": {**metadata, "uid": "research"}}
    inputs = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    guard.check(pulumi.ResourceHookArgs(urn="urn:x", id="research", name="research", type="", old_inputs=inputs))


def test_a_run_that_is_being_stopped_does_not_use_a_deleted_queue(server: Server) -> None:
    """Its object is terminating while the engine deletes its queue. A run that the change keeps uses it."""
    server.bodies["/apis"]["groups"].append(make_group("batch/v1"))
    server.bodies["/apis/batch/v1"] = {"resources": [make_kind("Job", "jobs")]}
    labels = {**MARKED, **RUN}
    created = {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:05:05Z"}
    server.bodies["/apis/batch/v1/jobs"] = {
        "items": [{**make_item("job", "research", labels=labels, **created), "spec": JOB_SPEC}]
    }
    owner = {"uid": "job", "kind": "Job", "name": "job", "controller": True}
    workload = make_item("w", "research", labels={}, ownerReferences=[owner])
    server.bodies["/apis/kueue.x-k8s.io/v1beta2"]["resources"].append(make_kind("Workload", "workloads"))
    server.bodies["/apis/kueue.x-k8s.io/v1beta2/namespaces/research/workloads"] = {
        "items": [{**workload, "spec": {"queueName": "x"}}]
    }
    local_queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/research/localqueues"
    delete_object(server, local_queues, "LocalQueue", make_guard())
    with pytest.raises(RefusedError, match="Job research/job, of stack 'test', waits in LocalQueue research/x"):
        delete_object(server, local_queues, "LocalQueue", make_guard(declared_launches=["digits-1-aaaaaa"]))


def make_group(group_version: str) -> dict[str, Any]:
    """Return an API group with one version, as in discovery."""
    group, _, version = group_version.partition("/")
    served = {"groupVersion": group_version, "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def test_a_teardown_deletes_only_what_was_confirmed(server: Server) -> None:
    """Another `up` may have declared more since."""
    with pytest.raises(RefusedError, match="not among the objects whose deletion was confirmed"):
        delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard(confirmed_objects=[]))


def test_a_replaced_claim_keeps_its_data(server: Server) -> None:
    """Unless the settings discard it, or the whole stack is deleted."""
    claim: dict[str, Any] = {"spec": {"volumeName": "pv-1"}}
    with pytest.raises(RefusedError, match=r"discard: \[research/x\]"):
        delete_object(server, CLAIMS, "PersistentVolumeClaim", make_guard(), **claim)
    discarding = make_settings(storage=make_storage(discard=("research/x",)))
    delete_object(server, CLAIMS, "PersistentVolumeClaim", DeletionGuard(discarding, STATE, stop=()), **claim)
    destroying = make_guard()
    destroying.expect_destroy()
    delete_object(server, CLAIMS, "PersistentVolumeClaim", destroying, **claim)


def test_a_replaced_object_that_others_use_is_not_deleted(server: Server) -> None:
    """The program cannot foresee a replacement by an option of the engine."""
    container = {"name": "main", "envFrom": [{"configMapRef": {"name": "x"}}]}
    pod = {**make_item("theirs", "research", labels={}), "spec": {"containers": [container]}}
    server.bodies["/api/v1/namespaces/research/pods"] = {"items": [pod]}
    with pytest.raises(
        RefusedError, match="Pod research/theirs, of another owner, uses ConfigMap x, which this change"
    ):
        delete_object(server, CONFIG_MAPS, "ConfigMap", make_guard())
