"""Pod sets of one group get the same flavors, by the sum of their requests."""

from dataclasses import replace

from tests.unit.kueue.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.flavor_assigner import pod_set_groups
from trainstack.kueue.model import Flavor, Model, PodSet, Taint, Workload
from trainstack.kueue.pod_requests import pod_set
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.workloads import read_kueue_workload


def grouped(*pod_sets: PodSet) -> list[PodSet]:
    return [replace(pods, group="g") for pods in pod_sets]


def flavors(verdict: Verdict) -> list[dict[str, str]]:
    return [dict(pods.flavors) for pods in verdict.assigned]


def make_two_flavors(**changes: Flavor) -> Model:
    """Return a queue with 3 cpu on flavor `a` and 6 on `b`."""
    names = {"a": Flavor("a"), "b": Flavor("b"), **changes}
    return make_model(make_queue("q", {"a": {"cpu": 3}, "b": {"cpu": 6}}), flavors=names)


def test_a_group_needs_one_flavor_for_all() -> None:
    """Source: assignFlavors, flavorassigner.go: alone, the leader would get flavor `a`."""
    leader, workers = make_pods("leader", cpu=1), make_pods("workers", count=2, cpu=2)
    assert flavors(simulate(make_workload(leader, workers), make_two_flavors())) == [{"cpu": "a"}, {"cpu": "b"}]
    found = simulate(make_workload(*grouped(leader, workers)), make_two_flavors())
    assert (found.outcome, flavors(found)) == ("fits", [{"cpu": "b"}, {"cpu": "b"}])
    assert found.usage == {("b", "cpu"): 5000}


def test_a_group_may_not_fit_although_its_pod_sets_would() -> None:
    """Source: findFlavorForPodSets, flavorassigner.go, which adds up the group's requests."""
    sets = make_pods("leader", cpu=3), make_pods("workers", count=2, cpu=2)
    assert simulate(make_workload(*sets), make_two_flavors()).outcome == "fits"
    found = simulate(make_workload(*grouped(*sets)), make_two_flavors())
    assert (found.outcome, found.reasons[0].message) == (
        "never fits",
        (
            "every pod set fits alone, but not all of them together: Kueue assigns the same flavors to all pod sets"
            " of a group, and no flavor has enough quota for all of them"
        ),
    )


def test_a_flavor_must_suit_every_pod_set_of_a_group() -> None:
    """Source: checkFlavorForPodSets, flavorassigner.go."""
    tainted = make_two_flavors(b=Flavor("b", taints=(Taint("kind", "spot", "NoSchedule"),)))
    leader, workers = make_pods("leader", cpu=1), make_pods("workers", cpu=1)
    labelled = make_two_flavors(a=Flavor("a", {"pool": "a"}), b=Flavor("b", {"pool": "b"}))
    on_b = replace(workers, selector={"pool": "b"})
    assert flavors(simulate(make_workload(*grouped(leader, on_b)), labelled)) == [{"cpu": "b"}, {"cpu": "b"}]
    assert flavors(simulate(make_workload(*grouped(leader, workers)), tainted)) == [{"cpu": "a"}, {"cpu": "a"}]


def test_a_pod_set_of_a_group_gets_flavors_for_its_own_requests() -> None:
    """Source: assignFlavors, flavorassigner.go (FilterKeys)."""
    model = make_model(make_queue("q", {"f": {"cpu": 4, "nvidia.com/gpu": 2}}))
    found = simulate(make_workload(*grouped(make_pods("leader", cpu=1), make_pods("workers", cpu=1, gpu=2))), model)
    assert flavors(found) == [{"cpu": "f"}, {"cpu": "f", "nvidia.com/gpu": "f"}]


def test_groups_keep_the_order_of_their_first_pod_sets() -> None:
    """Source: OrderedGroups, pkg/util/orderedgroups; another order makes Kueue confuse its own pod sets."""
    sets = [make_pods(name) for name in "abcd"]
    mixed = [sets[0], replace(sets[1], group="g"), sets[2], replace(sets[3], group="g")]
    assert pod_set_groups(make_workload(*mixed)) == [[0], [1, 3], [2]]
    found = simulate(make_workload(*mixed), make_model(make_queue()))
    assert (found.outcome, found.reasons[0].cause) == ("unknown", "unmodelled")
    assert simulate(make_workload(*grouped(*sets)), make_model(make_queue())).outcome == "fits"


def test_a_group_is_read_from_a_topology_request_or_annotations() -> None:
    """Source: Build in pkg/controller/jobframework/tas.go: the annotation needs one of two others."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    live = {"name": "main", "count": 1, "template": template, "topologyRequest": {"podSetGroupName": "g"}}
    body = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"podSets": [live]}}
    read = read_kueue_workload(body, make_model(make_queue()))
    assert isinstance(read, Workload)
    assert (read.pod_sets[0].group, read.pod_sets[0].requests_topology) == ("g", False)
    group, required = {"kueue.x-k8s.io/podset-group-name": "g"}, {"kueue.x-k8s.io/podset-required-topology": "rack"}
    for annotations, name in ({**group, **required}, "g"), (group, ""):
        pods = pod_set(
            "main", 1, {**template, "metadata": {"annotations": annotations}}, "ns", make_model(make_queue())
        )
        assert pods.group == name
