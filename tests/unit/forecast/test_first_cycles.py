"""A verdict in the present state is what the first cycles of a forecast decide."""

import os
from dataclasses import replace
from random import Random

import pytest

from tests.unit.kueue.test_skipped_cycles import drawn_model, drawn_workload
from trainstack.forecast.schedule import Schedule
from trainstack.forecast.simulation import simulate
from trainstack.forecast.tasks import Task
from trainstack.kueue.admission_simulator import AdmissionSimulator
from trainstack.kueue.delayed_requeue import EVICTION_DELAY
from trainstack.kueue.model import AdmittedWorkload, Model, Workload
from trainstack.kueue.scheduler import Scheduler
from trainstack.kueue.verdict import PodSetAdmission

Decision = tuple[str, tuple[PodSetAdmission, ...], frozenset[str]]
"""What becomes of the run, its admission, and the workloads that are evicted for it."""
SEED = int(os.environ.get("TRAINSTACK_ADMISSION_SEED", "1"))


def drawn_state(draw: Random) -> tuple[Model, list[AdmittedWorkload], list[Workload], Workload]:
    """Return queues with admitted and pending workloads, as the scheduler leaves them, and a run."""
    model = drawn_model(draw)
    queues = sorted(model.cluster_queues or {})
    workloads = [
        replace(drawn_workload(draw, number, queues), created=float(number), uid=f"w{number}")
        for number in range(draw.randint(3, 9))
    ]
    workloads = [replace(workload, priority=draw.choice((0, 0, 5, 9))) for workload in workloads]
    scheduler = Scheduler(model, paced=True)
    admitted: dict[str, AdmittedWorkload] = {}
    by_key = {workload.key: workload for workload in workloads}
    for workload in workloads[:-1]:
        scheduler.submit(workload)
        for event in scheduler.settle_present():
            if event.kind == "admitted":
                admitted[event.key] = AdmittedWorkload(
                    by_key[event.key], event.cluster_queue, event.usage, reserved_at=float(len(admitted)) - 99.0
                )
            else:
                uid = by_key[event.preemptor].uid
                admitted[event.key] = replace(admitted[event.key], is_evicted=True, preemptor_uid=uid)
    pending = [workload for workload in workloads[:-1] if workload.key not in admitted]
    return model, list(admitted.values()), pending, workloads[-1]


def decision_of_verdict(
    model: Model, admitted: list[AdmittedWorkload], pending: list[Workload], run: Workload
) -> Decision | None:
    verdict = AdmissionSimulator(model, admitted, pending).verdict(run)
    if verdict.outcome == "unknown":
        return None
    if verdict.preempts:
        evicted = {workload.workload.key for workload in admitted if workload.is_evicted}
        return ("preempts", (), frozenset(verdict.preempts) - evicted)
    return ("admitted", verdict.assigned, frozenset()) if verdict.fits else ("waits", (), frozenset())


def decision_of_forecast(schedule: Schedule, run: Workload, admitted: list[AdmittedWorkload]) -> Decision:
    """Return what is decided before the first eviction ends."""
    timelines = {timeline.task.key: timeline for timeline in schedule.timelines}
    spans = [span for span in timelines[run.key].spans if span.admitted < EVICTION_DELAY]
    if spans:
        return "admitted", spans[0].assignments, frozenset()
    evicted = frozenset(
        key
        for key, timeline in timelines.items()
        for span in timeline.spans
        if span.evicted_by == run.key and span.ended is not None and span.ended < EVICTION_DELAY
    )
    return ("preempts", (), evicted) if evicted else ("waits", (), frozenset())


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_verdict_is_what_the_first_cycles_of_a_forecast_decide(count: int) -> None:
    """In drawn states with strict heads, preemptions in progress and heads that are tried again and again."""
    decided = {"admitted": 0, "preempts": 0, "waits": 0, "behind others": 0}
    for index in range(count):
        model, admitted, pending, run = drawn_state(Random(f"{SEED}/{index}"))
        own = decision_of_verdict(model, admitted, pending, run)
        if own is None:
            continue
        tasks = [
            *(Task(workload=workload.workload, elapsed=-workload.reserved_at) for workload in admitted),
            *(Task(workload=workload, is_pending=True) for workload in pending),
            Task(workload=run),
        ]
        forecast = decision_of_forecast(simulate(tasks, model, admitted), run, admitted)
        if own == ("preempts", (), frozenset()):
            # Everything that it preempts is being evicted already: the forecast shows nothing of that.
            assert forecast[0] == "waits", f"seed {SEED}/{index}"
            continue
        assert own == forecast, f"seed {SEED}/{index}"
        decided[own[0]] += 1
        decided["behind others"] += own[0] == "waits" and bool(AdmissionSimulator(model, admitted).verdict(run).fits)
    assert all(number * 100 > count for number in decided.values()), decided
