"""The plan of a stack's end: its order, what stays, and who is in the way."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.checks.live import NOW, RUN, make_condition, make_launch_body
from tests.unit.make import make_settings, make_storage, make_volume
from trainstack.lifecycle.teardown.context import LiveStack
from trainstack.lifecycle.teardown.leftovers import explained, left
from trainstack.lifecycle.teardown.plan import STAGES, Plan, decide, decide_keeping_platform, protected
from trainstack.lifecycle.teardown.users import ownerless, queue_users
from trainstack.objects.ownership import Identity, identity
from trainstack.runs.launches import live_launch
from trainstack.settings.sections.environment import Environment

Body = dict[str, Any]
AT = datetime.fromisoformat(NOW)
CLAIM: Identity = ("PersistentVolumeClaim", "research", "training")
SPACE: Identity = ("Namespace", None, "research")
THEIRS = "of another owner"
IN_USE, USED = "kueue.x-k8s.io/resource-in-use", "Kueue finds it in use, or is not running"


def make_body(kind: str, name: str, namespace: str | None = None, *, stack: str = "", **changes: Any) -> Body:
    """An object; of nobody unless a stack is named."""
    metadata = {"name": name, "uid": f"{kind}/{namespace}/{name}", **changes.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    if stack:
        metadata["labels"] = {"trainstack.dev/stack": stack}
    return {"kind": kind, "metadata": metadata, **changes}


def ours(kind: str, name: str, namespace: str | None = None, **changes: Any) -> Body:
    """An object of the stack that goes."""
    return make_body(kind, name, namespace, stack="dev", **changes)


def owned_by(body: Body) -> Body:
    """The metadata of what another object owns."""
    owner = {"kind": body["kind"], "name": body["metadata"]["name"], "uid": body["metadata"]["uid"], "controller": True}
    return {"ownerReferences": [owner]}


QUEUE = ours("LocalQueue", "research", "research", spec={"clusterQueue": "research"})
CLUSTER_QUEUE = ours("ClusterQueue", "research")
FLAVOR = ours("ResourceFlavor", "cpu")
COHORT = ours("Cohort", "local")
VOLUME = ours("PersistentVolumeClaim", "training", "research")
NAMESPACE = ours("Namespace", "research")


def make_scene(**changes: Any) -> LiveStack:
    """A stack of one queue, one volume and a namespace, of which the engine keeps volume and namespace."""
    base = {
        "stack": "dev",
        "own": (QUEUE, CLUSTER_QUEUE, FLAVOR, COHORT, VOLUME, NAMESPACE),
        "retained": frozenset({CLAIM, SPACE}),
    }
    return LiveStack(**{**base, **changes})


def plan(scene: LiveStack) -> Plan:
    """What is decided a minute later."""
    return decide(scene, AT.replace(minute=AT.minute + 1))


def refusals(**changes: Any) -> tuple[str, ...]:
    """What stands against it."""
    return plan(make_scene(**changes)).refusals


def test_it_goes_in_drain_order() -> None:
    """Runs before queues, queues before flavors, operators before definitions, namespaces last."""
    job = make_launch_body()
    deployment = ours("Deployment", "kueue-controller-manager", "kueue-system")
    crd, ledger = ours("CustomResourceDefinition", "jobs.example"), ours("ConfigMap", "run-digits", "research")
    everything = (*make_scene().own, job, deployment, crd, ledger)
    goes = plan(make_scene(own=everything, retained=frozenset())).stages
    assert [*goes] == [*STAGES]
    assert [(stage, [kind for kind, _, _ in several]) for stage, several in goes.items() if several] == [
        ("runs", ["ConfigMap", "Job"]),
        ("volumes", ["PersistentVolumeClaim"]),
        ("local queues", ["LocalQueue"]),
        ("cluster queues", ["ClusterQueue"]),
        ("flavors, cohorts, priorities", ["Cohort", "ResourceFlavor"]),
        ("operators", ["Deployment"]),
        ("definitions", ["CustomResourceDefinition"]),
        ("namespaces", ["Namespace"]),
    ]


def test_a_retained_volume_stays_with_its_namespace() -> None:
    """Both are listed, with the reason; a volume that is not retained goes."""
    kept = plan(make_scene())
    assert kept.stays == {CLAIM: "its data is kept", SPACE: "it holds the retained volume training"}
    assert not kept.deleted & {CLAIM, SPACE}
    assert plan(make_scene(retained=frozenset())).deleted >= {CLAIM, SPACE}


def test_a_namespace_of_a_platform_alone_goes_when_nobody_has_a_volume_in_it() -> None:
    """The engine only forgets it; a teardown looks."""
    alone = {"own": (NAMESPACE,), "retained": frozenset({SPACE})}
    assert SPACE in plan(make_scene(**alone)).deleted
    theirs = make_body("PersistentVolumeClaim", "data", "research", stack="team")
    held = plan(make_scene(**alone, in_namespaces=(theirs,)))
    assert held.stays == {SPACE: "it holds data of stack 'team'"}
    assert held.refusals == ()


@pytest.mark.parametrize(
    ("kind", "theirs", "said"),
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
def test_who_uses_our_queues_is_named(kind: str, theirs: Body, said: str) -> None:
    """By what they are, whose they are, and what they do with ours."""
    assert refusals(lists={kind: (theirs,)}) == (f"{said}; ask its owner to end, move or delete it first",)


def test_objects_of_others_that_say_nothing_are_in_nobodys_way() -> None:
    """Kueue accepts each kind without a spec."""
    kinds = {"ClusterQueue": "", "Cohort": "", "ResourceFlavor": "", "AdmissionCheck": "", "MultiKueueConfig": ""}
    bare = {kind: (make_body(kind, "a", place),) for kind, place in {**kinds, "LocalQueue": "x"}.items()}
    assert refusals(lists=bare) == ()


def test_the_pods_of_a_ray_cluster_of_ours_are_ours() -> None:
    """Though the RayCluster has no label of the stack."""
    job = {**make_launch_body(), "kind": "RayJob"}
    cluster = make_body("RayCluster", "c", "research", metadata=owned_by(job))
    pods = (make_pod(metadata=owned_by(cluster)),)
    own, gone = (*make_scene().own, job), frozenset[Identity]()
    assert refusals(own=own, retained=gone, lists={"Pod": pods, "RayCluster": (cluster,)}) == ()
    assert refusals(own=own, retained=gone, lists={"Pod": pods}) != ()


def test_an_object_of_a_kind_of_its_own_goes_with_the_runs() -> None:
    """Whatever its kind: the launches of the stack name it."""
    job = {**make_launch_body(), "kind": "JAXJob", "status": {"conditions": [make_condition("Succeeded")]}}
    who = identity(job)
    found = plan(make_scene(own=(*make_scene().own, job), launches=(live_launch(job),)))
    assert who in found.stages["runs"]
    kept = make_scene(launches=(live_launch(job),), known=frozenset({who}))
    assert decide_keeping_platform(kept, AT).stages["runs"] == (who,)


def test_our_own_workloads_and_those_that_ended_are_in_nobodys_way() -> None:
    """A Workload is of whom it stands for; a finished one holds nothing."""
    job = make_launch_body()
    mine = make_body("Workload", "m", "research", spec={"queueName": "research"}, metadata=owned_by(job))
    status = {"conditions": [{"type": "Finished", "status": "True"}]}
    ended = make_body("Workload", "e", "research", spec={"queueName": "research"}, status=status)
    assert refusals(own=(*make_scene().own, job), lists={"Workload": (mine, ended)}) == ()


def make_pod(**changes: Any) -> Body:
    """A pod that mounts the claim `training`."""
    volumes = [{"persistentVolumeClaim": {"claimName": "training"}}, {"emptyDir": {}}]
    return make_body("Pod", "p", "research", spec={"volumes": volumes}, **changes)


@pytest.mark.parametrize(
    ("pod", "retained", "named"),
    [
        (make_pod(), frozenset(), True),
        (make_pod(), frozenset({CLAIM, SPACE}), False),
        (make_pod(status={"phase": "Succeeded"}), frozenset(), False),
        (make_pod(metadata=owned_by(make_body("Job", "inner", "research"))), frozenset(), False),
    ],
    ids=["runs", "the volume stays", "has ended", "is ours through another"],
)
def test_a_pod_of_others_on_a_volume_that_goes_is_named(
    pod: Body, retained: frozenset[Identity], *, named: bool
) -> None:
    """A volume that stays may stay mounted."""
    outer = ours("JobSet", "outer", "research")
    inner = make_body("Job", "inner", "research", metadata=owned_by(outer))
    scene = {"own": (*make_scene().own, outer), "lists": {"Pod": (pod,), "Job": (inner,)}, "retained": retained}
    said = f"Pod research/p, {THEIRS}, mounts PersistentVolumeClaim training; ask its owner to end, move or delete it"
    assert refusals(**scene) == ((f"{said} first",) if named else ())


def test_what_others_have_in_our_namespace_is_named() -> None:
    """But for what Kubernetes puts there, and what belongs to something else in it."""
    theirs = make_body("Deployment", "web", "research", stack="team")
    beside = (
        VOLUME,
        theirs,
        make_body("ReplicaSet", "web-1", "research", metadata=owned_by(theirs)),
        make_body("ConfigMap", "kube-root-ca.crt", "research"),
        make_body("ServiceAccount", "default", "research"),
        make_body("Secret", "t", "research", metadata={"annotations": {"kubernetes.io/service-account.name": "a"}}),
    )
    (said,) = refusals(in_namespaces=beside, retained=frozenset())
    assert said.startswith(
        "Deployment research/web, of stack 'team', is in namespace research, which would be deleted with all"
    )
    assert refusals(in_namespaces=beside) == ()


def test_a_claim_that_waits_for_our_class_is_named() -> None:
    """One that is bound needs it no more."""
    spec = {"storageClassName": "shared"}
    waits = make_body("PersistentVolumeClaim", "a", "x", spec=spec, status={"phase": "Pending"})
    bound = make_body("PersistentVolumeClaim", "b", "x", spec=spec, status={"phase": "Bound"})
    (said,) = refusals(own=(ours("StorageClass", "shared"),), lists={"PersistentVolumeClaim": (waits, bound)})
    assert said.startswith("PersistentVolumeClaim x/a, of another owner, waits for a volume of StorageClass shared")


def test_objects_of_an_operator_that_goes_are_in_the_way_until_they_have_ended() -> None:
    """Those that have ended are left: their definition stays for them, and says for whom."""
    crd = ours("CustomResourceDefinition", "pytorchjobs.kubeflow.org")
    ended = {"conditions": [{"type": "Succeeded", "status": "True"}]}

    def with_theirs(**changes: Any) -> Plan:
        job = make_body("PyTorchJob", "theirs", "x", **changes)
        return plan(make_scene(own=(crd,), instances={"pytorchjobs.kubeflow.org": (job,)}))

    (said,) = with_theirs().refusals
    assert said.startswith("PyTorchJob x/theirs, of another owner, is of the kind pytorchjobs.kubeflow.org, whose")
    done = with_theirs(status=ended)
    assert done.refusals == ()
    name = ("CustomResourceDefinition", None, "pytorchjobs.kubeflow.org")
    assert done.stays == {name: "others have objects of this kind: PyTorchJob x/theirs"}
    assert plan(make_scene(own=(crd,), instances={"pytorchjobs.kubeflow.org": ()})).deleted == {name}


def test_an_active_run_has_to_be_named() -> None:
    """By its run id, as for `up`; a sweep by its name."""
    job = make_launch_body()
    scene: Mapping[str, Any] = {"own": (job,), "launches": (live_launch(job),)}
    (said,) = refusals(**scene)
    assert said.startswith(f"Job research/{job['metadata']['name']} (run {RUN}) has been queued for 1 min; ")
    assert said.endswith(f"trainstack destroy -s dev --stop {RUN}")
    allowed = plan(make_scene(**scene, stop=frozenset({RUN})))
    assert (allowed.refusals, allowed.active) == ((), (RUN,))
    job["metadata"]["labels"]["trainstack.dev/sweep"] = "search"
    assert refusals(own=(job,), launches=(live_launch(job),), stop=frozenset({"search"})) == ()


def test_what_the_state_does_not_know_is_not_deleted() -> None:
    """It may be of another checkout's stack with this name."""
    known = frozenset({CLAIM, SPACE, ("LocalQueue", "research", "research"), ("ClusterQueue", None, "research")})
    (told,) = refusals(known=known)
    assert told.startswith("Cohort local, ResourceFlavor cpu: labelled with stack 'dev', but not in this checkout's")
    assert refusals(known=known | {("Cohort", None, "local"), ("ResourceFlavor", None, "cpu")}) == ()


def test_what_an_earlier_destroy_left_stays() -> None:
    """The state has forgotten it: volumes, their namespaces, definitions. It is listed, and in nobody's way."""
    crd, empty = ours("CustomResourceDefinition", "jobs.example"), ours("Namespace", "empty")
    again = plan(make_scene(own=(VOLUME, NAMESPACE, crd, empty), retained=frozenset(), known=frozenset()))
    assert (again.deleted, again.refusals) == (frozenset(), ())
    left_before = "an earlier `destroy --keep-platform` left it"
    assert again.stays == {
        CLAIM: "its data is kept",
        SPACE: "it holds the retained volume training",
        ("CustomResourceDefinition", None, "jobs.example"): left_before,
        ("Namespace", None, "empty"): left_before,
    }


def test_a_protected_volume_stops_it() -> None:
    """It is named, with the way to let it go; a platform has none."""
    settings = make_settings(storage=make_storage(volumes=(make_volume(protect=True),)))
    (name,) = protected(settings)
    (said,) = refusals(protected=(name,))
    assert said.startswith("PersistentVolumeClaim research/training is protected, so nothing is deleted")
    assert protected(make_settings(environment=Environment(layers=("platform",)), storage=settings.storage)) == ()


def test_before_a_queue_goes_it_is_looked_at_again() -> None:
    """Who came since is named: a queue that points there, a workload that holds its quota."""
    mine = make_body("Workload", "m", "x", spec={}, status={"admission": {"clusterQueue": "research"}})
    theirs = make_body("Workload", "t", "x", spec={}, status={"admission": {"clusterQueue": "research"}})
    elsewhere = make_body("Workload", "e", "x", spec={}, status={"admission": {"clusterQueue": "other"}})
    local = make_body("LocalQueue", "q", "x", spec={"clusterQueue": "research"})
    found = queue_users(
        "research", "dev", [local, QUEUE], [mine, theirs, elsewhere], frozenset({str(mine["metadata"]["uid"])})
    )
    assert found == [f"LocalQueue x/q, {THEIRS}", f"Workload x/t, {THEIRS}"]


def test_what_is_left_of_a_run_that_is_gone_is_nobodys() -> None:
    """A Workload without owner, or with one of which it is not known whether it lives, is somebody's."""
    job, gone = make_body("Job", "a", "x"), make_body("Job", "b", "x")
    own, left, unknown = (
        make_body("Workload", f"w-{number}", "x", metadata=owned_by(each))
        for number, each in enumerate((job, gone, make_body("RayJob", "c", "x")))
    )
    bare = make_body("Workload", "bare", "x")
    living = {str(job["metadata"]["uid"])}
    assert ownerless([own, left, unknown, bare], ["Job"], living) == [left]


@pytest.mark.parametrize(
    ("body", "said"),
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
def test_what_hangs_is_told_by_its_finalizers(body: Body, said: str) -> None:
    """They are named, and never taken away."""
    assert explained(body, AT.astimezone(UTC).replace(minute=AT.minute + 1)) == said


def test_what_stays_is_no_leftover() -> None:
    """Of the rest everything is."""
    stays: Sequence[Identity] = (CLAIM, SPACE)
    assert left((VOLUME, NAMESPACE, QUEUE), stays) == [QUEUE]
