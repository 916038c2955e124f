"""Whether nodes have room for pods, and nodes that are tried."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_pods, make_workload
from tests.unit.checks.plan.make import make_node
from trainstack.errors import TrainstackError
from trainstack.forecast.node_changes import named_flavors, planned_nodes
from trainstack.forecast.node_pool import NodePool
from trainstack.kueue.model import Flavor, Node, Requirement, Taint, Toleration
from trainstack.kueue.verdict import Assigned

GPU = "nvidia.com/gpu"
FLAVORS = {
    "a100": Flavor("a100", {"kind": "a100"}, tolerations=(Toleration("gpu", "Exists", "", ""),)),
    "cpu": Flavor("cpu"),
}


def placed(pool: NodePool, count: int, flavor: str = "cpu", name: str = "w", **requests: int) -> bool:
    """Whether a run of so many pods on a flavor finds room."""
    amounts: dict[str, Any] = {**requests}
    pods = make_pods(count=count, **amounts)
    given = Assigned("main", count, dict.fromkeys(pods.requests, flavor))
    return pool.place(make_workload(pods, name=name), (given,))


def test_pods_are_placed_all_or_none() -> None:
    """What was taken for some of them is free again; so it is when they leave."""
    pool = NodePool([make_node("one"), make_node("two")], FLAVORS)
    assert not placed(pool, 3, cpu=3)
    assert placed(pool, 2, cpu=3)
    assert not placed(pool, 1, cpu=2, name="other")
    pool.remove("ns/w")
    pool.remove("ns/w")
    assert placed(pool, 1, cpu=4, name="other")


def test_pods_spread_over_the_least_allocated_nodes() -> None:
    """As the scheduler has it, so that a pod that needs a whole node may find none."""
    pool = NodePool([make_node("one"), make_node("two")], FLAVORS)
    assert placed(pool, 2, cpu=1)
    assert not placed(pool, 1, cpu=4, name="whole")


def test_a_flavor_says_which_nodes_and_what_is_tolerated() -> None:
    """Kueue adds both to the pods; cordoned nodes take none; as many pods as a node takes."""
    taint = Taint("gpu", "yes", "NoSchedule")
    gpu = replace(make_node("gpu", {"kind": "a100"}, **{GPU: 2}), taints=(taint,))
    unschedulable = replace(make_node("closed", {"kind": "a100"}, **{GPU: 8}), unschedulable=True)
    pool = NodePool([make_node("plain"), gpu, unschedulable], FLAVORS)
    assert not placed(pool, 3, "a100", gpu=1)
    assert placed(pool, 2, "a100", gpu=1)
    assert not placed(pool, 1, "cpu", gpu=1, name="other")
    few = NodePool([make_node(pods=1)], FLAVORS)
    assert not placed(few, 2, cpu=1)


def test_pods_may_ask_for_nodes_themselves() -> None:
    """By selector and by affinity."""
    pool = NodePool([make_node("one", {"disk": "ssd"})], FLAVORS)
    pods, given = make_pods(cpu=1), (Assigned("main", 1, {"cpu": "cpu"}),)
    for wanted, found in (("ssd", True), ("hdd", False)):
        selects = replace(pods, selector={"disk": wanted})
        affine = replace(pods, affinity=((Requirement("disk", "In", (wanted,)),),))
        assert pool.place(make_workload(selects, name=f"s-{wanted}"), given) == found
        assert pool.place(make_workload(affine, name=f"a-{wanted}"), given) == found


def test_flavors_whose_nodes_are_not_known_have_room_without_end() -> None:
    """Where nodes of some flavors alone are tried."""
    pool = NodePool([make_node("one", {"kind": "a100"}, **{GPU: 1})], FLAVORS, only_flavors=("a100",))
    assert placed(pool, 99, "cpu", cpu=99)
    assert not placed(pool, 2, "a100", gpu=1, name="other")


def test_nodes_of_a_flavor_are_replaced_by_others_like_the_largest() -> None:
    """Or by those that are described; nodes of other flavors stay."""
    old = make_node("old", {"kind": "a100"}, **{GPU: 4})
    big = make_node("big", {"kind": "a100", "zone": "b"}, **{GPU: 8})
    other = make_node("other")
    found = planned_nodes([old, big, other], ["a100=3"], FLAVORS)
    assert found == (other, *(Node(f"a100-{n}", big.labels, (), big.allocatable) for n in range(3)))
    described = planned_nodes([], ["a100=1:cpu=64,memory=1Gi,nvidia.com/gpu=8"], FLAVORS)
    allocatable = {"pods": 110, "cpu": 64000, "memory": 2**30, GPU: 8}
    assert described == (Node("a100-0", {"kind": "a100"}, (), allocatable),)
    assert planned_nodes([old, other], ["a100=0"], FLAVORS) == (other,)
    # A flavor without labels has every node that no other flavor asks for.
    assert planned_nodes([old, other], ["cpu=0"], FLAVORS) == (old,)
    assert named_flavors(["a100=1:cpu=1", "cpu=2"]) == {"a100", "cpu"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("a100", "--nodes a100: write FLAVOR=COUNT"),
        ("a100=many", "write FLAVOR=COUNT"),
        ("a100=2:cpu", "write FLAVOR=COUNT"),
        ("a10=2", "unknown flavor a10; did you mean a100?"),
        ("a100=2", "no node of flavor a100 is known; write its resources: --nodes a100=2:cpu=64"),
        ("a100=2:cpu=lots", "--nodes a100=2:cpu=lots: 'lots' is not a quantity"),
    ],
)
def test_nodes_that_cannot_be_tried_are_told(change: str, said: str) -> None:
    """With the remedy."""
    with pytest.raises(TrainstackError, match="--nodes") as caught:
        planned_nodes([], [change], FLAVORS)
    assert said in str(caught.value)
