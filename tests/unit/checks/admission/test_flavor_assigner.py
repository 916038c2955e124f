"""How flavors are compared, and what an attempt remembers for the next one."""

import pytest

from tests.unit.checks.admission.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.flavor_assigner import GranularMode, Mode, assign, preferred
from trainstack.kueue.model import Flavor, FlavorFungibility
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
    """By mode and then by level; with `BorrowingOverPreemption` by level first; what does not fit is never better."""
    assert preferred(one, other, fungibility) is expected


def nobody(*_: object) -> tuple[Mode, int]:
    """There is nobody to evict."""
    return Mode.NO_CANDIDATES, 0


def test_an_attempt_remembers_the_last_flavor_that_it_tried() -> None:
    """-1 after the last one of the group; and where flavors are left, there is more to try."""
    names = {"a": {"cpu": 4}, "b": {"cpu": 4}}
    snapshot = Snapshot(make_model(make_queue("q", names), flavors={"a": Flavor("a", {"pool": "a"}), "b": Flavor("b")}))
    first = assign(make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], nobody)
    assert (first.mode, first.tried, first.unfinished) == (Mode.FIT, ({"cpu": 0},), True)
    second = assign(make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], nobody, tried=first.tried)
    assert (second.pod_sets[0].flavors["cpu"].flavor, second.tried, second.unfinished) == ("b", ({"cpu": -1},), False)
    third = assign(make_workload(make_pods(cpu=3)), snapshot.cluster_queues["q"], nobody, tried=second.tried)
    assert third.pod_sets[0].flavors["cpu"].flavor == "a"


def test_what_others_use_is_contested() -> None:
    """As opposed to what is free, and to what there never is."""
    snapshot = Snapshot(
        make_model(make_queue("q", {"a": {"cpu": 4, "memory": 9}})), [make_admitted("w", flavor="a", cpu=2)]
    )
    found = assign(make_workload(make_pods(cpu=3, memory=5)), snapshot.cluster_queues["q"], nobody)
    assert (found.mode, found.contested()) == (Mode.NO_CANDIDATES, {("a", "cpu")})
    assert found.usage == {("a", "cpu"): 3000, ("a", "memory"): 5}


def test_nobody_after_a_pod_set_that_is_refused_is_served() -> None:
    """Kueue ends the attempt there."""
    snapshot = Snapshot(make_model(make_queue()))
    found = assign(
        make_workload(make_pods("one", cpu=1), make_pods("two", cpu=9), make_pods("three", cpu=1)),
        snapshot.cluster_queues["q"],
        nobody,
    )
    assert [(each.name, each.mode) for each in found.pod_sets] == [
        ("one", Mode.FIT),
        ("two", Mode.NO_FIT),
    ]


def test_pods_that_request_nothing_need_nothing() -> None:
    """They fit beside anything."""
    snapshot = Snapshot(make_model(make_queue()))
    found = assign(make_workload(make_pods()), snapshot.cluster_queues["q"], nobody)
    assert (found.mode, found.usage, found.pod_sets[0].flavors) == (Mode.FIT, {}, {})


def test_in_a_queue_of_topologies_everybody_asks_for_one() -> None:
    """Elsewhere their flavors are for those alone who ask."""
    flavors = {"a": Flavor("a", topology="racks"), "b": Flavor("b")}
    quotas = {"a": {"cpu": 4}, "b": {"cpu": 4}}
    mixed = Snapshot(make_model(make_queue("q", quotas), flavors=flavors))
    only = Snapshot(make_model(make_queue("q", {"a": {"cpu": 4}}), flavors=flavors))
    asked = make_workload(make_pods(cpu=1))
    assert assign(asked, mixed.cluster_queues["q"], nobody).pod_sets[0].flavors["cpu"].flavor == "b"
    assert assign(asked, only.cluster_queues["q"], nobody).pod_sets[0].flavors["cpu"].flavor == "a"
