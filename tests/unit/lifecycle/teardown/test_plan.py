"""The plan of a teardown: its order, the objects that are kept, and the objects that prevent it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.lifecycle.teardown.teardown_cases import (
    CLAIM,
    NAMESPACE,
    QUEUE,
    SPACE,
    VOLUME,
    Body,
    make_body,
    make_scene,
    ours,
    owned_by,
)
from tests.unit.live_objects import NOW, RUN, make_condition, make_launch_body
from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.lifecycle.teardown.leftovers import explain_leftover, find_leftovers
from trainstack.lifecycle.teardown.live_stack import LiveStack
from trainstack.lifecycle.teardown.plan import (
    STAGES,
    TeardownPlan,
    plan_full_teardown,
    plan_teardown_without_platform,
    protected_volumes,
)
from trainstack.lifecycle.teardown.users import queue_users, workloads_without_owner
from trainstack.objects.ownership import Identity, identity
from trainstack.runs.launches import live_launch
from trainstack.settings.sections.environment import Environment

AT = datetime.fromisoformat(NOW)
FOREIGN = "of another owner"
IN_USE, USED = "kueue.x-k8s.io/resource-in-use", "Kueue finds it in use, or is not running"


def plan(stack: LiveStack) -> TeardownPlan:
    """Return the plan of a teardown one minute later."""
    return plan_full_teardown(stack, AT.replace(minute=AT.minute + 1))


def refusals(**changes: Any) -> tuple[str, ...]:
    """Return the refusals of the plan."""
    return plan(make_scene(**changes)).refusals


def test_objects_are_deleted_in_drain_order() -> None:
    """Runs before queues, queues before flavors, operators before definitions, namespaces last."""
    job = make_launch_body()
    deployment = ours("Deployment", "kueue-controller-manager", "kueue-system")
    crd, ledger = ours("CustomResourceDefinition", "jobs.example"), ours("ConfigMap", "run-digits", "research")
    everything = (*make_scene().labeled_objects, job, deployment, crd, ledger)
    stages = plan(make_scene(labeled_objects=everything, retained=frozenset())).stages
    assert [*stages] == [*STAGES]
    assert [(stage, [kind for kind, _, _ in objects]) for stage, objects in stages.items() if objects] == [
        ("runs", ["ConfigMap", "Job"]),
        ("volumes", ["PersistentVolumeClaim"]),
        ("local queues", ["LocalQueue"]),
        ("cluster queues", ["ClusterQueue"]),
        ("flavors, cohorts, priorities", ["Cohort", "ResourceFlavor"]),
        ("operators", ["Deployment"]),
        ("definitions", ["CustomResourceDefinition"]),
        ("namespaces", ["Namespace"]),
    ]


def test_other_objects_are_a_stage_of_their_own() -> None:
    """Also ConfigMaps, which are otherwise objects of runs, and kinds that operators have too. Claims are volumes."""
    labels = {"trainstack.dev/stack": "dev", "trainstack.dev/section": "objects"}
    others = [ours(kind, "train", "research") for kind in ("ConfigMap", "CronJob", "PersistentVolumeClaim")]
    for body in others:
        body["metadata"]["labels"] = labels
    stages = plan(make_scene(labeled_objects=(*make_scene().labeled_objects, *others), retained=frozenset())).stages
    assert [kind for kind, _, _ in stages["other objects"]] == ["ConfigMap", "CronJob"]
    assert ("PersistentVolumeClaim", "research", "train") in stages["volumes"]


def test_a_retained_volume_is_kept_with_its_namespace() -> None:
    """Both are listed with the reason. A volume that is not retained is deleted."""
    kept = plan(make_scene())
    assert kept.retention_reasons == {CLAIM: "its data is kept", SPACE: "it holds the retained volume training"}
    assert not kept.deleted & {CLAIM, SPACE}
    assert plan(make_scene(retained=frozenset())).deleted >= {CLAIM, SPACE}


def test_a_retained_namespace_without_volumes_is_deleted() -> None:
    """The engine would only remove it from its state; a teardown checks its volumes."""
    namespace = {"labeled_objects": (NAMESPACE,), "retained": frozenset({SPACE})}
    assert SPACE in plan(make_scene(**namespace)).deleted
    foreign = make_body("PersistentVolumeClaim", "data", "research", stack="team")
    kept = plan(make_scene(**namespace, in_namespaces=(foreign,)))
    assert kept.retention_reasons == {SPACE: "it holds data of stack 'team'"}
    assert kept.refusals == ()


@pytest.mark.parametrize(
    ("kind", "user", "message"),
    [
        (
            "LocalQueue",
            make_body("LocalQueue", "a", "x", spec={"clusterQueue": "research"}),
            "LocalQueue x/a, of another owner, points to ClusterQueue research",
        ),
        (
            "ClusterQueue",
            make_body("ClusterQueue", "a", spec={"resourceGroups": [{"flavors": [{"name": "cpu"}]}]}),
            "ClusterQueue a, of another owner, uses ResourceFlavor cpu",
        ),
        (
            "ClusterQueue",
            make_body("ClusterQueue", "a", stack="other", spec={"cohortName": "local"}),
            "ClusterQueue a, of stack 'other', is in Cohort local",
        ),
        (
            "Cohort",
            make_body("Cohort", "a", spec={"parentName": "local"}),
            "Cohort a, of another owner, is in Cohort local",
        ),
        (
            "Workload",
            make_body("Workload", "job-a", "research", spec={"queueName": "research"}),
            "Workload research/job-a, of another owner, waits in LocalQueue research/research",
        ),
        (
            "Workload",
            make_body(
                "Workload",
                "job-a",
                "x",
                spec={"queueName": "gone"},
                status={"admission": {"clusterQueue": "research"}},
                metadata=owned_by(make_body("Job", "a", "x")),
            ),
            "Job x/a, of another owner, holds quota of ClusterQueue research",
        ),
    ],
)
def test_foreign_users_of_the_queues_are_named(kind: str, user: Body, message: str) -> None:
    """The refusal has the object, its owner, and the use."""
    assert refusals(lists={kind: (user,)}) == (f"{message}; ask its owner to end, move or delete it first",)


def test_foreign_objects_without_a_spec_cause_no_refusal() -> None:
    """Kueue accepts each kind without a spec."""
    kinds = {"ClusterQueue": "", "Cohort": "", "ResourceFlavor": "", "AdmissionCheck": "", "MultiKueueConfig": ""}
    bare = {kind: (make_body(kind, "a", namespace),) for kind, namespace in {**kinds, "LocalQueue": "x"}.items()}
    assert refusals(lists=bare) == ()


def test_the_pods_of_a_ray_cluster_belong_to_the_stack() -> None:
    """The RayCluster has no label of the stack, but the RayJob owns it."""
    job = {**make_launch_body(), "kind": "RayJob"}
    cluster = make_body("RayCluster", "c", "research", metadata=owned_by(job))
    pods = (make_pod(metadata=owned_by(cluster)),)
    own, nothing_retained = (*make_scene().labeled_objects, job), frozenset[Identity]()
    assert refusals(labeled_objects=own, retained=nothing_retained, lists={"Pod": pods, "RayCluster": (cluster,)}) == ()
    assert refusals(labeled_objects=own, retained=nothing_retained, lists={"Pod": pods}) != ()


def test_a_launch_of_any_kind_is_deleted_with_the_runs() -> None:
    """The launches of the stack identify it."""
    job = {**make_launch_body(), "kind": "JAXJob", "status": {"conditions": [make_condition("Succeeded")]}}
    who = identity(job)
    found = plan(make_scene(labeled_objects=(*make_scene().labeled_objects, job), launches=(live_launch(job),)))
    assert who in found.stages["runs"]
    kept = make_scene(launches=(live_launch(job),), state_identities=frozenset({who}))
    assert plan_teardown_without_platform(kept, AT).stages["runs"] == (who,)


def test_own_and_finished_workloads_cause_no_refusal() -> None:
    """A Workload belongs to the stack of its owner; a finished one has no quota."""
    job = make_launch_body()
    own_workload = make_body("Workload", "m", "research", spec={"queueName": "research"}, metadata=owned_by(job))
    status = {"conditions": [{"type": "Finished", "status": "True"}]}
    ended = make_body("Workload", "e", "research", spec={"queueName": "research"}, status=status)
    assert (
        refusals(labeled_objects=(*make_scene().labeled_objects, job), lists={"Workload": (own_workload, ended)}) == ()
    )


def make_pod(**changes: Any) -> Body:
    """Return a pod that mounts the claim `training`."""
    volumes = [{"persistentVolumeClaim": {"claimName": "training"}}, {"emptyDir": {}}]
    return make_body("Pod", "p", "research", spec={"volumes": volumes}, **changes)


@pytest.mark.parametrize(
    ("pod", "retained", "refused"),
    [
        (make_pod(), frozenset(), True),
        (make_pod(), frozenset({CLAIM, SPACE}), False),
        (make_pod(status={"phase": "Succeeded"}), frozenset(), False),
        (make_pod(metadata=owned_by(make_body("Job", "inner", "research"))), frozenset(), False),
    ],
    ids=["runs", "the volume is kept", "has ended", "belongs to the stack through its owner"],
)
def test_a_foreign_pod_on_a_deleted_volume_is_named(pod: Body, retained: frozenset[Identity], *, refused: bool) -> None:
    """A volume that is kept may stay mounted."""
    outer = ours("JobSet", "outer", "research")
    inner = make_body("Job", "inner", "research", metadata=owned_by(outer))
    changes = {
        "labeled_objects": (*make_scene().labeled_objects, outer),
        "lists": {"Pod": (pod,), "Job": (inner,)},
        "retained": retained,
    }
    message = (
        f"Pod research/p, {FOREIGN}, mounts PersistentVolumeClaim training; ask its owner to end, move or delete it"
    )
    assert refusals(**changes) == ((f"{message} first",) if refused else ())


def test_foreign_objects_in_a_deleted_namespace_are_named() -> None:
    """Objects that Kubernetes creates, and those that another object owns, are not named."""
    foreign = make_body("Deployment", "web", "research", stack="team")
    objects = (
        VOLUME,
        foreign,
        make_body("ReplicaSet", "web-1", "research", metadata=owned_by(foreign)),
        make_body("ConfigMap", "kube-root-ca.crt", "research"),
        make_body("ServiceAccount", "default", "research"),
        make_body("Secret", "t", "research", metadata={"annotations": {"kubernetes.io/service-account.name": "a"}}),
    )
    (refusal,) = refusals(in_namespaces=objects, retained=frozenset())
    assert refusal.startswith(
        "Deployment research/web, of stack 'team', is in namespace research, which would be deleted with all"
    )
    assert refusals(in_namespaces=objects) == ()


def test_a_claim_that_waits_for_a_deleted_class_is_named() -> None:
    """A bound claim no longer needs its class."""
    spec = {"storageClassName": "shared"}
    pending = make_body("PersistentVolumeClaim", "a", "x", spec=spec, status={"phase": "Pending"})
    bound = make_body("PersistentVolumeClaim", "b", "x", spec=spec, status={"phase": "Bound"})
    (refusal,) = refusals(
        labeled_objects=(ours("StorageClass", "shared"),), lists={"PersistentVolumeClaim": (pending, bound)}
    )
    assert refusal.startswith("PersistentVolumeClaim x/a, of another owner, waits for a volume of StorageClass shared")


def test_foreign_objects_of_a_deleted_operator_cause_a_refusal_until_they_have_ended() -> None:
    """Finished objects are kept with their definition, and the reason names them."""
    crd = ours("CustomResourceDefinition", "pytorchjobs.kubeflow.org")
    ended = {"conditions": [{"type": "Succeeded", "status": "True"}]}

    def plan_with_job(**changes: Any) -> TeardownPlan:
        job = make_body("PyTorchJob", "theirs", "x", **changes)
        return plan(make_scene(labeled_objects=(crd,), instances={"pytorchjobs.kubeflow.org": (job,)}))

    (refusal,) = plan_with_job().refusals
    assert refusal.startswith("PyTorchJob x/theirs, of another owner, is of the kind pytorchjobs.kubeflow.org, whose")
    done = plan_with_job(status=ended)
    assert done.refusals == ()
    name = ("CustomResourceDefinition", None, "pytorchjobs.kubeflow.org")
    assert done.retention_reasons == {name: "others have objects of this kind: PyTorchJob x/theirs"}
    assert plan(make_scene(labeled_objects=(crd,), instances={"pytorchjobs.kubeflow.org": ()})).deleted == {name}


def test_an_active_run_has_to_be_named() -> None:
    """A run is named by its run id, as for `up`; the trials of a sweep by the sweep's name."""
    job = make_launch_body()
    changes: Mapping[str, Any] = {"labeled_objects": (job,), "launches": (live_launch(job),)}
    (refusal,) = refusals(**changes)
    assert refusal.startswith(f"Job research/{job['metadata']['name']} (run {RUN}) has been queued for 1 min; ")
    assert refusal.endswith(f"trainstack destroy -s dev --stop {RUN}")
    allowed = plan(make_scene(**changes, stop=frozenset({RUN})))
    assert (allowed.refusals, allowed.active_runs) == ((), (RUN,))
    job["metadata"]["labels"]["trainstack.dev/sweep"] = "search"
    assert refusals(labeled_objects=(job,), launches=(live_launch(job),), stop=frozenset({"search"})) == ()


def test_objects_that_are_not_in_the_state_are_not_deleted() -> None:
    """They may belong to a stack of another checkout with the same name."""
    known = frozenset({CLAIM, SPACE, ("LocalQueue", "research", "research"), ("ClusterQueue", None, "research")})
    (refusal,) = refusals(state_identities=known)
    assert refusal.startswith("Cohort local, ResourceFlavor cpu: labelled with stack 'dev', but not in this checkout's")
    assert refusals(state_identities=known | {("Cohort", None, "local"), ("ResourceFlavor", None, "cpu")}) == ()


def test_objects_that_an_earlier_destroy_left_are_kept() -> None:
    """Volumes, their namespaces and definitions are no longer in the state. They are listed without a refusal."""
    crd, empty = ours("CustomResourceDefinition", "jobs.example"), ours("Namespace", "empty")
    again = plan(
        make_scene(labeled_objects=(VOLUME, NAMESPACE, crd, empty), retained=frozenset(), state_identities=frozenset())
    )
    assert (again.deleted, again.refusals) == (frozenset(), ())
    left_before = "an earlier `destroy --keep-platform` left it"
    assert again.retention_reasons == {
        CLAIM: "its data is kept",
        SPACE: "it holds the retained volume training",
        ("CustomResourceDefinition", None, "jobs.example"): left_before,
        ("Namespace", None, "empty"): left_before,
    }


def test_a_namespace_that_the_engine_would_delete_with_a_retained_volume_is_refused() -> None:
    """An earlier `up` retained the volume when its entry was removed, and made the namespace one that is deleted."""
    scene: Body = {"labeled_objects": (NAMESPACE, VOLUME), "in_namespaces": (VOLUME,)}
    for marks in ({"retained": frozenset(), "state_identities": frozenset({SPACE})}, {"retained": frozenset({CLAIM})}):
        (refusal,) = refusals(**scene, **marks)
        assert refusal.startswith("PersistentVolumeClaim research/training, of stack 'dev', is in namespace research")
        assert "which would be deleted with its data" in refusal


def test_a_protected_volume_stops_the_teardown() -> None:
    """The refusal has the remedy. A platform has no protected volumes."""
    settings = make_settings(storage=make_storage(volumes=(make_volume(protect=True),)))
    (name,) = protected_volumes(settings)
    (refusal,) = refusals(protected=(name,))
    assert refusal.startswith("PersistentVolumeClaim research/training is protected, so nothing is deleted")
    assert (
        protected_volumes(make_settings(environment=Environment(layers=("platform",)), storage=settings.storage)) == ()
    )


def test_the_users_of_a_queue_are_checked_again_before_its_deletion() -> None:
    """New users are named: a local queue that points at it, a workload that uses its quota."""
    foreign = make_body("Workload", "t", "x", spec={}, status={"admission": {"clusterQueue": "research"}})
    other = make_body("Workload", "e", "x", spec={}, status={"admission": {"clusterQueue": "other"}})
    local = make_body("LocalQueue", "q", "x", spec={"clusterQueue": "research"})
    users = queue_users("research", "dev", [local, QUEUE], [foreign, other])
    assert users == [f"LocalQueue x/q, {FOREIGN}", f"Workload x/t, {FOREIGN}"]


def test_a_workload_whose_owner_was_deleted_is_ownerless() -> None:
    """A Workload without an owner reference, or with an owner of an unread kind, is not."""
    job, deleted = make_body("Job", "a", "x"), make_body("Job", "b", "x")
    own, left, unknown = (
        make_body("Workload", f"w-{number}", "x", metadata=owned_by(owner))
        for number, owner in enumerate((job, deleted, make_body("RayJob", "c", "x")))
    )
    bare = make_body("Workload", "bare", "x")
    living = {str(job["metadata"]["uid"])}
    assert workloads_without_owner([own, left, unknown, bare], ["Job"], living) == [left]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            make_body(
                "ClusterQueue",
                "a",
                metadata={"deletionTimestamp": NOW, "finalizers": [IN_USE, "x/y"]},
            ),
            f"ClusterQueue a has been terminating for 60 s, held by {IN_USE} ({USED}), x/y",
        ),
        (
            make_body("Namespace", "a", metadata={"deletionTimestamp": NOW}),
            "Namespace a has been terminating for 60 s, held by kubernetes (its objects are not deleted yet)",
        ),
        (make_body("Job", "a", "x"), "Job x/a was not deleted"),
    ],
)
def test_a_terminating_object_is_reported_with_its_finalizers(body: Body, message: str) -> None:
    """Finalizers are named, and never removed."""
    assert explain_leftover(body, AT.astimezone(UTC).replace(minute=AT.minute + 1)) == message


def test_kept_objects_are_no_leftovers() -> None:
    """All other objects are."""
    kept: Sequence[Identity] = (CLAIM, SPACE)
    assert find_leftovers((VOLUME, NAMESPACE, QUEUE), kept) == [QUEUE]
