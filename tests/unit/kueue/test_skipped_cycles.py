"""Skipped cycles and cached attempts do not change the events."""

from collections.abc import Hashable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kueue.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.feasibility import FeasibilityFilter
from trainstack.kueue.model import (
    Cohort,
    FlavorFungibility,
    Model,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Workload,
)
from trainstack.kueue.root_cohort import RootCohort
from trainstack.kueue.scheduler import Scheduler

Course = list[tuple[str, str, float, str]]
SECONDS = 3.00037
"""The time between submissions and ends; no cycle starts at exactly that time."""


def drawn_model(draw: Random) -> Model:
    """Return one to four queues in a tree of up to three cohorts, with one or two groups."""
    groups = draw.choice(
        (
            (ResourceGroup(frozenset(("cpu",)), ("one",)),),
            (ResourceGroup(frozenset(("cpu", "nvidia.com/gpu")), ("one", "two")),),
            (
                ResourceGroup(frozenset(("cpu",)), ("one", "two")),
                ResourceGroup(frozenset(("nvidia.com/gpu",)), ("three", "four")),
            ),
        )
    )
    return make_model(
        *(
            replace(make_queue(name), **drawn_queue(draw, groups))
            for name in ("q", "r", "s", "t")[: draw.randint(1, 4)]
        ),
        cohorts=(Cohort("lab"), Cohort("below", draw.choice((None, "lab"))), Cohort("apart")),
    )


def drawn_queue(draw: Random, groups: tuple[ResourceGroup, ...]) -> dict[str, Any]:
    """Return a queue's quotas, policies and cohort."""

    def quota(resource: str) -> Quota:
        unit = 1000 if resource == "cpu" else 1
        limits = [draw.choice((None, None, figure)) for figure in (2, 1)]
        return Quota(draw.choice((0, 2, 4)) * unit, *(None if limit is None else limit * unit for limit in limits))

    policies: tuple[Policy, ...] = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")
    reclaim = draw.choice(policies)
    return {
        "groups": groups,
        "quotas": {
            (flavor, resource): quota(resource)
            for group in groups
            for flavor in group.flavors
            for resource in group.covered_resources
        },
        "cohort": draw.choice(("lab", "lab", "below", "apart", None)),
        "is_strict_fifo": draw.random() < 0.2,
        "preemption": Preemption(
            within_cluster_queue=draw.choice(policies[:3]),
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=reclaim != "Never" and draw.random() < 0.3,
        ),
        "fungibility": FlavorFungibility(
            when_can_borrow=draw.choice(("MayStopSearch", "TryNextFlavor")),
            when_can_preempt=draw.choice(("MayStopSearch", "TryNextFlavor")),
        ),
    }


def drawn_workload(draw: Random, number: int, queues: list[str]) -> Workload:
    """Return a workload with one or two pod sets, perhaps with partial admission."""
    sets: list[PodSet] = []
    for index in range(draw.choice((1, 1, 2))):
        pods = make_pods(f"set{index}", draw.choice((1, 2, 3)), cpu=draw.choice((1, 2)), gpu=draw.choice((0, 1, 2)))
        requests = {name: total for name, total in pods.requests.items() if total}
        sets.append(replace(pods, requests=requests, min_count=draw.choice((None, None, 1))))
    priority = draw.choice((0, 0, 5))
    return make_workload(*sets, name=f"w{number}", queue=draw.choice(queues), priority=priority)


def course(model: Model, workloads: list[Workload], later: int, eviction_cycles: int, *, paced: bool) -> Course:
    """Return the events: some workloads are submitted at once, `later` ones one by one, and the first ones end."""
    scheduler = Scheduler(model, eviction_cycles=eviction_cycles, paced=paced)
    waiting = [replace(workload, created=float(number // 2)) for number, workload in enumerate(workloads)]
    at_once = len(waiting) - later
    for workload in waiting[:at_once]:
        scheduler.submit(workload)
    events: Course = []
    now = 0.0
    running: list[str] = []
    for turn in range(2 * len(waiting)):
        until = (turn + 1) * SECONDS
        while len(events) < 300 and (new := scheduler.advance(now, until)):
            events += [(event.kind, event.key, round(event.time, 6), event.preemptor) for event in new]
            evicted = {event.key for event in new if event.kind == "evicted"}
            running = [key for key in running if key not in evicted]
            running += [event.key for event in new if event.kind == "admitted"]
            now = new[-1].time
        now = until
        if turn < later:
            scheduler.submit(waiting[at_once + turn])
        elif running:
            scheduler.finish(running.pop(0))
    return events


@pytest.mark.parametrize("examples", [pytest.param(20, id="few"), pytest.param(600, id="many", marks=pytest.mark.slow)])
def test_skipped_cycles_and_attempts_do_not_change_the_events(examples: int) -> None:
    """The events have the same order, times and preemptors."""
    drawn = given(
        draw=st.randoms(use_true_random=False),
        alike=st.booleans(),
        eviction_cycles=st.sampled_from((0, 0, 2)),
        paced=st.booleans(),
    )
    limits = settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    limits(drawn(same_course))()


def same_course(draw: Random, alike: bool, eviction_cycles: int, paced: bool) -> None:
    """Assert that the events with skipped cycles equal those with every cycle."""
    model = drawn_model(draw)
    queues = list(model.cluster_queues or {})
    kinds = [drawn_workload(draw, number, queues) for number in range(5 if alike else 20)]
    drawn = draw.choices(kinds, k=20)
    workloads = [replace(workload, name=f"run{number}") for number, workload in enumerate(drawn)]
    later = draw.randint(0, 6)

    def found() -> Course:
        return course(model, workloads, later, eviction_cycles, paced=paced)

    quick = found()
    with pytest.MonkeyPatch.context() as patch:
        make_every_cycle(patch)
        assert found() == quick


def make_every_cycle(patch: pytest.MonkeyPatch) -> None:
    """Disable the feasibility filter and every cache."""
    nominate = RootCohort.nominate

    def nominate_anew(self: RootCohort, *args: object) -> object:
        self._attempts.clear()
        return nominate(self, *args)  # type: ignore[arg-type]

    def nothing(*_: Hashable) -> None:
        """Do nothing."""

    patch.setattr(RootCohort, "nominate", nominate_anew)
    patch.setattr(FeasibilityFilter, "_has_flavor", lambda *_: True)
    patch.setattr(FeasibilityFilter, "reject", nothing)
    patch.setattr(Scheduler, "_skip_repetitions", nothing)
