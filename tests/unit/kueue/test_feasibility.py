"""The quick feasibility check before an attempt never excludes a workload whose attempt would succeed."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kueue.make import make_model, make_pods, make_queue, make_workload
from trainstack.kueue.feasibility import FeasibilityFilter, kind_of, minimum_needs, needs_of
from trainstack.kueue.model import AdmittedWorkload, Cohort, Model, Preemption, Quota, ResourceGroup, Workload
from trainstack.kueue.nomination import attempt_admission
from trainstack.kueue.snapshot import Snapshot

POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")


def drawn_model(draw: random.Random) -> Model:
    """Return three queues in a tree of one or two cohorts."""

    def quota() -> tuple[int, int | None, int | None]:
        lent = draw.choice((None, None, 1))
        return draw.choice((0, 2, 4)), draw.choice((None, None, 0, 2)), lent

    def preemption() -> Preemption:
        return Preemption(
            within_cluster_queue=draw.choice(POLICIES[:3]),  # type: ignore[arg-type]
            reclaim_within_cohort=draw.choice(("Never", "LowerPriority", "Any")),
            borrow_within_cohort=draw.random() < 0.3,
        )

    queues = [
        make_queue(
            name,
            {flavor: {"cpu": quota(), "nvidia.com/gpu": quota()} for flavor in ("one", "two")},
            draw.choice(("lab", "below")),
            preemption=preemption(),
        )
        for name in ("q", "r", "s")
    ]
    return make_model(*queues, cohorts=(Cohort("lab"), Cohort("below", draw.choice((None, "lab")))))


def drawn_workload(draw: random.Random, number: int) -> Workload:
    """Return a workload with one or two pod sets."""
    sets = [
        make_pods(f"set{index}", draw.choice((1, 2, 3)), cpu=draw.choice((1, 2)), gpu=draw.choice((0, 1, 2)))
        for index in range(draw.choice((1, 1, 2)))
    ]
    return make_workload(
        *sets,
        name=f"w{number}",
        queue=draw.choice(("q", "r", "s")),
        priority=draw.choice((0, 5)),
        created=float(number),
    )


@pytest.mark.parametrize("seed", range(40))
def test_an_infeasible_workload_is_not_admitted(seed: int) -> None:
    """The cases are trees of cohorts, with limits and preemption, while they fill."""
    draw = random.Random(seed)
    model = drawn_model(draw)
    snapshot = Snapshot(model)
    feasibility = FeasibilityFilter(snapshot.cluster_queues.values())
    infeasible = 0
    for number in range(60):
        workload = drawn_workload(draw, number)
        cq = snapshot.cluster_queues[workload.queue]
        outcome = attempt_admission(snapshot, cq, workload)
        if not feasibility.may_fit(cq, needs_of(workload, cq)):
            infeasible += 1
            assert not outcome.succeeds, workload
        elif outcome.succeeds:
            for target in outcome.targets:
                snapshot.remove(target)
                feasibility.invalidate(target.cluster_queue, target.usage)
            usage = dict(outcome.assignment.usage)
            snapshot.add(AdmittedWorkload(workload, workload.queue, usage, reserved_at=float(number)))
            feasibility.invalidate(workload.queue, usage)
    assert infeasible


def test_the_floor_of_needs_is_their_minimum() -> None:
    """If the floor is infeasible, so is each of the needs."""
    cq = Snapshot(make_model(make_queue("q", {"one": {"cpu": 8, "nvidia.com/gpu": 8}}))).cluster_queues["q"]
    needs = [needs_of(make_workload(make_pods(cpu=cpu, gpu=gpu)), cq) for cpu, gpu in ((1, 4), (3, 2))]
    assert kind_of(needs[0]) == kind_of(needs[1])
    lowest = minimum_needs(needs)
    assert {what[1]: number for what, number in lowest.choices[0][0]} == {"cpu": 1000, "nvidia.com/gpu": 2}
    too_much = needs_of(make_workload(make_pods(cpu=9)), cq)
    assert too_much.choices == ((),)
    assert needs_of(make_workload(make_pods(memory="1Gi")), cq).choices == ((),)


@pytest.mark.parametrize("flavors", [("one", "one"), ("one", "two")])
def test_the_preemption_of_a_borrower_may_release_another_resource(flavors: tuple[str, str]) -> None:
    """The preemption of a workload that borrows cpu also releases GPUs of the queue's own quota.

    The GPUs are in the same group or in another one.
    """
    cpu, gpu = (flavors[0], "cpu"), (flavors[1], "nvidia.com/gpu")
    groups = {flavor: frozenset(name for at, name in (cpu, gpu) if at == flavor) for flavor in flavors}
    changes: dict[str, Any] = {
        "groups": tuple(ResourceGroup(covered, (flavor,)) for flavor, covered in groups.items()),
        "quotas": {cpu: Quota(4000), gpu: Quota(4)},
        "cohort": "lab",
    }
    policy = Preemption(reclaim_within_cohort="LowerPriority", borrow_within_cohort=True)
    model = make_model(replace(make_queue("q", preemption=policy), **changes), replace(make_queue("r"), **changes))
    snapshot = Snapshot(model)
    other = make_workload(make_pods(cpu=6, gpu=4), name="other", queue="r")
    snapshot.add(AdmittedWorkload(other, "r", {cpu: 6000, gpu: 4}))
    workload, cq = make_workload(make_pods(cpu=4, gpu=6), priority=5), snapshot.cluster_queues["q"]
    assert attempt_admission(snapshot, cq, workload).succeeds
    assert FeasibilityFilter(snapshot.cluster_queues.values()).may_fit(cq, needs_of(workload, cq))
