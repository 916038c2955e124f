"""Verdicts in the present state: workloads that wait, and others that are in their way although quota is available."""

from dataclasses import replace

import pytest

from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from trainstack.forecast.notes import note_on_run
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Task
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.model import AdmittedWorkload, Model, Preemption, Workload
from trainstack.kueue.verdict import Verdict

LOWER = Preemption(within_cluster_queue="LowerPriority")
COHORT = make_model(make_queue("a", cohort="lab", is_strict_fifo=True), make_queue("b", {"cpu": {"cpu": 2}}, "lab"))
"""A strict queue with 4 cpu, and one with 2."""


def make_run(name: str, *cpus: int, queue: str = "q", **changes: object) -> Workload:
    """Return a workload with a pod set of one pod for each amount of cpu, created after the admission of others."""
    sets = [make_pods(f"p{index}", cpu=cpu) for index, cpu in enumerate(cpus)]
    return make_workload(*sets, queue=queue, name=name, uid=name, **{"created": 1.0, **changes})


def reasons(verdict: Verdict) -> tuple[str, list[str]]:
    """Return the outcome and the messages."""
    return verdict.outcome, [reason.message for reason in verdict.reasons]


def present(model: Model, admitted: list[AdmittedWorkload], pending: list[Workload], run: Workload) -> Verdict:
    """Return the verdict on a run that is submitted after the pending workloads."""
    return AdmissionSimulator(model, admitted, pending).verdict(replace(run, created=9.0))


def test_a_strict_head_of_another_queue_reserves_quota_of_the_cohort() -> None:
    """Kueue tries the head in every cycle, keeps the last cpu of its queue for it, and skips the run."""
    used, head, run = make_admitted("used", "a", cpu=3), make_run("head", 4, queue="a"), make_run("run", 3, queue="b")
    assert present(COHORT, [used], [], run).outcome == "fits by borrowing"
    message = "Kueue keeps quota of the cohort for ns/head, which waits at the head of cluster queue a"
    assert reasons(present(COHORT, [used], [head], run)) == ("waits", [message])
    assert present(COHORT, [used], [head], make_run("run", 2, queue="b")).outcome == "fits"


def test_a_preemption_in_progress_holds_up_the_queue() -> None:
    """The preemptor stays the head until its victim has ended, even before a workload of higher priority."""
    model = make_model(make_queue(preemption=LOWER))
    victim = make_admitted("victim", cpu=3, is_evicted=True, preemptor_uid="head")
    head = make_run("head", 4, priority=5)
    message = "ns/head is ahead in cluster queue q, and waits for the end of ns/victim, which it preempts"
    for priority in (0, 9):
        found = present(model, [victim], [head], make_run("run", 1, priority=priority))
        assert reasons(found) == ("waits", [message])


def test_a_preemption_in_progress_takes_the_quota_that_it_frees() -> None:
    """Another queue of the cohort may neither borrow the quota nor preempt the same workload."""
    model = make_model(make_queue("a", cohort="lab", preemption=LOWER), make_queue("b", {"cpu": {"cpu": 0}}, "lab"))
    victim = make_admitted("victim", "a", cpu=3, is_evicted=True, preemptor_uid="head")
    head = make_run("head", 4, queue="a", priority=5)
    message = "ns/head comes first, from cluster queue a, and waits for the end of ns/victim, which it preempts"
    assert reasons(present(model, [victim], [head], make_run("run", 1, queue="b"))) == ("waits", [message])


def test_a_workload_that_preempts_first_takes_the_quota() -> None:
    """A pending workload begins the preemption now, and the run waits behind it."""
    model = make_model(make_queue(preemption=LOWER))
    head = make_run("head", 4, priority=5)
    message = "ns/head is ahead in cluster queue q, and waits for the end of ns/low, which it preempts"
    assert reasons(present(model, [make_admitted("low", cpu=3)], [head], make_run("run", 1))) == ("waits", [message])


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_head_whose_attempts_repeat_holds_up_its_queue(is_strict: bool) -> None:
    """Its attempts leave flavors untried again and again, so Kueue never tries the run (57 times in two seconds)."""
    model = make_model(make_queue("q", {"f": {"cpu": 4}, "g": {"cpu": 3}}, is_strict_fifo=is_strict))
    head = make_run("head", 2, 4, 2)
    message = (
        "cluster queue q is StrictFIFO: ns/head never fits, and holds up all workloads behind it"
        if is_strict
        else "Kueue tries ns/head again in every cycle, and nothing behind it in cluster queue q"
    )
    assert reasons(present(model, [], [head], make_run("run", 1))) == ("waits", [message])
    assert present(model, [], [head], make_run("run", 1, priority=1)).outcome == "fits"
    used = make_admitted("used", flavor="g", cpu=3)
    assert present(model, [used], [make_run("head", 3, 3)], make_run("run", 1)).outcome == "waits"


def test_a_head_that_may_have_failed_before_others_were_admitted_makes_the_verdict_unknown() -> None:
    """With the usage of its last attempt it may have tried all flavors, and then waits for a release of quota."""
    model = make_model(make_queue("q", {"f": {"cpu": 4}, "g": {"cpu": 3}}))
    used = make_admitted("used", flavor="g", cpu=3, reserved_at=5.0)
    found = present(model, [used], [make_run("head", 3, 3)], make_run("run", 1))
    message = "it depends on whether Kueue admits or tries ns/head before it, which is unknown"
    assert reasons(found) == ("unknown", [message])
    assert present(model, [used], [make_run("head", 3, 3)], make_run("run", 5)).outcome == "never fits"


def test_a_pending_workload_that_fits_is_admitted_first() -> None:
    """The quota that it takes is not available to the run."""
    model = make_model(make_queue())
    found = present(model, [], [make_run("first", 3)], make_run("run", 2))
    message = "1 p0 pod needs 2 cpu; cluster queue q has 1 of flavor cpu available (1 must be released)"
    assert reasons(found) == ("waits", [message])
    assert present(model, [], [make_run("first", 3)], make_run("run", 1)).outcome == "fits"


def test_a_verdict_of_kueues_own_code_counts_after_the_pending_workloads() -> None:
    """It is about the run alone: a pending workload may take its quota, or hold it up."""
    run, head = make_run("run", 2), make_run("head", 4)
    alone = replace(AdmissionSimulator(make_model(make_queue())).idle_verdict(run), judged_by="Kueue v0.19.2")

    def outcome(model: Model, *pending: Workload) -> str:
        return AdmissionSimulator(model, [make_admitted("used")], pending, {run.key: alone}).verdict(run).outcome

    assert outcome(make_model(make_queue())) == "fits"
    assert outcome(make_model(make_queue()), make_run("first", 2)) == "waits"
    assert outcome(make_model(make_queue()), replace(head, created=0.5)) == "fits"
    assert outcome(make_model(make_queue(is_strict_fifo=True)), replace(head, created=0.5)) == "waits"


@pytest.mark.parametrize(("is_strict", "outcome"), [(True, "unknown"), (False, "fits")])
def test_a_head_of_unknown_admission_makes_what_depends_on_it_unknown(is_strict: bool, outcome: str) -> None:
    """Behind it in a strict queue, the run fits only if the head is admitted."""
    model = make_model(make_queue(is_strict_fifo=is_strict))
    head = make_run("head", 1, unmodeled_fields=("status.new",))
    found = present(model, [], [head], make_run("run", 2))
    assert found.outcome == outcome
    # Without the head, all quota is available; behind it in a strict queue, the run waits in any case.
    found = present(model, [], [head], make_run("run", 2 if is_strict else 4))
    assert reasons(found) == (
        "unknown",
        ["it depends on whether Kueue admits or tries ns/head before it, which is unknown"],
    )
    assert present(model, [], [head], make_run("run", 4)).outcome == ("waits" if is_strict else "unknown")


def test_admission_waits_for_the_pods_of_a_workload_that_comes_first() -> None:
    """With blockAdmission, Kueue admits the run when the pods of all before it are ready."""
    model = replace(make_model(make_queue()), blocks_admission=True)
    message = "waitForPodsReady.blockAdmission: Kueue admits nothing until the pods of ns/first are ready"
    assert reasons(present(model, [], [make_run("first", 1)], make_run("run", 1))) == ("waits", [message])


def test_the_forecast_names_a_head_whose_attempts_repeat() -> None:
    """The run behind it never starts, and the note says why."""
    model = make_model(make_queue("q", {"f": {"cpu": 4}, "g": {"cpu": 3}}))
    head, run = make_run("head", 2, 4, 2), make_run("run", 1, created=2.0)
    schedule = simulate([Task(workload=head, is_pending=True), Task(workload=run)], model)
    timeline = schedule.timelines[1]
    assert timeline.spans == ()
    message = "Kueue tries ns/head again in every cycle, and nothing behind it in cluster queue q"
    assert note_on_run(timeline, schedule, model, None) == message


def test_a_forecast_tries_what_waits_in_the_cluster_before_it_submits_runs() -> None:
    """A hundred workloads that do not fit have been tried, so the run behind them starts now, not after ten seconds."""
    pending = [Task(workload=make_run(f"w{number}", 5 + number % 3), is_pending=True) for number in range(100)]
    run = Task(workload=make_run("run", 1, created=2.0))
    assert simulate([*pending, run], make_model(make_queue())).timelines[-1].start == 0.0


def test_a_refused_workload_is_the_head_of_a_strict_queue() -> None:
    """Kueue tries a workload with a failed admission check in every cycle, and nothing behind it."""
    head = make_run("head", 1, failed_checks={"check": "Rejected"})
    strict, best_effort = make_model(make_queue(is_strict_fifo=True)), make_model(make_queue())
    message = "cluster queue q is StrictFIFO: ns/head never fits, and holds up all workloads behind it"
    assert reasons(present(strict, [], [head], make_run("run", 1))) == ("waits", [message])
    assert present(best_effort, [], [head], make_run("run", 1)).outcome == "fits"
