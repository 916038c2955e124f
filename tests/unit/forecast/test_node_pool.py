"""The placement of pods on nodes, and the nodes of `--nodes`."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.forecast.make import make_node
from tests.unit.kueue.make import make_pods, make_workload
from trainstack.errors import TrainstackError
from trainstack.forecast.node_changes import apply_node_changes, flavors_of_changes
from trainstack.forecast.node_pool import NodePool
from trainstack.kueue.model import ClusterNode, Flavor, Requirement, Taint, Toleration
from trainstack.kueue.verdict import PodSetAdmission

GPU = "nvidia.com/gpu"
FLAVORS = {
    "a100": Flavor("a100", {"kind": "a100"}, tolerations=(Toleration("gpu", "Exists", "", ""),)),
    "cpu": Flavor("cpu"),
}


def placed(pool: NodePool, count: int, flavor: str = "cpu", name: str = "w", **requests: int) -> bool:
    """Return whether a run with `count` pods on a flavor is placed."""
    amounts: dict[str, Any] = {**requests}
    pods = make_pods(count=count, **amounts)
    assigned = PodSetAdmission("main", count, dict.fromkeys(pods.requests, flavor))
    return pool.place(make_workload(pods, name=name), (assigned,))


def test_all_pods_are_placed_or_none() -> None:
    """The capacity of a failed placement is released, and so is that of removed pods."""
    pool = NodePool([make_node("one"), make_node("two")], FLAVORS)
    assert not placed(pool, 3, cpu=3)
    assert placed(pool, 2, cpu=3)
    assert not placed(pool, 1, cpu=2, name="other")
    pool.remove("ns/w")
    pool.remove("ns/w")
    assert placed(pool, 1, cpu=4, name="other")


def test_pods_spread_over_the_least_allocated_nodes() -> None:
    """This is the scheduler's default; a pod that needs a whole node may then have no place."""
    pool = NodePool([make_node("one"), make_node("two")], FLAVORS)
    assert placed(pool, 2, cpu=1)
    assert not placed(pool, 1, cpu=4, name="whole")


def test_labels_and_tolerations_of_a_flavor_select_nodes() -> None:
    """Kueue adds both to the pods. Cordoned nodes are excluded, and the number of pods per node is limited."""
    taint = Taint("gpu", "yes", "NoSchedule")
    gpu = replace(make_node("gpu", {"kind": "a100"}, **{GPU: 2}), taints=(taint,))
    unschedulable = replace(make_node("closed", {"kind": "a100"}, **{GPU: 8}), unschedulable=True)
    pool = NodePool([make_node("plain"), gpu, unschedulable], FLAVORS)
    assert not placed(pool, 3, "a100", gpu=1)
    assert placed(pool, 2, "a100", gpu=1)
    assert not placed(pool, 1, "cpu", gpu=1, name="other")
    few = NodePool([make_node(pods=1)], FLAVORS)
    assert not placed(few, 2, cpu=1)


def test_selectors_and_affinities_of_pods_select_nodes() -> None:
    pool = NodePool([make_node("one", {"disk": "ssd"})], FLAVORS)
    pods, assigned = make_pods(cpu=1), (PodSetAdmission("main", 1, {"cpu": "cpu"}),)
    for disk, fits in (("ssd", True), ("hdd", False)):
        selects = replace(pods, selector={"disk": disk})
        affine = replace(pods, affinity=((Requirement("disk", "In", (disk,)),),))
        assert pool.place(make_workload(selects, name=f"s-{disk}"), assigned) == fits
        assert pool.place(make_workload(affine, name=f"a-{disk}"), assigned) == fits


def test_flavors_with_unknown_nodes_have_unlimited_capacity() -> None:
    """`--nodes` may describe the nodes of some flavors only."""
    pool = NodePool([make_node("one", {"kind": "a100"}, **{GPU: 1})], FLAVORS, only_flavors=("a100",))
    assert placed(pool, 99, "cpu", cpu=99)
    assert not placed(pool, 2, "a100", gpu=1, name="other")


def test_nodes_of_a_flavor_are_replaced_by_copies_of_the_largest() -> None:
    """Or by nodes with the described resources; nodes of other flavors are kept."""
    old = make_node("old", {"kind": "a100"}, **{GPU: 4})
    big = make_node("big", {"kind": "a100", "zone": "b"}, **{GPU: 8})
    other = make_node("other")
    found = apply_node_changes([old, big, other], ["a100=3"], FLAVORS)
    assert found == (other, *(ClusterNode(f"a100-{n}", big.labels, (), big.allocatable) for n in range(3)))
    described = apply_node_changes([], ["a100=1:cpu=64,memory=1Gi,nvidia.com/gpu=8"], FLAVORS)
    allocatable = {"pods": 110, "cpu": 64000, "memory": 2**30, GPU: 8}
    assert described == (ClusterNode("a100-0", {"kind": "a100"}, (), allocatable),)
    assert apply_node_changes([old, other], ["a100=0"], FLAVORS) == (other,)
    # A flavor without labels has every node that no other flavor selects.
    assert apply_node_changes([old, other], ["cpu=0"], FLAVORS) == (old,)
    assert flavors_of_changes(["a100=1:cpu=1", "cpu=2"]) == {"a100", "cpu"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("a100", "--nodes a100: write FLAVOR=COUNT"),
        ("a100=many", "write FLAVOR=COUNT"),
        ("a100=2:cpu", "write FLAVOR=COUNT"),
        ("a10=2", "unknown flavor a10; did you mean a100?"),
        ("a100=2", "no node of flavor a100 is known; write its resources: --nodes a100=2:cpu=64"),
        ("a100=2:cpu=lots", "--nodes a100=2:cpu=lots: 'lots' is not a quantity"),
    ],
)
def test_an_invalid_value_of_nodes_is_an_error(change: str, message: str) -> None:
    """The message has the remedy."""
    with pytest.raises(TrainstackError, match="--nodes") as error:
        apply_node_changes([], [change], FLAVORS)
    assert message in str(error.value)
