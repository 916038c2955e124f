"""The verdicts of the admission simulator: outcomes, flavors and reasons."""

from dataclasses import replace

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.kueue.admission_simulator import AdmissionSimulator, simulate
from trainstack.kueue.model import (
    AdmittedWorkload,
    Cohort,
    Flavor,
    FlavorFungibility,
    LocalQueue,
    Model,
    Preemption,
    Requirement,
    Taint,
    Toleration,
    Workload,
)
from trainstack.kueue.verdict import PodSetAdmission, Verdict

RED = (Requirement("team", "In", ("red",)),)
TWO = {"a": {"cpu": 4}, "b": {"cpu": 4}}
"""Quotas on two flavors."""


def flavors(verdict: Verdict) -> list[str]:
    """Return the flavor of each pod set's cpu."""
    return [pod_set.flavors["cpu"] for pod_set in verdict.assigned]


def causes(verdict: Verdict) -> list[str]:
    """Return the causes of the verdict's reasons."""
    return [reason.cause for reason in verdict.reasons]


def test_the_verdict_on_a_workload_that_fits_has_its_flavors_and_usage() -> None:
    """The flavors are per pod set; the cluster is idle."""
    found = simulate(make_workload(make_pods(count=2, cpu=1)), make_model(make_queue()))
    assert (found.outcome, found.cluster_queue, found.reasons) == ("fits", "q", ())
    assert found.assigned == (PodSetAdmission("main", 2, {"cpu": "cpu"}),)
    assert (found.usage, found.borrowed) == ({("cpu", "cpu"): 2000}, {})


def test_quota_that_the_queue_lacks_is_borrowed() -> None:
    """The verdict has the borrowed amount."""
    model = make_model(make_queue("q", {"cpu": {"cpu": 2}}, "lab"), make_queue("r", {"cpu": {"cpu": 4}}, "lab"))
    found = simulate(make_workload(make_pods(cpu=5)), model)
    assert (found.outcome, found.borrowed) == ("fits by borrowing", {("cpu", "cpu"): 3000})


def test_a_request_of_zero_borrows_nothing() -> None:
    """Found with seed 1: the queue already borrows a resource of which the workload requests 0."""
    model = make_model(
        make_queue("q", {"f": {"cpu": 4, "memory": 0}}, "lab"), make_queue("r", {"f": {"cpu": 4, "memory": 8}}, "lab")
    )
    borrower = replace(make_admitted("w"), usage={("f", "memory"): 4})
    verdict = simulate(make_workload(make_pods(cpu=1, memory=0)), model, admitted=(borrower,))
    assert (verdict.outcome, verdict.borrowed) == ("fits", {})


def test_the_flavors_of_a_group_are_tried_in_its_order() -> None:
    """Each pod set gets the first flavor that fits in addition to the pod sets before it."""
    model = make_model(make_queue("q", TWO))
    found = simulate(make_workload(make_pods("one", cpu=3), make_pods("two", cpu=3)), model)
    assert flavors(found) == ["a", "b"]


def test_a_pod_set_has_one_flavor() -> None:
    """It requests 5 cpu, and each of the two flavors has 4."""
    found = simulate(make_workload(make_pods(cpu=5, path="run")), make_model(make_queue("q", TWO)))
    assert (found.outcome, causes(found)) == ("never fits", ["quota"])
    (reason,) = found.reasons
    assert (reason.flavor, reason.resource, reason.missing, reason.path) == ("a", "cpu", 1000, "run")
    assert reason.quota_path == "queues.clusterQueues[q].resourceGroups[0].flavors[a].resources[cpu].nominalQuota"


def test_each_resource_group_has_its_own_flavor() -> None:
    """Resources of different groups may have different flavors."""
    queue = make_queue("q", {"x": {"cpu": 4}})
    gpu = make_queue("g", {"y": {"nvidia.com/gpu": 2}})
    both = replace(queue, groups=(*queue.groups, *gpu.groups), quotas={**queue.quotas, **gpu.quotas})
    found = simulate(make_workload(make_pods(cpu=1, gpu=2)), make_model(both))
    assert found.assigned[0].flavors == {"cpu": "x", "nvidia.com/gpu": "y"}


def test_a_covered_number_of_pods_is_counted() -> None:
    """The queue has a quota of `pods`."""
    model = make_model(make_queue("q", {"f": {"cpu": 9, "pods": 2}}))
    assert simulate(make_workload(make_pods(count=2, cpu=1)), model).usage[("f", "pods")] == 2
    assert simulate(make_workload(make_pods(count=3, cpu=1)), model).outcome == "never fits"


def test_every_requested_resource_must_be_covered() -> None:
    """This applies also to a request of 0. The verdict has all uncovered resources."""
    workload = make_workload(make_pods("one", cpu=1, gpu=0), make_pods("two", memory="1Gi"))
    found = simulate(workload, make_model(make_queue()))
    assert [(reason.cause, reason.pod_set, reason.resource) for reason in found.reasons] == [
        ("uncovered", "one", "nvidia.com/gpu"),
        ("uncovered", "two", "memory"),
    ]


def test_a_flavor_without_borrowing_may_be_preferred() -> None:
    """`whenCanBorrow: TryNextFlavor` has this effect; otherwise the first flavor is used."""
    other = make_queue("r", {"a": {"cpu": 9}, "b": {"cpu": 9}}, "lab")
    queue = make_queue("q", {"a": {"cpu": 1}, "b": {"cpu": 4}}, "lab")
    tries_next = replace(queue, fungibility=FlavorFungibility(when_can_borrow="TryNextFlavor"))
    workload = make_workload(make_pods(cpu=3))
    assert (
        flavors(simulate(workload, make_model(queue, other))),
        simulate(workload, make_model(queue, other)).outcome,
    ) == (
        ["a"],
        "fits by borrowing",
    )
    assert flavors(simulate(workload, make_model(tries_next, other))) == ["b"]


def test_an_attempt_that_fails_is_repeated_with_later_flavors() -> None:
    """The first pod set uses quota that only the second can use; its next attempt starts with its next flavor."""
    queue = make_queue("q", {"a": {"cpu": 4}, "b": {"cpu": 4}})
    model = make_model(queue, flavors={"a": Flavor("a", {"pool": "a"}), "b": Flavor("b", {"pool": "b"})})
    on_a = replace(make_pods("two", cpu=3), selector={"pool": "a"})
    found = simulate(make_workload(make_pods("one", cpu=3), on_a), model)
    assert (found.outcome, flavors(found)) == ("fits", ["b", "a"])


def test_kueue_does_not_try_every_combination() -> None:
    """After its last flavor a pod set starts with the first one again, together with the other pod sets."""
    names = {"a": {"cpu": 4}, "b": {"cpu": 1}}
    model = make_model(
        make_queue("q", names), flavors={"a": Flavor("a", {"pool": "a"}), "b": Flavor("b", {"pool": "b"})}
    )
    on_a = replace(make_pods("two", cpu=3), selector={"pool": "a"})
    found = simulate(make_workload(make_pods("one", cpu=2), on_a), model)
    assert found.outcome == "never fits"
    assert found.reasons[0].message == (
        "1 two pod needs 3 cpu, in addition to the 2 of the pod sets before them; cluster queue q has at most 4 of "
        "flavor a (1 missing)"
    )


def test_selectors_and_tolerations_limit_the_flavors() -> None:
    """The verdict has a reason for every excluded flavor."""
    spot = Flavor("a", {"pool": "a"}, (Taint("kind", "spot", "NoSchedule"),))
    model = make_model(make_queue("q", TWO), flavors={"a": spot, "b": Flavor("b", {"pool": "b"})})
    on_a = replace(make_pods(cpu=1), selector={"pool": "a"})
    found = simulate(make_workload(on_a), model)
    assert [(reason.cause, reason.flavor) for reason in found.reasons] == [("taint", "a"), ("affinity", "b")]
    tolerant = replace(on_a, tolerations=(Toleration("kind", "Exists", "", ""),))
    assert flavors(simulate(make_workload(tolerant), model)) == ["a"]


def test_partial_admission_admits_as_many_pods_as_fit() -> None:
    """Down to `minCount`."""
    pods = replace(make_pods(count=9, cpu=1), min_count=2)
    found = simulate(make_workload(pods), make_model(make_queue()))
    assert (found.outcome, found.assigned[0].count, found.usage) == ("fits", 4, {("cpu", "cpu"): 4000})
    fewest = simulate(make_workload(replace(pods, min_count=4)), make_model(make_queue()))
    assert (fewest.outcome, fewest.assigned[0].count) == ("fits", 4)
    assert simulate(make_workload(replace(pods, min_count=5)), make_model(make_queue())).outcome == "never fits"


@pytest.mark.parametrize(
    ("model", "workload", "cause"),
    [
        (make_model(make_queue()), make_workload(queue="other"), "queue-missing"),
        (
            make_model(make_queue(), local_queues={("ns", "q"): LocalQueue("ns", "q", "gone")}),
            make_workload(),
            "cluster-queue-missing",
        ),
        (make_model(make_queue(), flavors={}), make_workload(), "flavor-missing"),
        (make_model(make_queue(checks=("budget",))), make_workload(), "check-inactive"),
        (make_model(make_queue(inactive_message="it is being deleted")), make_workload(), "queue-inactive"),
        (
            make_model(make_queue(cohort="a"), cohorts=(Cohort("a", "b"), Cohort("b", "a"))),
            make_workload(),
            "cohort-cycle",
        ),
        (make_model(make_queue(namespace_selector=None)), make_workload(), "queue-closed"),
        (
            make_model(
                make_queue(namespace_selector=(Requirement("team", "In", ("red",)),)),
                namespaces={"ns": {"team": "blue"}},
            ),
            make_workload(),
            "queue-closed",
        ),
        (make_model(make_queue()), make_workload(replace(make_pods(cpu=1), faults=("too much",))), "pod-refused"),
    ],
)
def test_causes_of_never_fits_other_than_quota(model: Model, workload: Workload, cause: str) -> None:
    """Missing queues, flavors and checks, cycles of cohorts, closed queues, refused pods."""
    found = simulate(workload, model)
    assert (found.outcome, causes(found)[0]) == ("never fits", cause)


def test_a_check_applies_only_to_workloads_on_its_flavors() -> None:
    """A check without flavors applies to all of them, and to a workload without flavors if all checks are like it."""
    active = {"budget": True, "spare": True}
    limited = make_queue("q", TWO, checks=("budget", "spare"), check_flavors={"spare": frozenset("b")})
    model = make_model(limited, active_checks=active)
    small, large = make_workload(make_pods(cpu=4)), make_workload(make_pods("one", cpu=4), make_pods("two", cpu=4))
    assert [simulate(workload, model).checks for workload in (small, large)] == [("budget",), ("budget", "spare")]
    without_requests = make_workload(make_pods())
    unlimited = make_model(make_queue("q", TWO, checks=("budget",)), active_checks=active)
    assert [simulate(without_requests, queues).checks for queues in (model, unlimited)] == [(), ("budget",)]


@pytest.mark.parametrize(
    "model",
    [
        make_model(make_queue(stop_policy="Hold")),
        make_model(make_queue(), local_queues={("ns", "q"): LocalQueue("ns", "q", "q", "HoldAndDrain")}),
    ],
)
def test_workloads_of_a_queue_on_hold_wait(model: Model) -> None:
    """A workload that never fits still has that verdict."""
    assert (simulate(make_workload(), model).outcome, causes(simulate(make_workload(), model))) == (
        "waits",
        ["queue-stopped"],
    )
    assert simulate(make_workload(make_pods(cpu=9)), model).outcome == "never fits"


def test_the_verdict_on_unreadable_queues_is_unknown() -> None:
    """The message names who can read them."""
    found = simulate(make_workload(), make_model(make_queue(), cluster_queues=None))
    assert (found.outcome, causes(found)) == ("unknown", ["unread"])
    assert "the platform's owner can run" in found.reasons[0].message


def test_admission_checks_follow_the_quota() -> None:
    """The verdict lists them."""
    model = make_model(make_queue(checks=("budget",)), active_checks={"budget": True})
    found = simulate(make_workload(), model)
    assert (found.outcome, found.checks) == ("fits", ("budget",))


def test_a_workload_waits_for_used_quota() -> None:
    """The message has the amount that must be released."""
    found = simulate(make_workload(make_pods(cpu=2)), make_model(make_queue()), admitted=[make_admitted("w", cpu=3)])
    assert found.outcome == "waits"
    assert found.reasons[0].message == (
        "1 pod needs 2 cpu; cluster queue q has 1 of flavor cpu available (1 must be released)"
    )


def test_workloads_of_lower_priority_are_preempted() -> None:
    """The queue's policy must allow it. The verdict names the preempted workloads."""
    queue = make_queue(preemption=Preemption(within_cluster_queue="LowerPriority"))
    admitted = [make_admitted("low", cpu=3), make_admitted("high", cpu=1, priority=9)]
    found = simulate(make_workload(make_pods(cpu=2), priority=5), make_model(queue), admitted=admitted)
    assert (found.outcome, found.preempts, found.borrowed) == ("fits by preempting", ("ns/low",), {})


def test_borrowing_does_not_hide_used_quota() -> None:
    """With `BorrowingOverPreemption` Kueue nominates a workload although others use its quota, and then skips it."""
    model = make_model(
        make_queue(
            "q",
            {"cpu": {"cpu": 0, "memory": 2}},
            "lab",
            preemption=Preemption(reclaim_within_cohort="Any"),
            fungibility=FlavorFungibility("TryNextFlavor", "TryNextFlavor", "BorrowingOverPreemption"),
        ),
        make_queue("r", {"cpu": {"cpu": 4, "memory": 2}}, "lab"),
    )
    borrower = make_workload(make_pods(memory=4), queue="r", name="borrower")
    admitted = [AdmittedWorkload(borrower, "r", {("cpu", "memory"): 4})]
    workload = make_workload(make_pods(cpu=1, memory=1))
    found = simulate(workload, model, admitted=admitted)
    assert (found.outcome, causes(found), found.preempts) == ("waits", ["in-use"], ())
    assert simulate(workload, model).outcome == "fits by borrowing"


def test_the_verdict_with_a_topology_is_unknown() -> None:
    """The quota is available, but the nodes are unknown."""
    model = make_model(make_queue(), flavors={"cpu": Flavor("cpu", {"pool": "a"}, topology="racks")})
    found = simulate(make_workload(), model)
    assert (found.outcome, causes(found), flavors(found)) == ("unknown", ["topology"], ["cpu"])


def test_the_quota_of_a_worker_cluster_is_unknown() -> None:
    """It matters only if this cluster's quota suffices: a run that this cluster never admits is not dispatched."""
    model = replace(
        make_model(make_queue(checks=("west",))), active_checks={"west": True}, multikueue_checks=frozenset({"west"})
    )
    found = simulate(make_workload(), model)
    assert (found.outcome, causes(found), found.checks) == ("unknown", ["dispatched"], ("west",))
    assert simulate(make_workload(make_pods(cpu=99, memory=1)), model).outcome == "never fits"


def test_pods_and_flavors_with_a_topology_match() -> None:
    """Pods without a topology request cannot use a flavor with a topology, unless the queue has no other flavor."""
    plain = make_workload()
    requesting = make_workload(replace(make_pods(cpu=1), requests_topology=True))
    model = make_model(make_queue("q", {"a": {"cpu": 1}, "b": {"cpu": 4}}))
    mixed = replace(model, flavors={"a": Flavor("a"), "b": Flavor("b", topology="racks")})
    large = make_workload(make_pods(cpu=4))
    assert [reason.message for reason in simulate(requesting, model).reasons] == [
        f"the pod requests a topology, but flavor {name} has none" for name in ("a", "b")
    ]
    assert simulate(requesting, mixed).assigned[0].flavors == {"cpu": "b"}
    assert simulate(plain, mixed).outcome == "fits"
    assert [(reason.cause, reason.flavor) for reason in simulate(large, mixed).reasons] == [("quota", "a")]
    tainted = Flavor("a", taints=(Taint("x", "", "NoSchedule"),))
    unsuitable = replace(mixed, flavors={"a": tainted, "b": Flavor("b", topology="racks")})
    assert [reason.message for reason in simulate(plain, unsuitable).reasons] == [
        "flavor a has the taint x:NoSchedule, which the pod does not tolerate",
        "flavor b requires pods that request a topology; the pod does not",
    ]


def test_a_verdict_does_not_change_the_simulator() -> None:
    """Simulated evictions, remedies and attempts are undone."""
    queue = make_queue(preemption=Preemption(within_cluster_queue="LowerPriority"), cohort="lab")
    workloads = [make_workload(make_pods(cpu=number), priority=5) for number in (1, 4, 9)]
    simulator = AdmissionSimulator(make_model(queue), [make_admitted("low", cpu=3)])
    first = [simulator.verdict(workload) for workload in workloads]
    assert [verdict.outcome for verdict in first] == ["fits", "fits by preempting", "never fits"]
    assert [simulator.verdict(workload) for workload in workloads] == first
