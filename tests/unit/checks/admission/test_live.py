"""What a run would meet on a cluster: live objects as they will be, without the run itself."""

from typing import Any

from checks.admission.live import laid_over, snapshot
from tests.unit.make import make_run, make_settings

Body = dict[str, Any]


def make_object(kind: str, name: str, spec: Body, namespace: str = "") -> Body:
    """A live object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def make_admitted(name: str, owner: str) -> Body:
    """A Workload that has its quota, of a Job."""
    container = {"name": "one", "resources": {"requests": {"cpu": "1"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}]
    given = {"name": "main", "count": 1, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": "1"}}
    body = make_object("Workload", name, {"queueName": "research", "podSets": sets}, "research")
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "name": owner}]
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    body["status"] = {
        "conditions": [reserved],
        "admission": {"clusterQueue": "research", "podSetAssignments": [given]},
    }
    return body


def test_what_is_declared_wins_and_what_others_have_set_stays() -> None:
    """By kind, namespace and name; what is not there yet comes."""
    live = make_object("LocalQueue", "q", {"clusterQueue": "old", "stopPolicy": "Hold"}, "ns")
    other = make_object("LocalQueue", "q", {"clusterQueue": "old"}, "elsewhere")
    wanted = make_object("LocalQueue", "q", {"clusterQueue": "new"}, "ns")
    made = make_object("Cohort", "c", {})
    changed = {**live, "spec": {"clusterQueue": "new", "stopPolicy": "Hold"}}
    changed["metadata"] = {**live["metadata"], "labels": {}}
    assert list(laid_over([live, other], [wanted, made])) == [changed, other, made]


def test_labels_that_others_gave_a_namespace_stay() -> None:
    """A cluster queue of somebody else may be open to namespaces by them."""
    live, own = make_object("Namespace", "ns", {}), make_object("Namespace", "ns", {})
    live["metadata"]["labels"] = {"team": "a", "stack": "old"}
    own["metadata"]["labels"] = {"stack": "new"}
    (laid,) = laid_over([live], [own])
    assert laid["metadata"]["labels"] == {"team": "a", "stack": "new"}


def test_what_an_environment_says_no_more_is_gone() -> None:
    """A cohort that a queue has left lends it nothing; what somebody else has set too stays."""
    live = make_object("ClusterQueue", "q", {"cohortName": "lab", "stopPolicy": "Hold", "fairSharing": {}})
    live["metadata"]["managedFields"] = [
        {"manager": "trainstack", "fieldsV1": {"f:spec": {"f:cohortName": {}, "f:stopPolicy": {}}}},
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:stopPolicy": {}}}},
        {"manager": "kueue", "fieldsV1": {"f:status": {}}},
    ]
    (laid,) = laid_over([live], [make_object("ClusterQueue", "q", {"queueingStrategy": "StrictFIFO"})])
    assert laid["spec"] == {"stopPolicy": "Hold", "fairSharing": {}, "queueingStrategy": "StrictFIFO"}


def test_a_run_does_not_compete_with_itself() -> None:
    """Its own Workload, known by the Job that owns it, is passed over; others' are not."""
    lists = {"Workload": [make_admitted("w1", "mine"), make_admitted("w2", "theirs")]}
    found = snapshot(lists, make_settings(make_run()), without={("research", "mine"), ("elsewhere", "theirs")})
    assert [each.workload.name for each in found.admitted] == ["w2"]


def test_where_workloads_or_cohorts_may_not_be_read_nothing_is_known_of_queues() -> None:
    """What they have left depends on who uses it, and what they lend on their cohorts; nodes are another matter."""
    for kind in ("Workload", "Cohort", "LimitRange"):
        assert snapshot({kind: None, "ClusterQueue": []}, make_settings()).model.cluster_queues is None
    found = snapshot({"RuntimeClass": None, "Node": [], "ClusterQueue": []}, make_settings(), grows=True)
    assert found.model.cluster_queues is not None
    assert found.model.nodes == ()
    assert found.model.grows
