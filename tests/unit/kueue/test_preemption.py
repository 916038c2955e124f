"""The workloads that are preempted for a workload that does not fit."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.model import (
    AdmittedWorkload,
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


def evicted(workload: Workload, model: Model, *admitted: AdmittedWorkload) -> list[str]:
    """Return the sorted names of the preempted workloads."""
    return sorted(key.partition("/")[2] for key in simulate(workload, model, admitted=admitted).preempts)


def make_pair(own: int, other: int, preemption: Preemption = RECLAIMS) -> Model:
    """Return queues `q` and `r` in one cohort with these amounts of cpu; `q` preempts."""
    queue = make_queue("q", {"cpu": {"cpu": own}}, "lab", preemption=preemption)
    return make_model(queue, make_queue("r", {"cpu": {"cpu": other}}, "lab"))


def test_the_lowest_priority_is_preempted_first_and_of_equal_ones_the_latest() -> None:
    """As few workloads as needed are preempted."""
    workload = make_workload(make_pods(cpu=1), priority=9)
    admitted = [
        make_admitted("low", priority=1, reserved_at=1.0),
        make_admitted("old", priority=2, reserved_at=2.0),
        make_admitted("new", priority=2, reserved_at=3.0),
        make_admitted("other", priority=3, reserved_at=4.0),
    ]
    model = make_model(make_queue(preemption=LOWER))
    assert evicted(workload, model, *admitted) == ["low"]
    assert evicted(replace(workload, pod_sets=(make_pods(cpu=2),)), model, *admitted) == ["low", "new"]


def test_a_candidate_that_is_not_needed_is_kept() -> None:
    """A small candidate was selected first, and the large one after it suffices."""
    workload = make_workload(make_pods(cpu=3), priority=9)
    admitted = [make_admitted("small", cpu=1, priority=1), make_admitted("large", cpu=3, priority=2)]
    assert evicted(workload, make_model(make_queue(preemption=LOWER)), *admitted) == ["large"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Never", []),
        ("LowerPriority", ["low"]),
        ("LowerOrNewerEqualPriority", ["low", "newer"]),
    ],
)
def test_the_policy_within_a_queue_limits_the_candidates(policy: str, expected: list[str]) -> None:
    """Of equal priority only newer workloads are candidates, of higher priority none."""
    admitted = [
        make_admitted("low", cpu=1, priority=1),
        make_admitted("newer", cpu=1, priority=5, created=9.0),
        make_admitted("older", cpu=1, priority=5, created=1.0),
        make_admitted("higher", cpu=1, priority=9, created=9.0),
    ]
    model = make_model(make_queue(preemption=Preemption(within_cluster_queue=policy)))  # type: ignore[arg-type]
    cpu = 2 if policy == "LowerOrNewerEqualPriority" else 1
    assert evicted(make_workload(make_pods(cpu=cpu), priority=5, created=5.0), model, *admitted) == expected
    more = make_workload(make_pods(cpu=cpu + 1), priority=5, created=5.0)
    assert evicted(more, model, *admitted) == []


def test_lent_quota_is_reclaimed() -> None:
    """`Any` reclaims it from borrowers of any priority, `LowerPriority` only from lower ones.

    Nothing is reclaimed from a queue within its own quota.
    """
    admitted = make_admitted("borrower", "r", cpu=3, priority=9)
    workload = make_workload(make_pods(cpu=2))
    assert evicted(workload, make_pair(2, 2), admitted) == ["borrower"]
    lower = Preemption(reclaim_within_cohort="LowerPriority")
    assert evicted(workload, make_pair(2, 2, lower), admitted) == []
    assert evicted(
        workload, make_pair(2, 2, lower), replace(admitted, workload=replace(admitted.workload, priority=-1))
    ) == ["borrower"]
    assert (
        evicted(replace(workload, pod_sets=(make_pods(cpu=3),)), make_pair(2, 2), make_admitted("own", "r", cpu=2))
        == []
    )


def test_a_borrowing_queue_preempts_others_only_with_borrow_within_cohort() -> None:
    """It preempts only workloads of lower priority, up to the threshold."""
    workload = make_workload(make_pods(cpu=3), priority=9)
    admitted = make_admitted("borrower", "r", cpu=3, priority=5)
    assert evicted(workload, make_pair(2, 2), admitted) == []
    preemption = replace(RECLAIMS, borrow_within_cohort=True)
    assert evicted(workload, make_pair(2, 2, preemption), admitted) == ["borrower"]
    assert evicted(workload, make_pair(2, 2, replace(preemption, borrow_threshold=5)), admitted) == ["borrower"]
    assert evicted(workload, make_pair(2, 2, replace(preemption, borrow_threshold=4)), admitted) == []
    assert evicted(replace(workload, priority=5), make_pair(2, 2, preemption), admitted) == []


def test_a_queue_that_no_longer_borrows_is_not_preempted_further() -> None:
    """After the first of two borrowers the queue is within its quota; without other quota the workload waits."""
    workload = make_workload(make_pods(cpu=3))
    admitted = [make_admitted("one", "r", cpu=2, reserved_at=1.0), make_admitted("two", "r", cpu=2, reserved_at=2.0)]
    assert evicted(workload, make_pair(3, 2), *admitted) == ["two"]
    assert simulate(workload, make_pair(3, 2), admitted=admitted).outcome == "fits by preempting"
    larger = make_model(
        make_queue("q", {"cpu": {"cpu": 3}}, "lab", preemption=RECLAIMS),
        make_queue("r", {"cpu": {"cpu": 2}}, "lab"),
    )
    full = [make_admitted("own", "q", cpu=1), make_admitted("one", "r", cpu=2), make_admitted("two", "r", cpu=2)]
    assert simulate(workload, larger, admitted=full).outcome == "waits"


def test_in_a_tree_the_nearer_queue_reclaims_the_quota() -> None:
    """A borrower outside the queue's cohort is preempted, with any priority."""
    cohorts = (Cohort("a", "root"), Cohort("b", "root"))
    model = make_model(
        make_queue("q", {"cpu": {"cpu": 1}}, "a", preemption=replace(RECLAIMS, reclaim_within_cohort="Any")),
        make_queue("s", {"cpu": {"cpu": 3}}, "a"),
        make_queue("r", {"cpu": {"cpu": 0}}, "b"),
        cohorts=cohorts,
    )
    admitted = make_admitted("far", "r", cpu=4, priority=9)
    assert evicted(make_workload(make_pods(cpu=3)), model, admitted) == ["far"]


def test_evicted_workloads_are_preempted_before_all_others() -> None:
    """Their quota is released anyway."""
    admitted = [
        make_admitted("low", cpu=2, priority=1),
        make_admitted("evicted", cpu=2, priority=8, is_evicted=True),
    ]
    assert evicted(
        make_workload(make_pods(cpu=2), priority=9), make_model(make_queue(preemption=LOWER)), *admitted
    ) == ["evicted"]


def make_two_flavors(**changes: Any) -> ClusterQueue:
    """Return a queue with 2 cpu on each of `a` and `b`."""
    return make_queue("q", {"a": {"cpu": 2}, "b": {"cpu": 2}}, **changes)


def test_a_free_flavor_has_precedence_over_preemption_on_an_earlier_one() -> None:
    """With `whenCanPreempt: MayStopSearch` it has none."""
    workload = make_workload(make_pods(cpu=2), priority=9)
    admitted = make_admitted("low", flavor="a", cpu=2, priority=1)
    model = make_model(make_two_flavors(preemption=LOWER))
    assert simulate(workload, model, admitted=[admitted]).outcome == "fits"
    stops = make_model(
        make_two_flavors(preemption=LOWER, fungibility=FlavorFungibility(when_can_preempt="MayStopSearch")),
        flavors={"a": Flavor("a"), "b": Flavor("b")},
    )
    found = simulate(workload, stops, admitted=[admitted])
    assert (found.outcome, found.preempts, found.assigned[0].flavors) == (
        "fits by preempting",
        ("ns/low",),
        {"cpu": "a"},
    )


def test_reclaiming_lent_quota_is_preferred_to_preemption_in_the_own_queue() -> None:
    """Of two flavors with preemption, the one that preempts only borrowers is used."""
    both = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
    names = {"a": {"cpu": 2}, "b": {"cpu": 2}}
    model = make_model(make_queue("q", names, "lab", preemption=both), make_queue("r", {"b": {"cpu": 0}}, "lab"))
    admitted = [make_admitted("own", "q", "a", cpu=2, priority=-1), make_admitted("borrower", "r", "b", cpu=2)]
    found = simulate(make_workload(make_pods(cpu=2)), model, admitted=admitted)
    assert (found.preempts, found.assigned[0].flavors) == (("ns/borrower",), {"cpu": "b"})


def test_a_queue_that_would_borrow_does_not_preempt_borrowers() -> None:
    """A queue that uses its whole quota cannot preempt workloads that borrow as it would itself."""
    both = Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")
    model = make_model(
        make_queue("q", {"cpu": {"cpu": 2}}, "lab", preemption=both),
        make_queue("r", {"cpu": {"cpu": 0}}, "lab"),
        make_queue("s", {"cpu": {"cpu": 2}}, "lab"),
    )
    admitted = [make_admitted("own", "q", cpu=2), make_admitted("borrower", "r", cpu=2)]
    assert simulate(make_workload(make_pods(cpu=1), priority=0), model, admitted=admitted).outcome == "waits"
    assert evicted(make_workload(make_pods(cpu=2), priority=5), model, *admitted) == ["own"]
