"""The quota that a queue has, lends and may borrow, in trees of cohorts."""

import pytest

from tests.unit.kueue.make import make_model, make_queue
from trainstack.kueue.model import ClusterQueue, Cohort, Quota
from trainstack.kueue.resource_node import CohortTree
from trainstack.kueue.snapshot import Snapshot

CPU = ("cpu", "cpu")

COHORTS = (Cohort("a", "root"), Cohort("b", "root"), Cohort("c"))


def make_pool(name: str, cohort: str | None, *figures: int | None) -> ClusterQueue:
    """Return a cluster queue with these figures of cpu: nominal quota, borrowing limit, lending limit."""
    return make_queue(name, {"cpu": {"cpu": figures}}, cohort)


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param([make_pool("q", None, 2), make_pool("r", None, 4)], 2, id="alone: its own"),
        pytest.param([make_pool("q", "a", 2), make_pool("r", "a", 4)], 6, id="in a cohort: that of all queues"),
        pytest.param([make_pool("q", "a", 2, 1), make_pool("r", "a", 4)], 3, id="a borrowing limit"),
        pytest.param([make_pool("q", "a", 2), make_pool("r", "a", 4, None, 1)], 3, id="a lending limit"),
        pytest.param([make_pool("q", "a", 2, None, 0), make_pool("r", "a", 4)], 6, id="keeps its own"),
        pytest.param([make_pool("q", "a", 2), make_pool("r", "b", 4)], 6, id="cohorts of one parent share"),
        pytest.param([make_pool("q", "a", 2), make_pool("r", "root", 4)], 6, id="the parent's own queues lend"),
        pytest.param([make_pool("q", "a", 2), make_pool("r", "c", 4)], 2, id="another tree does not"),
        pytest.param([make_pool("q", "a", 0), make_pool("r", "a", 4)], 4, id="all of it borrowed"),
        pytest.param([make_pool("q", "x", 2), make_pool("r", "x", 4)], 6, id="a cohort that is not declared"),
    ],
)
def test_the_potential_is_the_available_quota_of_an_idle_cluster(pools: list[ClusterQueue], expected: int) -> None:
    """It is the nominal quota, and the quota that the whole tree of cohorts lends, within the limits of both sides."""
    assert CohortTree(make_model(*pools, cohorts=COHORTS)).potential_available("q", "cpu", "cpu") == expected * 1000


def test_a_cohort_has_quota_of_its_own_and_limits_towards_its_parent() -> None:
    """Its queues share it. Its borrowing and lending limits apply to its parent, like those of a queue."""
    own = {CPU: Quota(3000, borrowing_limit=1000, lending_limit=2000)}
    model = make_model(
        make_pool("q", "a", 2), make_pool("r", "b", 10), cohorts=(Cohort("a", "root", own), Cohort("b", "root"))
    )
    tree = CohortTree(model)
    assert tree.cohorts["a"].subtree_quota[CPU] == 5000
    assert tree.cohorts["root"].subtree_quota[CPU] == 12000  # of 5, cohort a keeps 3
    assert tree.potential_available("q", "cpu", "cpu") == 6000  # 5 and 1 borrowed
    assert tree.potential_available("r", "cpu", "cpu") == 12000


def test_usage_beyond_the_kept_quota_counts_in_the_parent() -> None:
    """A queue that keeps 1 of 2 uses it first; the rest counts in the cohort, and is released first."""
    tree = CohortTree(make_model(make_pool("q", "a", 2, None, 1), make_pool("r", "a", 4)))
    tree.add("q", {CPU: 1000})
    assert tree.queues["r"].available(CPU) == 5000
    tree.add("q", {CPU: 3000})
    assert (tree.queues["q"].available(CPU), tree.queues["r"].available(CPU)) == (2000, 2000)
    tree.remove("q", {CPU: 3000})
    assert (tree.queues["q"].available(CPU), tree.queues["r"].available(CPU)) == (5000, 5000)


def test_a_borrowing_limit_counts_borrowed_quota() -> None:
    """With a quota of 2, a limit of 3 and a usage of 4, 1 more may be borrowed although 6 are free."""
    tree = CohortTree(make_model(make_pool("q", "a", 2, 3), make_pool("r", "a", 8)))
    tree.add("q", {CPU: 4000})
    assert tree.queues["q"].available(CPU) == 1000


def test_usage_beyond_the_quota_leaves_nothing() -> None:
    """If quota was lowered below the usage, the available quota is 0 and not negative."""
    snapshot = Snapshot(make_model(make_pool("q", "a", 2), make_pool("r", "a", 0)))
    snapshot.tree.add("r", {CPU: 5000})
    assert snapshot.cluster_queues["q"].available(CPU) == 0


def test_the_borrowing_level_is_the_height_of_the_cohort_with_the_quota() -> None:
    """It is 0 within the queue, else the height of the smallest subtree with enough quota, or of the whole tree."""
    model = make_model(make_pool("q", "a", 2), make_pool("r", "a", 2), make_pool("s", "root", 4), cohorts=COHORTS)
    node = CohortTree(model).queues["q"]
    levels = [node.borrowing_level(CPU, cpus * 1000) for cpus in (2, 4, 6, 9)]
    assert levels == [(0, True), (1, True), (2, False), (2, False)]


def test_a_stopped_queue_lends_but_does_not_count_for_the_height() -> None:
    """Kueue's scheduler ignores it, but its cohort has its quota."""
    model = make_model(make_pool("q", "root", 2), make_queue("r", cohort="a", stop_policy="Hold"), cohorts=COHORTS)
    tree = CohortTree(model)
    assert tree.potential_available("q", "cpu", "cpu") == 6000
    assert (tree.cohorts["a"].height, tree.cohorts["root"].height) == (0, 1)


def test_cyclic_cohorts_are_detected() -> None:
    """The lookup does not loop; cohorts below a cycle count as cyclic."""
    cohorts = (Cohort("a", "b"), Cohort("b", "a"), Cohort("below", "a"), Cohort("c"))
    tree = CohortTree(make_model(make_pool("q", "below", 2), make_pool("r", "c", 2), cohorts=cohorts))
    assert [tree.is_cyclic(name) for name in ("a", "b", "below", "c")] == [True, True, True, False]
    assert tree.potential_available("q", "cpu", "cpu") == 2000


def test_a_flavor_without_own_quota_cannot_be_borrowed() -> None:
    """A queue borrows only on flavors that it lists."""
    tree = CohortTree(make_model(make_pool("q", "a", 2), make_queue("r", {"gpu": {"cpu": 4}}, "a")))
    assert tree.potential_available("q", "gpu", "cpu") == 0


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param([("q", "a", "9E"), ("r", "a", "100Gi")], 9 * 10**18 + 100 * 2**30, id="a sum within 64 bits"),
        pytest.param([("q", "a", "9E"), ("r", "a", "9E")], 18 * 10**18 - 2**64, id="two of 9E wrap around"),
        pytest.param([("q", "a", "9E", "9E"), ("r", "a", "1Gi")], 18 * 10**18 - 2**64, id="so does quota with a limit"),
        pytest.param([("q", "a", str(2**63 - 1)), ("r", "a", "1")], -(2**63), id="one more than the largest"),
        pytest.param([("q", None, "10E")], 0, id="10E alone is 0"),
    ],
)
def test_sums_overflow_as_in_kueue(pools: list[tuple[str | None, ...]], expected: int) -> None:
    """Quota that is meant as "unlimited" may overflow to a negative amount, on which nothing is admitted."""
    queues = [
        make_queue(str(name), {"cpu": {"memory": figures}}, cohort)
        for name, cohort, *rest in pools
        for figures in [tuple(rest)]
    ]
    tree = CohortTree(make_model(*queues, cohorts=COHORTS))
    assert tree.potential_available("q", "cpu", "memory") == expected
    assert tree.queues["q"].available(("cpu", "memory")) == expected
