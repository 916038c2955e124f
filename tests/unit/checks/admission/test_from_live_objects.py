"""What a run would meet on a cluster: live objects as they will be, without the run itself."""

from typing import Any

import pytest

from tests.unit.make import make_kueue, make_queues, make_run, make_settings
from trainstack.declared.declared import Declared
from trainstack.kueue.from_live_objects import snapshot, with_declared
from trainstack.objects.labels import RUN
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import AdmissionCheck

Body = dict[str, Any]


def make_object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """A live object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def make_workload(name: str, owner: str, run: str | None = None, *, namespace: str = "research") -> Body:
    """Kueue's Workload of an object of this name; `run`: the run's id on its pods."""
    container = {"name": "training", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template: Body = {"spec": {"containers": [container]}}
    if run is not None:
        template["metadata"] = {"labels": {RUN: run}}
    return {
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"kind": "Job", "name": owner}],
        },
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }


def test_what_is_declared_wins_and_what_others_have_set_stays() -> None:
    """By kind, namespace and name; what is not there yet comes."""
    live = make_object("LocalQueue", "q", {"clusterQueue": "old", "stopPolicy": "Hold"}, "ns")
    other = make_object("LocalQueue", "q", {"clusterQueue": "old"}, "elsewhere")
    wanted = make_object("LocalQueue", "q", {"clusterQueue": "new"}, "ns")
    made = make_object("Cohort", "c", {})
    changed = {**live, "spec": {"clusterQueue": "new", "stopPolicy": "Hold"}}
    changed["metadata"] = {**live["metadata"], "labels": {}}
    assert list(with_declared([live, other], [wanted, made])) == [changed, other, made]


def test_labels_that_others_gave_a_namespace_stay() -> None:
    """A cluster queue of somebody else may be open to namespaces by them."""
    live, own = make_object("Namespace", "ns", {}), make_object("Namespace", "ns", {})
    live["metadata"]["labels"] = {"team": "a", "stack": "old"}
    own["metadata"]["labels"] = {"stack": "new"}
    (laid,) = with_declared([live], [own])
    assert laid["metadata"]["labels"] == {"team": "a", "stack": "new"}


def test_what_an_environment_says_no_more_is_gone() -> None:
    """A cohort that a queue has left lends it nothing; what somebody else has set too stays."""
    live = make_object("ClusterQueue", "q", {"cohortName": "lab", "stopPolicy": "Hold", "fairSharing": {}})
    live["metadata"]["managedFields"] = [
        {"manager": "trainstack", "fieldsV1": {"f:spec": {"f:cohortName": {}, "f:stopPolicy": {}}}},
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:stopPolicy": {}}}},
        {"manager": "kueue", "fieldsV1": {"f:status": {}}},
    ]
    (laid,) = with_declared([live], [make_object("ClusterQueue", "q", {"queueingStrategy": "StrictFIFO"})])
    assert laid["spec"] == {"stopPolicy": "Hold", "fairSharing": {}, "queueingStrategy": "StrictFIFO"}


def test_what_kueue_says_of_a_queue_is_of_what_it_was() -> None:
    """Where the environment changes the queue it counts no more."""
    live = {**make_object("ClusterQueue", "q", {"stopPolicy": "None"}), "status": {"conditions": []}}
    for own, stays in ({"stopPolicy": "None"}, True), ({"cohortName": "lab"}, False):
        (laid,) = with_declared([live], [make_object("ClusterQueue", "q", own)])
        assert ("status" in laid) is stays


@pytest.mark.parametrize(
    "own",
    [
        make_workload("job-train", "train-0123456789-aaaaaa"),
        # `naming: generated`: the API server completes the object's name.
        make_workload("job-train-x7k2p", "train-x7k2p", "train-0123456789"),
    ],
    ids=["derived", "generated"],
)
def test_a_run_does_not_compete_with_itself(own: Body) -> None:
    """Whatever its object is called; one of another namespace, or of another run, stays."""
    settings = make_settings(make_run())
    others = [
        make_workload("elsewhere", "train-x7k2p", "train-0123456789", namespace="other"),
        make_workload("other-run", "train-abcde", "train-9876543210"),
        make_workload("bare", "somebody-s"),
    ]
    without = {("research", "train-0123456789"), ("research", "train-0123456789-aaaaaa")}
    found = snapshot({"Workload": [own, *others]}, Declared(settings), without=without)
    assert [each.name for each in found.pending] == ["elsewhere", "other-run", "bare"]


def test_where_workloads_or_cohorts_may_not_be_read_nothing_is_known_of_queues() -> None:
    """What they have left depends on who uses it, and what they lend on their cohorts; nodes are another matter."""
    for kind in ("Workload", "Cohort", "LimitRange"):
        assert snapshot({kind: None, "ClusterQueue": []}, Declared(make_settings())).model.cluster_queues is None
    found = snapshot({"RuntimeClass": None, "Node": [], "ClusterQueue": []}, Declared(make_settings()), grows=True)
    assert found.model.cluster_queues is not None
    assert found.model.nodes == ()
    assert found.model.grows


def test_a_check_that_up_creates_or_changes_is_as_good_as_active() -> None:
    """Only of what stays as it is the controller has said whether it accepts it."""
    check = AdmissionCheck(name="nodes", controller_name="example.org/nodes")
    declared = Declared(make_settings(queues=make_queues(admission_checks=(check,))))
    live = make_object("AdmissionCheck", "nodes", {"controllerName": "example.org/nodes"})
    other = make_object("AdmissionCheck", "other", {"controllerName": "example.org/nodes"})
    changed = {**live, "spec": {**live["spec"], "controllerName": "example.org/old"}}
    for found, active in (((), True), ((live,), False), ((changed,), True)):
        checks = snapshot({"AdmissionCheck": (*found, other)}, declared).model.active_checks
        assert checks == {"nodes": active, "other": False}


def test_an_install_replaces_what_the_running_kueues_configuration_says() -> None:
    """`up` writes the whole Configuration; fields that the settings do not have are those of the release."""
    running = {
        "fairSharing": {},
        "featureGates": {"LendingLimit": False},
        "resources": {"excludeResourcePrefixes": ["example.org/"]},
        "waitForPodsReady": {"blockAdmission": True},
        "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
    }
    installed = make_settings(operators=Operators(kueue=make_kueue()))
    model = snapshot({}, Declared(installed), kueue=running).model
    assert not (model.fair_sharing)
    assert not (model.excluded)
    assert not (model.blocks_admission)
    assert not (model.gates.changed)
    assert [each.key for each in model.managed_namespaces] == ["team"]
    found = snapshot({}, Declared(make_settings(operators=Operators())), kueue=running).model
    assert found.fair_sharing
    assert (found.excluded, found.blocks_admission, found.gates.changed) == (
        ("example.org/",),
        True,
        {"LendingLimit": False},
    )
