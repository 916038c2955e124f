"""Who has to go for a workload that does not fit."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.checks.admission.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.model import (
    Admitted,
    ClusterQueue,
    Cohort,
    Flavor,
    FlavorFungibility,
    Model,
    Preemption,
    Workload,
)

LOWER = Preemption(within_cluster_queue="LowerPriority")
RECLAIMS = Preemption(reclaim_within_cohort="Any")


def evicted(asked: Workload, model: Model, *using: Admitted) -> list[str]:
    """The names of those that would be evicted, sorted."""
    return sorted(each.partition("/")[2] for each in simulate(asked, model, admitted=using).preempts)


def make_pair(own: int, theirs: int, preemption: Preemption = RECLAIMS) -> Model:
    """Queues `q` and `r` of one cohort with so much cpu; `q` preempts."""
    queue = make_queue("q", {"cpu": {"cpu": own}}, "lab", preemption=preemption)
    return make_model(queue, make_queue("r", {"cpu": {"cpu": theirs}}, "lab"))


def test_the_lowest_priority_goes_first_and_of_equals_the_latest() -> None:
    """As few as it takes."""
    asked = make_workload(make_pods(cpu=1), priority=9)
    using = [
        make_admitted("low", priority=1, reserved=1.0),
        make_admitted("old", priority=2, reserved=2.0),
        make_admitted("new", priority=2, reserved=3.0),
        make_admitted("other", priority=3, reserved=4.0),
    ]
    model = make_model(make_queue(preemption=LOWER))
    assert evicted(asked, model, *using) == ["low"]
    assert evicted(replace(asked, pod_sets=(make_pods(cpu=2),)), model, *using) == ["low", "new"]


def test_who_turns_out_not_to_be_needed_stays() -> None:
    """A small one was taken first, and the large one after it suffices."""
    asked = make_workload(make_pods(cpu=3), priority=9)
    using = [make_admitted("small", cpu=1, priority=1), make_admitted("large", cpu=3, priority=2)]
    assert evicted(asked, make_model(make_queue(preemption=LOWER)), *using) == ["large"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Never", []),
        ("LowerPriority", ["low"]),
        ("LowerOrNewerEqualPriority", ["low", "newer"]),
    ],
)
def test_within_a_queue_its_policy_says_who_may_be_evicted(policy: str, expected: list[str]) -> None:
    """Of equal priority only those that came later, of higher priority nobody."""
    using = [
        make_admitted("low", cpu=1, priority=1),
        make_admitted("newer", cpu=1, priority=5, created=9.0),
        make_admitted("older", cpu=1, priority=5, created=1.0),
        make_admitted("higher", cpu=1, priority=9, created=9.0),
    ]
    model = make_model(make_queue(preemption=Preemption(within_cluster_queue=policy)))  # type: ignore[arg-type]
    cpu = 2 if policy == "LowerOrNewerEqualPriority" else 1
    assert evicted(make_workload(make_pods(cpu=cpu), priority=5, created=5.0), model, *using) == expected
    more = make_workload(make_pods(cpu=cpu + 1), priority=5, created=5.0)
    assert evicted(more, model, *using) == []


def test_what_was_lent_is_reclaimed() -> None:
    """Whatever the borrower's priority with `Any`; only lower ones with `LowerPriority`; nothing from who is within
    his own.
    """
    using = make_admitted("borrower", "r", cpu=3, priority=9)
    asked = make_workload(make_pods(cpu=2))
    assert evicted(asked, make_pair(2, 2), using) == ["borrower"]
    lower = Preemption(reclaim_within_cohort="LowerPriority")
    assert evicted(asked, make_pair(2, 2, lower), using) == []
    assert evicted(asked, make_pair(2, 2, lower), replace(using, workload=replace(using.workload, priority=-1))) == [
        "borrower"
    ]
    assert (
        evicted(replace(asked, pod_sets=(make_pods(cpu=3),)), make_pair(2, 2), make_admitted("own", "r", cpu=2)) == []
    )


def test_who_borrows_himself_evicts_others_only_by_leave() -> None:
    """`borrowWithinCohort`, and then only those of lower priority, up to the threshold."""
    asked = make_workload(make_pods(cpu=3), priority=9)
    using = make_admitted("borrower", "r", cpu=3, priority=5)
    assert evicted(asked, make_pair(2, 2), using) == []
    leave = replace(RECLAIMS, borrow_within_cohort=True)
    assert evicted(asked, make_pair(2, 2, leave), using) == ["borrower"]
    assert evicted(asked, make_pair(2, 2, replace(leave, borrow_threshold=5)), using) == ["borrower"]
    assert evicted(asked, make_pair(2, 2, replace(leave, borrow_threshold=4)), using) == []
    assert evicted(replace(asked, priority=5), make_pair(2, 2, leave), using) == []


def test_a_queue_stops_losing_once_it_borrows_no_more() -> None:
    """Of two borrowers one suffices to be within its own; the rest has to come from elsewhere, or it waits."""
    asked = make_workload(make_pods(cpu=3))
    using = [make_admitted("one", "r", cpu=2, reserved=1.0), make_admitted("two", "r", cpu=2, reserved=2.0)]
    assert evicted(asked, make_pair(3, 2), *using) == ["two"]
    assert simulate(asked, make_pair(3, 2), admitted=using).outcome == "fits by preempting"
    far = make_model(
        make_queue("q", {"cpu": {"cpu": 3}}, "lab", preemption=RECLAIMS),
        make_queue("r", {"cpu": {"cpu": 2}}, "lab"),
    )
    whole = [make_admitted("own", "q", cpu=1), make_admitted("one", "r", cpu=2), make_admitted("two", "r", cpu=2)]
    assert simulate(asked, far, admitted=whole).outcome == "waits"


def test_in_a_tree_who_stands_nearer_to_the_quota_takes_it_back() -> None:
    """Whoever borrows from this queue's own cohort from outside it goes, whatever his priority."""
    cohorts = (Cohort("a", "root"), Cohort("b", "root"))
    model = make_model(
        make_queue("q", {"cpu": {"cpu": 1}}, "a", preemption=replace(RECLAIMS, reclaim_within_cohort="Any")),
        make_queue("s", {"cpu": {"cpu": 3}}, "a"),
        make_queue("r", {"cpu": {"cpu": 0}}, "b"),
        cohorts=cohorts,
    )
    using = make_admitted("far", "r", cpu=4, priority=9)
    assert evicted(make_workload(make_pods(cpu=3)), model, using) == ["far"]


def test_those_told_to_go_are_taken_before_all_others() -> None:
    """They go anyway."""
    using = [
        make_admitted("low", cpu=2, priority=1),
        make_admitted("going", cpu=2, priority=8, evicted=True),
    ]
    assert evicted(make_workload(make_pods(cpu=2), priority=9), make_model(make_queue(preemption=LOWER)), *using) == [
        "going"
    ]


def make_two_flavors(**changes: Any) -> ClusterQueue:
    """A queue with 2 cpu on each of `a` and `b`."""
    return make_queue("q", {"a": {"cpu": 2}, "b": {"cpu": 2}}, **changes)


def test_a_free_flavor_comes_before_eviction_on_an_earlier_one() -> None:
    """Unless `whenCanPreempt: MayStopSearch`."""
    asked = make_workload(make_pods(cpu=2), priority=9)
    using = make_admitted("low", flavor="a", cpu=2, priority=1)
    model = make_model(make_two_flavors(preemption=LOWER))
    assert simulate(asked, model, admitted=[using]).outcome == "fits"
    stops = make_model(
        make_two_flavors(preemption=LOWER, fungibility=FlavorFungibility(when_can_preempt="MayStopSearch")),
        flavors={"a": Flavor("a"), "b": Flavor("b")},
    )
    found = simulate(asked, stops, admitted=[using])
    assert (found.outcome, found.preempts, found.assigned[0].flavors) == (
        "fits by preempting",
        ("ns/low",),
        {"cpu": "a"},
    )


def test_taking_back_what_was_lent_is_preferred_to_evicting_in_ones_own_queue() -> None:
    """Of two flavors on which somebody would have to go, the one where only borrowers do."""
    both = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
    names = {"a": {"cpu": 2}, "b": {"cpu": 2}}
    model = make_model(make_queue("q", names, "lab", preemption=both), make_queue("r", {"b": {"cpu": 0}}, "lab"))
    using = [make_admitted("own", "q", "a", cpu=2, priority=-1), make_admitted("borrower", "r", "b", cpu=2)]
    found = simulate(make_workload(make_pods(cpu=2)), model, admitted=using)
    assert (found.preempts, found.assigned[0].flavors) == (("ns/borrower",), {"cpu": "b"})


def test_who_would_borrow_takes_nothing_from_others_without_leave() -> None:
    """A queue that uses all its own gets no more by evicting those who borrow as it would itself."""
    both = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
    model = make_model(
        make_queue("q", {"cpu": {"cpu": 2}}, "lab", preemption=both),
        make_queue("r", {"cpu": {"cpu": 0}}, "lab"),
        make_queue("s", {"cpu": {"cpu": 2}}, "lab"),
    )
    using = [make_admitted("own", "q", cpu=2), make_admitted("borrower", "r", cpu=2)]
    assert simulate(make_workload(make_pods(cpu=1), priority=0), model, admitted=using).outcome == "waits"
    assert evicted(make_workload(make_pods(cpu=2), priority=5), model, *using) == ["own"]
