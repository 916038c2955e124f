"""What uses an object that an `up` deletes: pods, queued runs, claims, and the stack's own active runs."""

from typing import Any

import pytest

from tests.unit.lifecycle.teardown.teardown_cases import (
    CLUSTER_QUEUE,
    NAMESPACE,
    QUEUE,
    make_body,
    make_scene,
    ours,
    owned_by,
)
from tests.unit.live_objects import make_launch_body
from trainstack.lifecycle.teardown.live_stack import LiveStack
from trainstack.lifecycle.teardown.users import foreign_users, kinds_of_users, may_be_used
from trainstack.objects.ownership import Identity, identity

Body = dict[str, Any]
POLICY: Identity = ("NetworkPolicy", "research", "trainstack-isolated")


def make_pod(spec: Body, **changes: Any) -> Body:
    """Return a running pod of another owner."""
    return make_body("Pod", "theirs", "research", spec=spec, status={"phase": "Running"}, **changes)


def users(deleted: Identity, *, kept: tuple[Identity, ...] = (), **scene: Any) -> list[str]:
    """Return the users of one deleted object."""
    live: LiveStack = make_scene(**scene)
    return foreign_users(live, frozenset({deleted}), kept)


def containers(**changes: Any) -> Body:
    """Return the spec of a pod with one container."""
    return {"containers": [{"name": "main", **changes}]}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Secret", containers(env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}])),
        ("Secret", containers(envFrom=[{"secretRef": {"name": "x"}}])),
        ("Secret", {**containers(), "volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
        ("Secret", {**containers(), "imagePullSecrets": [{"name": "x"}]}),
        ("Secret", {**containers(), "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}}]}}]}),
        ("Secret", {"containers": [], "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
        ("ConfigMap", {**containers(), "volumes": [{"name": "v", "configMap": {"name": "x"}}]}),
        ("ConfigMap", containers(envFrom=[{"configMapRef": {"name": "x"}}])),
        ("ConfigMap", containers(env=[{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}])),
        ("ServiceAccount", {**containers(), "serviceAccountName": "x"}),
    ],
)
def test_a_pod_uses_what_it_refers_to(kind: str, spec: Body) -> None:
    """In the same namespace, until it has ended."""
    pod = make_pod(spec)
    expected = [f"Pod research/theirs, of another owner, uses {kind} x"]
    assert users((kind, "research", "x"), lists={"Pod": (pod,)}) == expected
    assert users((kind, "speech", "x"), lists={"Pod": (pod,)}) == []
    ended = {**pod, "status": {"phase": "Succeeded"}}
    assert users((kind, "research", "x"), lists={"Pod": (ended,)}) == []


def test_a_queued_run_uses_what_its_pods_will_refer_to() -> None:
    """It has no pods yet; a deployer may not list pods in other namespaces anyway."""
    pod_spec = {**containers(envFrom=[{"secretRef": {"name": "x"}}]), "serviceAccountName": "x"}
    pod_sets = [{"template": {"spec": containers()}}, {"template": {"spec": pod_spec}}]
    queued = make_body("Workload", "job", "research", spec={"podSets": pod_sets}, metadata=owned_by(JOB))
    for kind in ("Secret", "ServiceAccount"):
        found = users((kind, "research", "x"), lists={"Workload": (queued,)})
        assert found == [f"Job research/theirs, of another owner, uses {kind} x"]
        ended = {**queued, "status": {"conditions": [{"type": "Finished", "status": "True"}]}}
        assert users((kind, "research", "x"), lists={"Workload": (ended,)}) == []


def test_what_is_deleted_anyway_does_not_use_a_namespace() -> None:
    """A terminating object, and one that the garbage collector deletes because its controller is deleted."""
    gone = make_body("Job", "gone", "research")
    orphan = make_body("Workload", "w", "research", metadata=owned_by(gone))
    terminating = make_body("ConfigMap", "c", "research", metadata={"deletionTimestamp": "now"})
    claim = ours("PersistentVolumeClaim", "data", "research", metadata={"deletionTimestamp": "now"})
    theirs = make_body("ConfigMap", "theirs", "research")
    (user,) = users(
        identity(NAMESPACE), labeled_objects=(NAMESPACE,), in_namespaces=(orphan, terminating, claim, theirs)
    )
    assert user.startswith("ConfigMap research/theirs, of another owner, is in namespace research")


def test_the_runs_of_others_need_the_isolation_of_their_namespace() -> None:
    """Queued ones have no pods yet. The stack may remove the isolation of its own runs."""
    pod = make_pod(containers())
    queued = make_body("Workload", "job", "research", spec={"queueName": "elsewhere"}, metadata=owned_by(JOB))
    found = users(POLICY, lists={"Pod": (pod,), "Workload": (queued,)})
    assert found == [
        "Job research/theirs, of another owner, is isolated by NetworkPolicy trainstack-isolated",
        "Pod research/theirs, of another owner, is isolated by NetworkPolicy trainstack-isolated",
    ]
    own = make_launch_body()
    mine = make_body("Workload", "mine", "research", spec={"queueName": "research"}, metadata=owned_by(own))
    assert users(POLICY, kept=(identity(own),), labeled_objects=(own,), lists={"Workload": (mine,)}) == []


JOB = make_body("Job", "theirs", "research")


def test_an_active_run_of_the_stack_uses_a_queue_that_is_deleted_under_it() -> None:
    """A run that the change deletes too does not."""
    own = make_launch_body()
    held = make_body(
        "Workload",
        "mine",
        "research",
        spec={"queueName": "research"},
        status={"admission": {"clusterQueue": "research"}},
        metadata=owned_by(own),
    )
    scene: Body = {"labeled_objects": (QUEUE, CLUSTER_QUEUE, own), "lists": {"Workload": (held,)}}
    for queue in (QUEUE, CLUSTER_QUEUE):
        assert users(identity(queue), **scene) == []
        (user,) = users(identity(queue), kept=(identity(own),), **scene)
        assert user.startswith(f"Job research/{own['metadata']['name']}, of stack 'dev', holds quota ")


def test_only_the_deleted_queue_counts() -> None:
    """Others may use what remains."""
    theirs = make_body("LocalQueue", "a", "x", spec={"clusterQueue": "research"})
    assert users(("ClusterQueue", None, "research"), lists={"LocalQueue": (theirs,)})
    assert users(("ClusterQueue", None, "spare"), lists={"LocalQueue": (theirs,)}) == []


@pytest.mark.parametrize(
    ("deleted", "status", "use"),
    [
        (("AdmissionCheck", None, "c"), {"admissionChecks": [{"name": "c"}]}, "depends on AdmissionCheck c"),
        (("MultiKueueCluster", None, "w"), {"clusterName": "w"}, "is dispatched to MultiKueueCluster w"),
    ],
)
def test_a_workload_uses_what_its_admission_depends_on(deleted: Identity, status: Body, use: str) -> None:
    """Without the check it would wait for it; without the cluster its remote run would be deleted."""
    workload = make_body("Workload", "job", "x", spec={"queueName": "q"}, status=status)
    assert users(deleted, lists={"Workload": (workload,)}) == [f"Workload x/job, of another owner, {use}"]


def test_a_deleted_namespace_is_used_by_the_claims_that_an_earlier_up_retained() -> None:
    """The engine no longer knows them, and they have the stack's own label."""
    claim = ours("PersistentVolumeClaim", "kept", "research")
    found = users(identity(NAMESPACE), labeled_objects=(NAMESPACE, claim), in_namespaces=(claim,))
    (user,) = found
    assert user.startswith("PersistentVolumeClaim research/kept, of stack 'dev', is in namespace research")
    assert user.endswith("which would be deleted with its data")
    both = frozenset({identity(NAMESPACE), identity(claim)})
    assert foreign_users(make_scene(labeled_objects=(NAMESPACE, claim), in_namespaces=(claim,)), both) == []


def test_a_removed_operator_is_used_by_unfinished_objects_of_its_kinds() -> None:
    """The definitions remain, but only the operator ends its objects."""
    crd, job = ours("CustomResourceDefinition", "jobs.example"), make_body("Example", "a", "x")
    instances = {"jobs.example": (job,)}
    assert users(identity(crd), labeled_objects=(crd,), instances=instances) == [
        "Example x/a, of another owner, is of the kind jobs.example, whose operator would be deleted"
    ]
    assert users(("CustomResourceDefinition", None, "other"), labeled_objects=(crd,), instances=instances) == []


def test_ledgers_are_used_by_nobody_else() -> None:
    """Most changes of runs delete one, and the users of an object take a second to read."""
    assert may_be_used("ConfigMap", {"labels": {"trainstack.dev/wrapper": "run"}})
    assert not may_be_used("ConfigMap", {"labels": {"trainstack.dev/ledger": "run"}})
    assert not may_be_used("Role", {})


def test_only_the_kinds_that_may_use_a_deleted_object_are_read() -> None:
    """So that the rights of a role suffice, and a change of runs reads nothing further."""
    assert kinds_of_users({("Role", "lab", "x"), ("Job", "lab", "x")}) == {}
    assert kinds_of_users({("LocalQueue", "lab", "q"), ("Secret", "lab", "s"), ("NetworkPolicy", "vision", "n")}) == {
        "Workload": {"lab", "vision"},
        "Pod": {"lab", "vision"},
    }
    assert kinds_of_users({("LocalQueue", "lab", "q"), ("ClusterQueue", None, "q")}) == {
        "Workload": {None},
        "LocalQueue": {None},
    }


def test_the_stacks_own_pods_are_no_users() -> None:
    """Those of a launch have its label, and those of a deleted operator a ReplicaSet of its Deployment."""
    spec = {**containers(), "volumes": [{"name": "v", "configMap": {"name": "x"}}]}
    own = make_launch_body()
    run = make_pod(spec, metadata={"labels": {"trainstack.dev/launch": own["metadata"]["name"]}})
    replica_set = make_body("ReplicaSet", "manager-5d9f", "research")
    replica = make_pod(spec, metadata=owned_by(replica_set))
    config_map, manager = ("ConfigMap", "research", "x"), ("Deployment", "research", "manager")
    assert users(config_map, labeled_objects=(own,), lists={"Pod": (run,)}) == []
    assert foreign_users(make_scene(lists={"Pod": (replica,)}), frozenset({config_map, manager})) == []
    assert users(config_map, lists={"Pod": (replica,)}) != []


def test_the_pods_of_a_deleted_launch_are_no_users() -> None:
    """The launch was deleted, by a TTL for example, and the garbage collector has not deleted its pods yet.

    The pods of an active launch that is kept still count.
    """
    spec = {**containers(), "volumes": [{"name": "v", "configMap": {"name": "x"}}]}
    run = make_pod(spec, metadata={"labels": {"trainstack.dev/launch": "digits-0a1b2c3d4e-5a9cde"}})
    recorded = frozenset({"digits-0a1b2c3d4e-5a9cde"})
    for deleted in (("ConfigMap", "research", "x"), POLICY):
        assert users(deleted, lists={"Pod": (run,)}, recorded_launches=recorded) == []
        assert users(deleted, lists={"Pod": (run,)}, recorded_launches=frozenset({"other"})) != []
    pod_set = {"name": "main", "count": 1, "template": {"metadata": run["metadata"], "spec": spec}}
    queued = make_body("Workload", "job-digits", "research", spec={"queueName": "research", "podSets": [pod_set]})
    scene: Body = {"lists": {"Workload": (queued,)}}
    for deleted in (("ConfigMap", "research", "x"), ("LocalQueue", "research", "research")):
        assert users(deleted, **scene, recorded_launches=recorded) == []
        assert users(deleted, **scene) != []
    kept = make_launch_body()
    name = kept["metadata"]["labels"]["trainstack.dev/launch"]
    in_use = make_pod(spec, metadata={"labels": {"trainstack.dev/launch": name}})
    scene = {"labeled_objects": (kept,), "lists": {"Pod": (in_use,)}, "recorded_launches": frozenset({name})}
    assert users(("ConfigMap", "research", "x"), kept=(identity(kept),), **scene) != []
