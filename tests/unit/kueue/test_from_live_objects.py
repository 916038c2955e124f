"""The snapshot for the verdict on a run: live objects after the change, without the run itself."""

from typing import Any

import pytest

from tests.unit.make import make_kueue, make_queues, make_run, make_settings
from trainstack.kueue.from_live_objects import merge_declared_objects, queue_state_after_up
from trainstack.objects.labels import RUN
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import AdmissionCheck
from trainstack.stack_objects.stack_objects import StackObjects

Body = dict[str, Any]


def make_object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """Return a live object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def make_workload(name: str, owner: str, run: str | None = None, *, namespace: str = "research") -> Body:
    """Return the Workload of an object of this name; `run` is the run id on its pods."""
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


def test_declared_fields_win_and_fields_of_others_are_kept() -> None:
    """Objects match by kind, namespace and name; missing objects are added."""
    live = make_object("LocalQueue", "q", {"clusterQueue": "old", "stopPolicy": "Hold"}, "ns")
    other = make_object("LocalQueue", "q", {"clusterQueue": "old"}, "elsewhere")
    declared = make_object("LocalQueue", "q", {"clusterQueue": "new"}, "ns")
    added = make_object("Cohort", "c", {})
    changed = {**live, "spec": {"clusterQueue": "new", "stopPolicy": "Hold"}}
    changed["metadata"] = {**live["metadata"], "labels": {}}
    assert list(merge_declared_objects([live, other], [declared, added])) == [changed, other, added]


def test_labels_of_others_on_a_namespace_are_kept() -> None:
    """A cluster queue of another owner may select namespaces by them."""
    live, own = make_object("Namespace", "ns", {}), make_object("Namespace", "ns", {})
    live["metadata"]["labels"] = {"team": "a", "stack": "old"}
    own["metadata"]["labels"] = {"stack": "new"}
    (merged,) = merge_declared_objects([live], [own])
    assert merged["metadata"]["labels"] == {"team": "a", "stack": "new"}


def test_fields_that_are_no_longer_declared_are_removed() -> None:
    """An example is the cohort of a queue. A field that another manager also owns is kept."""
    live = make_object("ClusterQueue", "q", {"cohortName": "lab", "stopPolicy": "Hold", "fairSharing": {}})
    live["metadata"]["managedFields"] = [
        {"manager": "trainstack", "fieldsV1": {"f:spec": {"f:cohortName": {}, "f:stopPolicy": {}}}},
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:stopPolicy": {}}}},
        {"manager": "kueue", "fieldsV1": {"f:status": {}}},
    ]
    (merged,) = merge_declared_objects([live], [make_object("ClusterQueue", "q", {"queueingStrategy": "StrictFIFO"})])
    assert merged["spec"] == {"stopPolicy": "Hold", "fairSharing": {}, "queueingStrategy": "StrictFIFO"}


def test_the_status_of_a_changed_queue_is_dropped() -> None:
    """The status of an unchanged queue is kept."""
    live = {**make_object("ClusterQueue", "q", {"stopPolicy": "None"}), "status": {"conditions": []}}
    for own, is_kept in ({"stopPolicy": "None"}, True), ({"cohortName": "lab"}, False):
        (merged,) = merge_declared_objects([live], [make_object("ClusterQueue", "q", own)])
        assert ("status" in merged) is is_kept


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
    """The name of its object does not matter. Workloads of another namespace or another run are kept."""
    settings = make_settings(make_run())
    others = [
        make_workload("elsewhere", "train-x7k2p", "train-0123456789", namespace="other"),
        make_workload("other-run", "train-abcde", "train-9876543210"),
        make_workload("bare", "somebody-s"),
    ]
    without = {("research", "train-0123456789"), ("research", "train-0123456789-aaaaaa")}
    found = queue_state_after_up({"Workload": [own, *others]}, StackObjects(settings), ignored_runs=without)
    assert [workload.name for workload in found.pending] == ["elsewhere", "other-run", "bare"]


def test_queues_are_unknown_without_the_right_to_read_workloads_or_cohorts() -> None:
    """Workloads use their quota, and cohorts lend it. Nodes are independent of them."""
    for kind in ("Workload", "Cohort", "LimitRange"):
        assert (
            queue_state_after_up({kind: None, "ClusterQueue": []}, StackObjects(make_settings())).model.cluster_queues
            is None
        )
    found = queue_state_after_up(
        {"RuntimeClass": None, "Node": [], "ClusterQueue": []}, StackObjects(make_settings()), has_autoscaler=True
    )
    assert found.model.cluster_queues is not None
    assert found.model.nodes == ()
    assert found.model.has_autoscaler


def test_a_check_that_up_creates_or_changes_counts_as_active() -> None:
    """The controller's status is only about an unchanged check."""
    check = AdmissionCheck(name="nodes", controller_name="example.org/nodes")
    declared = StackObjects(make_settings(queues=make_queues(admission_checks=(check,))))
    live = make_object("AdmissionCheck", "nodes", {"controllerName": "example.org/nodes"})
    other = make_object("AdmissionCheck", "other", {"controllerName": "example.org/nodes"})
    changed = {**live, "spec": {**live["spec"], "controllerName": "example.org/old"}}
    for found, active in (((), True), ((live,), False), ((changed,), True)):
        checks = queue_state_after_up({"AdmissionCheck": (*found, other)}, declared).model.active_checks
        assert checks == {"nodes": active, "other": False}


def test_an_install_replaces_the_running_kueues_configuration() -> None:
    """`up` writes the whole Configuration; other fields have the release's values."""
    running = {
        "fairSharing": {},
        "featureGates": {"LendingLimit": False},
        "resources": {"excludeResourcePrefixes": ["example.org/"]},
        "waitForPodsReady": {"blockAdmission": True},
        "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
    }
    installed = make_settings(operators=Operators(kueue=make_kueue()))
    model = queue_state_after_up({}, StackObjects(installed), kueue_configuration=running).model
    assert not (model.fair_sharing)
    assert not (model.excluded_prefixes)
    assert not (model.blocks_admission)
    assert not (model.gates.overrides)
    assert [requirement.key for requirement in model.managed_namespaces] == ["team"]
    found = queue_state_after_up(
        {}, StackObjects(make_settings(operators=Operators())), kueue_configuration=running
    ).model
    assert found.fair_sharing
    assert (found.excluded_prefixes, found.blocks_admission, found.gates.overrides) == (
        ("example.org/",),
        True,
        {"LendingLimit": False},
    )
