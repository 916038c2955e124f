"""The effects of a Workload's status: ended pods, evictions, backoff, failed checks."""

from typing import Any

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.from_objects import read_model, read_queue_state
from trainstack.kueue.model import AdmittedWorkload, Model, Preemption, Workload
from trainstack.kueue.scheduler import Scheduler
from trainstack.kueue.workloads import read_kueue_workload

Body = dict[str, Any]
SECOND = "2026-01-01T00:00:{:02}Z"


def make_body(name: str = "w", count: int = 3, uid: str = "", minimum: int | None = None, **status: Any) -> Body:
    """Return a Workload with `count` pods of 1 cpu in queue `q`, created at second 10, with this status."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    pods = {"name": "main", "count": count, "template": template}
    if minimum is not None:
        pods["minCount"] = minimum
    metadata = {"name": name, "namespace": "ns", "uid": uid, "creationTimestamp": SECOND.format(10)}
    spec = {"queueName": "q", "podSets": [pods]}
    return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": status}


def condition(kind: str, second: int, reason: str = "", status: str = "True") -> Body:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": SECOND.format(second)}


def admission(count: int = 3) -> Body:
    usage = {"name": "main", "count": count, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": str(count)}}
    return {"clusterQueue": "q", "podSetAssignments": [usage]}


def read(body: Body, model: Model | None = None) -> Workload:
    """Return the workload, admitted or not."""
    found = read_kueue_workload(body, model or make_model(make_queue()))
    assert found is not None
    return found.workload if isinstance(found, AdmittedWorkload) else found


def gated(**gates: bool) -> Model:
    """Return one queue with 4 cpu, and Kueue with these feature gates."""
    configured = read_model((), kueue_configuration={"featureGates": gates})
    return make_model(make_queue(), gates=configured.gates)


ENDED = [{"name": "main", "count": 2}]


def test_a_pending_workload_needs_no_quota_for_ended_pods() -> None:
    """Source: totalRequestsFromPodSets, workload.go."""
    body = make_body(count=6, reclaimablePods=ENDED)
    found = simulate(read(body), make_model(make_queue()))
    assert (found.outcome, found.usage, found.assigned[0].count) == ("fits", {("cpu", "cpu"): 4000}, 4)
    without = gated(ReclaimablePods=False)
    assert simulate(read(body, without), without).outcome == "never fits"


def test_an_admitted_workload_uses_no_quota_for_ended_pods_also_once_it_is_evicted() -> None:
    """Source: totalRequestsFromAdmission, workload.go; once evicted, it needs only the remaining pods."""
    body = make_body(conditions=[condition("QuotaReserved", 20)], admission=admission(), reclaimablePods=ENDED)
    found = read_kueue_workload(body, make_model(make_queue()))
    assert isinstance(found, AdmittedWorkload)
    assert (found.usage, found.workload.pod_sets[0].requests) == ({("cpu", "cpu"): 1000}, {"cpu": 1000})
    kept = read_kueue_workload(body, gated(ReclaimablePods=False))
    assert isinstance(kept, AdmittedWorkload)
    assert kept.usage == {("cpu", "cpu"): 3000}


def test_partial_admission_counts_from_all_pods() -> None:
    """Source: NewPodSetReducer, podset_reducer.go, which does not subtract ended pods.

    Of 8 pods 2 have ended; 6 do not fit, and of 8 down to 2 at most 4 do.
    """
    found = simulate(read(make_body(count=8, minimum=2, reclaimablePods=ENDED)), make_model(make_queue()))
    assert (found.outcome, found.assigned[0].count) == ("fits", 4)


def test_partial_admission_may_be_off() -> None:
    """Source: getInitialAssignments, scheduler.go."""
    model = gated(PartialAdmission=False)
    assert simulate(read(make_body(count=8, minimum=2), model), model).outcome == "never fits"


@pytest.mark.parametrize(
    ("reason", "timestamp", "second"),
    [
        ("PodsReadyTimeout", None, 30),
        ("PodsReadyTimeout", "Eviction", 30),
        ("PodsReadyTimeout", "Creation", 10),
        ("AdmissionCheck", "Creation", 30),
        ("Preempted", None, 10),
    ],
)
def test_some_evictions_move_a_workload_to_the_end_of_its_priority(
    reason: str, timestamp: str | None, second: int
) -> None:
    """Source: GetQueueOrderTimestamp, workload.go."""
    ready = {"waitForPodsReady": {"requeuingStrategy": {"timestamp": timestamp} if timestamp else {}}}
    bodies = [
        make_body("other", count=4),
        make_body("evicted", count=4, conditions=[condition("Evicted", 30, reason)]),
    ]
    bodies[0]["metadata"]["creationTimestamp"] = SECOND.format(20)
    found = read_queue_state(bodies, kueue_configuration=ready)
    created = {workload.name: workload.created for workload in found.pending}
    assert created["evicted"] - created["other"] == second - 20
    scheduler = Scheduler(make_model(make_queue()))
    for workload in found.pending:
        scheduler.submit(workload)
    first = "evicted" if second == 10 else "other"
    assert [event.key for event in scheduler.settle(0.0)] == [f"ns/{first}"]


def test_a_past_eviction_does_not_move_a_workload() -> None:
    """Source: IsEvictedByPodsReadyTimeout, workload.go: the condition must be true."""
    over = condition("Evicted", 30, "PodsReadyTimeout", status="False")
    assert read(make_body(conditions=[over])).created == read(make_body()).created


def test_without_sorting_by_priority_a_preempted_workload_waits_behind_its_preemptor() -> None:
    """Source: GetQueueOrderTimestamp, workload.go, with PrioritySortingWithinCohort off."""
    preempted = make_body(conditions=[condition("Preempted", 30, "InCohortReclaimWhileBorrowing")])
    off = gated(PrioritySortingWithinCohort=False)
    assert read(preempted, off).created - read(make_body(), off).created == pytest.approx(20.001)
    assert read(preempted).created == read(make_body()).created


@pytest.mark.parametrize(("by_priority", "first"), [(True, "high"), (False, "early")])
def test_the_heads_of_a_cohort_are_sorted_by_priority_or_by_time(by_priority: bool, first: str) -> None:
    """Source: entryOrdering, scheduler.go."""
    gates = gated(PrioritySortingWithinCohort=by_priority).gates
    model = make_model(
        *(make_queue(name, {"cpu": {"cpu": 0}}, "lab") for name in "qr"),
        make_queue("s", {"cpu": {"cpu": 1}}, "lab"),
        gates=gates,
    )
    scheduler = Scheduler(model)
    scheduler.submit(make_workload(name="early", queue="q", created=1.0))
    scheduler.submit(make_workload(name="high", queue="r", created=2.0, priority=5))
    assert [event.key for event in scheduler.settle(0.0)] == [f"ns/{first}"]


def test_of_workloads_admitted_in_one_second_the_lowest_uid_is_preempted() -> None:
    """Source: CandidatesOrdering, ordering.go."""
    model = make_model(make_queue(preemption=Preemption(within_cluster_queue="LowerPriority")))
    admitted = [
        AdmittedWorkload(make_workload(name=name, uid=uid), "q", {("cpu", "cpu"): 2000}, reserved_at=5.0)
        for name, uid in (("a", "2"), ("b", "1"))
    ]
    assert simulate(make_workload(priority=9), model, admitted=admitted).preempts == ("ns/b",)


def test_a_workload_waits_for_the_end_of_its_backoff() -> None:
    """Source: backoffWaitingTimeExpired, cluster_queue.go."""
    found = simulate(read(make_body(requeueState={"requeueAt": SECOND.format(40)})), make_model(make_queue()))
    assert (found.outcome, [reason.cause for reason in found.reasons]) == ("waits", ["backoff"])
    assert found.reasons[0].message == "Kueue queues it again at 2026-01-01T00:00:40+00:00, after its eviction"
    assert simulate(read(make_body(requeueState={"count": 1})), make_model(make_queue())).outcome == "fits"


@pytest.mark.parametrize(
    ("state", "outcome", "cause"),
    [("Retry", "waits", "check-retry"), ("Rejected", "never fits", "check-failed"), ("Pending", "fits", None)],
)
def test_a_failed_admission_check_keeps_a_workload_out(state: str, outcome: str, cause: str | None) -> None:
    """Source: nominate, scheduler.go (HasRetryChecks, HasRejectedChecks)."""
    workload = read(make_body(admissionChecks=[{"name": "budget", "state": state}]))
    found = simulate(workload, make_model(make_queue()))
    assert (found.outcome, [reason.cause for reason in found.reasons]) == (outcome, [cause] if cause else [])
    scheduler = Scheduler(make_model(make_queue()))
    scheduler.submit(workload)
    assert len(scheduler.settle(0.0)) == (cause is None)


def test_an_evicted_workload_holds_its_quota_until_its_reservation_ends() -> None:
    """Source: HasQuotaReservation and IsAdmissible, workload.go."""
    evicted, held = condition("Evicted", 30, "Preempted"), condition("QuotaReserved", 20)
    released = condition("QuotaReserved", 31, "Pending", status="False")
    ended = read_queue_state([make_body(conditions=[evicted, released])])
    assert ([workload.key for workload in ended.pending], ended.admitted) == (["ns/w"], ())
    reserving = read_queue_state([make_body(conditions=[evicted, held], admission=admission())])
    assert (reserving.pending, [workload.is_evicted for workload in reserving.admitted]) == ((), [True])
    found = simulate(make_workload(), make_model(make_queue(quotas={"cpu": {"cpu": 3}})), admitted=reserving.admitted)
    assert found.outcome == "waits"


def test_the_preemptor_of_an_evicted_workload_is_read_from_its_condition() -> None:
    """Source: preemptionMessage, preemption.go. Without an eviction, the condition is of an earlier one."""
    message = "Preempted to accommodate a workload (UID: 7f3a-1, JobUID: 9b) due to prioritization in the ClusterQueue"
    held, evicted = condition("QuotaReserved", 20), condition("Evicted", 30, "Preempted")
    preempted = {**condition("Preempted", 30, "InClusterQueue"), "message": message}
    (workload,) = read_queue_state([make_body(conditions=[held, evicted, preempted], admission=admission())]).admitted
    assert workload.preemptor_uid == "7f3a-1"
    (workload,) = read_queue_state([make_body(conditions=[held, preempted], admission=admission())]).admitted
    assert workload.preemptor_uid == ""


def test_neither_a_finished_nor_a_deactivated_workload_holds_quota() -> None:
    """Source: Update, workload_controller.go, which deletes both from the cache, without regard to their conditions."""
    held = [condition("QuotaReserved", 20), condition("Finished", 30)]
    finished = make_body(conditions=held, admission=admission())
    inactive = make_body(conditions=held[:1], admission=admission())
    inactive["spec"]["active"] = False
    found = read_queue_state([finished, inactive])
    assert (found.admitted, found.pending) == ((), ())


def test_evicted_workloads_are_preempted_first() -> None:
    """Source: CandidatesOrdering, ordering.go: their quota is released anyway."""
    model = make_model(make_queue(preemption=Preemption(within_cluster_queue="LowerPriority")))
    admitted = [make_admitted("low", cpu=2), make_admitted("evicted", cpu=2, priority=5, is_evicted=True)]
    assert simulate(make_workload(priority=9), model, admitted=admitted).preempts == ("ns/evicted",)
