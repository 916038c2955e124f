"""The comparison of flavors, and the state that an attempt keeps for the next one."""

from dataclasses import replace

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.differences import RELEASES
from trainstack.kueue.flavor_assigner import GranularMode, Mode, assign_flavors, is_preferred
from trainstack.kueue.model import Flavor, FlavorFungibility, Requirement
from trainstack.kueue.snapshot import Snapshot

TRIES = FlavorFungibility("TryNextFlavor", "TryNextFlavor")
BORROWING_FIRST = FlavorFungibility("TryNextFlavor", "TryNextFlavor", "BorrowingOverPreemption")
PREEMPTION_FIRST = FlavorFungibility("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing")


@pytest.mark.parametrize(
    ("one", "other", "fungibility", "expected"),
    [
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.PREEMPT, 0), TRIES, True),
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.PREEMPT, 0), PREEMPTION_FIRST, True),
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.PREEMPT, 0), BORROWING_FIRST, False),
        (GranularMode(Mode.PREEMPT, 0), GranularMode(Mode.FIT, 1), BORROWING_FIRST, True),
        (GranularMode(Mode.RECLAIM, 0), GranularMode(Mode.PREEMPT, 0), BORROWING_FIRST, True),
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.FIT, 2), TRIES, True),
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.FIT, 1), TRIES, False),
        (GranularMode(Mode.FIT, 1), GranularMode(Mode.FIT, 1), BORROWING_FIRST, False),
        (GranularMode(Mode.NO_FIT, 0), GranularMode(Mode.NO_CANDIDATES, 2), BORROWING_FIRST, False),
        (GranularMode(Mode.NO_CANDIDATES, 2), GranularMode(Mode.NO_FIT, 0), BORROWING_FIRST, True),
        (GranularMode(Mode.NO_FIT, 0), GranularMode(Mode.NO_FIT, 2), TRIES, False),
    ],
)
def test_which_of_two_flavors_is_better(
    one: GranularMode, other: GranularMode, fungibility: FlavorFungibility, expected: bool
) -> None:
    """The mode decides, then the level; with `BorrowingOverPreemption` the level first. A flavor must fit."""
    assert is_preferred(one, other, fungibility) is expected


def no_candidates(*_: object) -> tuple[Mode, int]:
    """Replace the search for preemption candidates by one that finds none."""
    return Mode.NO_CANDIDATES, 0


def test_an_attempt_keeps_the_last_flavor_that_it_tried() -> None:
    """The index is -1 after the last flavor of the group; an attempt is unfinished if flavors are left."""
    names = {"a": {"cpu": 4}, "b": {"cpu": 4}}
    snapshot = Snapshot(make_model(make_queue("q", names), flavors={"a": Flavor("a", {"pool": "a"}), "b": Flavor("b")}))
    first = assign_flavors(make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], no_candidates)
    assert (first.mode, first.tried_flavors, first.has_untried_flavors) == (Mode.FIT, ({"cpu": 0},), True)
    second = assign_flavors(
        make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], no_candidates, tried_flavors=first.tried_flavors
    )
    assert (second.pod_sets[0].flavors["cpu"].flavor, second.tried_flavors, second.has_untried_flavors) == (
        "b",
        ({"cpu": -1},),
        False,
    )
    third = assign_flavors(
        make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], no_candidates, tried_flavors=second.tried_flavors
    )
    assert third.pod_sets[0].flavors["cpu"].flavor == "a"


def test_used_quota_is_contested() -> None:
    """Free quota and quota that does not exist are not."""
    snapshot = Snapshot(
        make_model(make_queue("q", {"a": {"cpu": 4, "memory": 9}})), [make_admitted("w", flavor="a", cpu=2)]
    )
    found = assign_flavors(make_workload(make_pods(cpu=3, memory=5)), snapshot.cluster_queues["q"], no_candidates)
    assert (found.mode, found.contested_resources()) == (Mode.NO_CANDIDATES, {("a", "cpu")})
    assert found.usage == {("a", "cpu"): 3000, ("a", "memory"): 5}


def test_pod_sets_after_a_refused_one_are_not_assigned() -> None:
    """Kueue ends the attempt at the refused pod set."""
    snapshot = Snapshot(make_model(make_queue()))
    found = assign_flavors(
        make_workload(make_pods("one", cpu=1), make_pods("two", cpu=9), make_pods("three", cpu=1)),
        snapshot.cluster_queues["q"],
        no_candidates,
    )
    assert [(pod_set.name, pod_set.mode) for pod_set in found.pod_sets] == [
        ("one", Mode.FIT),
        ("two", Mode.NO_FIT),
    ]


def test_pods_without_requests_always_fit() -> None:
    snapshot = Snapshot(make_model(make_queue()))
    found = assign_flavors(make_workload(make_pods()), snapshot.cluster_queues["q"], no_candidates)
    assert (found.mode, found.usage, found.pod_sets[0].flavors) == (Mode.FIT, {}, {})


def test_all_pods_may_use_the_topologies_of_a_queue_without_other_flavors() -> None:
    """In other queues only pods that request a topology may use these flavors."""
    flavors = {"a": Flavor("a", topology="racks"), "b": Flavor("b")}
    quotas = {"a": {"cpu": 4}, "b": {"cpu": 4}}
    mixed = Snapshot(make_model(make_queue("q", quotas), flavors=flavors))
    only = Snapshot(make_model(make_queue("q", {"a": {"cpu": 4}}), flavors=flavors))
    workload = make_workload(make_pods(cpu=1))
    assert assign_flavors(workload, mixed.cluster_queues["q"], no_candidates).pod_sets[0].flavors["cpu"].flavor == "b"
    assert assign_flavors(workload, only.cluster_queues["q"], no_candidates).pod_sets[0].flavors["cpu"].flavor == "a"


@pytest.mark.parametrize(
    ("cpu", "flavor"),
    [(3, "a"), (5, None)],
)
def test_an_unreadable_affinity_ends_the_search(cpu: int, flavor: str | None) -> None:
    """Only a flavor at which the search ended before is assigned, not a later one that would fit."""
    quotas = {"a": {"cpu": 4}, "b": {"cpu": 8}, "c": {"cpu": 8}}
    flavors = {"a": Flavor("a"), "b": Flavor("b", {"size": "64"}), "c": Flavor("c")}
    snapshot = Snapshot(make_model(make_queue("q", quotas), flavors=flavors, release=RELEASES["v0.19"]))
    pods = replace(make_pods(cpu=cpu), affinity=((Requirement("size", "Gt", ("40Gi",)),),))
    found = assign_flavors(make_workload(pods), snapshot.cluster_queues["q"], no_candidates)
    assigned = found.pod_sets[0].flavors.get("cpu")
    assert (assigned and assigned.flavor) == flavor
